"""PyTorch's options, its settings of the whole process, and its names of devices."""

import threading
from dataclasses import dataclass
from typing import Any, Literal

from modelflow.device import CPU, Device, memory_of
from modelflow.device.torch_memory import TorchMemory, load_torch
from modelflow.engine.engine import LoadRequest, absent_gpu, late_setting_error
from modelflow.engine.options import ThreadOptions
from modelflow.errors import EngineError
from modelflow.unit.option import option


@dataclass(frozen=True)
class TorchOptions(ThreadOptions):
    """The options of a node whose model PyTorch runs."""

    precision: Literal["", "fp32", "tf32", "fp16", "bf16"] = option(
        "",
        help="Number type of the calculation. If empty, as the model was saved. fp16 and bf16 "
        "convert weights and inputs; outputs are float32 again.",
    )
    channels_last: bool = option(
        False, help="Store weights and images with the channels last; faster for convolutions."
    )
    cuda_graph: bool = option(
        False,
        help="Capture the model as a CUDA graph for each of allowed_batch_sizes, which saves the "
        "launches of single kernels. Without allowed_batch_sizes for 1, 2, 4, 8 ... and "
        "batch_size.",
    )

    @property
    def has_few_sizes(self) -> bool:
        """True if the engine captures a CUDA graph for each batch size."""
        return self.cuda_graph


_lock = threading.Lock()
# The place of `allow_tf32` among the arguments of `aten::_convolution`: native_functions.yaml.
_ALLOW_TF32 = 12
_is_tf32: dict[str, bool] = {}


def torch_device(device: Device) -> Any:
    """Returns PyTorch's value for a device.

    Raises:
        DeviceUnavailableError: PyTorch does not see that GPU.
    """
    torch = load_torch()
    if device.kind == CPU.kind:
        return torch.device("cpu")
    memory = memory_of(device.kind)
    assert isinstance(memory, TorchMemory)  # the engine's device kinds
    found = memory.torch_device(device)
    if found.type == "cuda" and device.index >= torch.cuda.device_count():
        library, count = f"PyTorch {torch.__version__}", torch.cuda.device_count()
        raise absent_gpu(device, library, count, has_cuda=bool(torch.version.cuda))
    return found


def apply_settings(request: LoadRequest) -> None:
    """Sets threads and the use of TF32 for the whole process.

    Raises:
        EngineError: Another node has set other values, PyTorch has started with other values, or
            ``cuda_graph`` is requested on the CPU.
    """
    torch, options = load_torch(), request.options
    if options.cuda_graph and request.device.kind == CPU.kind:
        raise EngineError(
            f"cuda_graph: got true on the device {request.device}; it needs a CUDA device"
        )
    with _lock:
        if options.intra_op_threads:
            torch.set_num_threads(options.intra_op_threads)
        wanted = options.inter_op_threads
        if wanted and wanted != torch.get_num_interop_threads():
            try:
                torch.set_num_interop_threads(wanted)
            except RuntimeError as error:
                running = torch.get_num_interop_threads()
                raise late_setting_error(
                    running, f"inter_op_threads: got {wanted}", "number", "PyTorch"
                ) from error
        if options.precision in ("fp32", "tf32"):
            _set_tf32(torch, options.precision == "tf32")


def set_traced_tf32(graph: Any, precision: str) -> None:
    """Sets the use of TF32 in the convolutions of a trace.

    ``torch.jit.trace`` writes into each convolution whether TF32 was allowed during the trace,
    which is PyTorch's default. The setting of the process does not change a recorded value.

    Args:
        graph: The graph of a frozen module, in which all calls are inlined. The function changes
            it.
        precision: ``fp32`` or ``tf32``. With another value the graph stays unchanged.
    """
    if precision not in ("fp32", "tf32"):
        return
    wanted = graph.insertConstant(precision == "tf32")
    wanted.node().moveBefore(next(graph.nodes()))
    for node in graph.findAllNodes("aten::_convolution"):
        if len(list(node.inputs())) > _ALLOW_TF32:  # traces of PyTorch before 1.7 have none
            node.replaceInput(_ALLOW_TF32, wanted)


def _set_tf32(torch: Any, is_wanted: bool) -> None:
    if _is_tf32.setdefault("set", is_wanted) != is_wanted:
        other = "fp32" if is_wanted else "tf32"
        raise EngineError(
            f"precision: another model of this process runs with {other}. TF32 is on or off for "
            "the whole process: give all models the same choice of fp32 and tf32"
        )
    torch.backends.cuda.matmul.allow_tf32 = is_wanted
    torch.backends.cudnn.allow_tf32 = is_wanted
