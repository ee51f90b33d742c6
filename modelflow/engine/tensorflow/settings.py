"""TensorFlow's options, and its settings of the whole process: threads, GPU memory, devices."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from modelflow.device import Device
from modelflow.engine.engine import absent_gpu, late_setting_error
from modelflow.engine.options import GpuMemoryOptions
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.errors import EngineError
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
    precision: Literal["fp32", "bf16"] = option(
        "fp32",
        help="Number type of convolutions and matrix products on the CPU, for the whole process: "
        "fp32, or bf16 on processors with AMX.",
    )


_MIB = 1 << 20
# TensorFlow reads the variable once, at its first convolution or matrix product.
_FPMATH = "TF_SET_ONEDNN_FPMATH_MODE"

_log = logging.getLogger(__name__)


def apply_settings(options: TensorFlowOptions) -> None:
    """Sets threads, precision and GPU memory before TensorFlow starts.

    Raises:
        EngineError: TensorFlow has started with other settings, and the text names both. Or the
            processor has no bf16 that TensorFlow uses.
    """
    _set_threads("intra_op", options.intra_op_threads)
    _set_threads("inter_op", options.inter_op_threads)
    _set_precision(options.precision)
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


def _set_precision(wanted: str) -> None:
    running = "bf16" if os.environ.get(_FPMATH, "").upper() == "BF16" else "fp32"
    # oneDNN computes float32 in bfloat16 on AMX alone, and in float32 on all other processors.
    if wanted == "bf16" and "amx_bf16" not in _processor_flags():
        raise EngineError(
            "precision: got bf16, but this processor has no AMX (amx_bf16), and TensorFlow would "
            "compute in fp32. Set fp32, or convert the model and run it with the engine openvino"
        )
    if wanted == running:
        return
    if _has_started():
        raise late_setting_error(running, f"precision: got {wanted}", "precision", "TensorFlow")
    if wanted == "bf16":
        os.environ[_FPMATH] = "BF16"
        return
    del os.environ[_FPMATH]
    _log.warning("precision=fp32 replaces %s=BF16; set precision=bf16 to compute in bf16", _FPMATH)


def _processor_flags() -> frozenset[str]:
    """Returns the instructions that Linux lists for the processor; empty on other systems."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def _has_started() -> bool:
    """Returns True if TensorFlow has started, and therefore refuses another number of threads."""
    threading = load_tensorflow().config.threading
    current = threading.get_inter_op_parallelism_threads()
    try:
        threading.set_inter_op_parallelism_threads(current + 1)
    except RuntimeError:
        return True
    threading.set_inter_op_parallelism_threads(current)
    return False


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
