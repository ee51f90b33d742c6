"""TensorFlow's options, and its settings of the whole process: threads, GPU memory, devices."""

import logging
from dataclasses import dataclass
from typing import Any

from modelflow.device import Device
from modelflow.engine.engine import absent_gpu, late_setting_error
from modelflow.engine.options import GpuMemoryOptions
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.unit.option import option


@dataclass(frozen=True)
class TensorFlowOptions(GpuMemoryOptions):
    """The options of a node whose model TensorFlow runs."""

    signature: str = option(
        "",
        help="Signature of a SavedModel. If empty, serving_default, or else the only signature.",
    )
    xla: bool = option(
        False,
        help="Compile the model with XLA, once for each batch size: set allowed_batch_sizes.",
    )


_MIB = 1 << 20

_log = logging.getLogger(__name__)


def apply_settings(options: TensorFlowOptions) -> None:
    """Sets threads and GPU memory before TensorFlow starts.

    Raises:
        EngineError: TensorFlow has started with other settings. The text names both.
    """
    _set_threads("intra_op", options.intra_op_threads)
    _set_threads("inter_op", options.inter_op_threads)
    tf = load_tensorflow()
    for index, gpu in enumerate(tf.config.list_physical_devices("GPU")):
        if options.gpu_memory == "growth":
            _let_grow(gpu)
        else:
            _limit_memory(gpu, options.gpu_bytes(index) // _MIB, float(options.gpu_memory))
    # This starts TensorFlow. A session alone would not, and later settings would go unnoticed.
    tf.config.list_logical_devices()


def device_name(device: Device) -> str:
    """Returns TensorFlow's name of ``device``.

    Raises:
        DeviceUnavailableError: TensorFlow does not see that GPU.
    """
    if device.kind == "cpu":
        return "/device:CPU:0"
    tf = load_tensorflow()
    count = len(tf.config.list_physical_devices("GPU"))
    if device.index >= count:
        library, has_cuda = f"TensorFlow {tf.__version__}", tf.test.is_built_with_cuda()
        raise absent_gpu(device, library, count, has_cuda=has_cuda)
    return f"/device:GPU:{device.index}"


def _set_threads(kind: str, wanted: int) -> None:
    threading = load_tensorflow().config.threading
    current = getattr(threading, f"get_{kind}_parallelism_threads")()
    if wanted in (0, current):
        return
    try:
        getattr(threading, f"set_{kind}_parallelism_threads")(wanted)
    except RuntimeError as error:
        running, setting = current or "its own choice", f"{kind}_threads: got {wanted}"
        raise late_setting_error(running, setting, "number", "TensorFlow") from error


def _let_grow(gpu: Any) -> None:
    config = load_tensorflow().config
    if config.experimental.get_memory_growth(gpu) or config.get_logical_device_configuration(gpu):
        return
    try:
        config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:
        _log.warning(
            "%s: TensorFlow has already started and takes all the GPU's memory; "
            "for gpu_memory=growth start the flow before anything else uses TensorFlow",
            gpu.name,
        )


def _limit_memory(gpu: Any, mebibytes: int, wanted: float) -> None:
    config = load_tensorflow().config
    limits = [part.memory_limit for part in config.get_logical_device_configuration(gpu) or ()]
    if limits == [mebibytes]:
        return
    try:
        if config.experimental.get_memory_growth(gpu):
            config.experimental.set_memory_growth(gpu, False)
        config.set_logical_device_configuration(
            gpu, [config.LogicalDeviceConfiguration(memory_limit=mebibytes)]
        )
    except RuntimeError as error:
        running, setting = limits or "other limits", f"gpu_memory: got {wanted:g}"
        raise late_setting_error(running, setting, "limit", "TensorFlow") from error
