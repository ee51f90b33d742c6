"""The engine ``onnx``: ONNX files, by ONNX Runtime."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from modelflow.device import Device
from modelflow.device.torch_memory import load_torch
from modelflow.engine.engine import (
    Arrays,
    Engine,
    LoadedModel,
    LoadRequest,
    one_sentence,
    unknown_port,
)
from modelflow.engine.file_form import looks_like
from modelflow.engine.options import GpuMemoryOptions
from modelflow.errors import DeviceUnavailableError, EngineError, MissingDependencyError
from modelflow.wire.tensor import TensorSpec

__all__ = ["OnnxEngine"]

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "string": "object",
    "bfloat16": None,
}


class OnnxEngine(Engine):
    """Runs ``.onnx`` files; ports are the graph's inputs and outputs."""

    suffixes = (".onnx",)
    requires: ClassVar[Mapping[str, str]] = {"onnxruntime": "onnx"}
    device_kinds = ("cpu", "cuda")
    options = GpuMemoryOptions

    def load(self, request: LoadRequest) -> LoadedModel:
        """Loads a file and checks its ports; see `Engine.load`."""
        runtime = _load_runtime()
        path = request.path
        if path.is_dir():
            message = f"model {path}: a folder; expected an ONNX file (.onnx)"
            raise EngineError(message)
        try:
            session = runtime.InferenceSession(
                str(path),
                _settings(runtime, request),
                providers=_providers(runtime, request),
            )
        except _errors() as error:
            message = (
                f"model {path}: {looks_like(path)}; ONNX Runtime {runtime.__version__} does not "
                f"load it: {_reason(error)}"
            )
            raise EngineError(message) from error
        if request.device.kind == "cpu":
            return OnnxModel(session, request)
        return OnnxDeviceModel(session, request)


class OnnxModel(LoadedModel):
    """A session on the CPU: reads NumPy arrays where they lie."""

    def __init__(self, session: Any, request: LoadRequest) -> None:
        """Checks the ports.

        Raises:
            EngineError: no such port, an input that no port feeds, or a type that is no array.
        """
        self._path = request.path
        known_inputs = _specs(request.path, session.get_inputs())
        known_outputs = _specs(request.path, session.get_outputs())
        self.inputs = _chosen(request.path, "input", request.inputs, known_inputs)
        self.outputs = _chosen(request.path, "output", request.outputs, known_outputs)
        _require_fed(request.path, self.inputs, known_inputs)
        self._fetches = [spec.name for spec in self.outputs]
        self._session = session

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Runs one batch; see `LoadedModel.run`."""
        session = self._opened()
        try:
            values = session.run(self._fetches, dict(inputs))
        except _errors() as error:
            message = f"model {self._path}: {_reason(error)}"
            raise EngineError(message) from error
        return dict(zip(self._fetches, values, strict=True))

    def close(self) -> None:
        """Frees the session and with it the weights."""
        self._session = None

    def _opened(self) -> Any:
        if self._session is None:
            message = "the model is closed"
            raise EngineError(message)
        return self._session


class OnnxDeviceModel(OnnxModel):
    """A session on a GPU: inputs and outputs stay there, bound by their addresses.

    Each call has a binding of its own; the session itself is re-entrant.
    """

    def __init__(self, session: Any, request: LoadRequest) -> None:
        """Checks the ports; see `OnnxModel`."""
        super().__init__(session, request)
        self.memory = request.device

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs one batch of tensors; the outputs are tensors on the same device."""
        torch = load_torch()
        session = self._opened()
        binding = session.io_binding()
        where, index = self.memory.kind, self.memory.index
        for spec in self.inputs:
            tensor = inputs[spec.name].contiguous()
            binding.bind_input(
                spec.name, where, index, spec.dtype, tuple(tensor.shape), tensor.data_ptr()
            )
        for name in self._fetches:
            binding.bind_output(name, where, index)
        # The runtime works on a stream of its own: the inputs must be there, and it waits itself.
        torch.cuda.current_stream(index).synchronize()
        try:
            session.run_with_iobinding(binding)
        except _errors() as error:
            message = f"model {self._path}: {_reason(error)}"
            raise EngineError(message) from error
        values = binding.get_outputs()
        results = {
            name: torch.as_tensor(_DeviceValue(value), device=f"{where}:{index}").clone()
            for name, value in zip(self._fetches, values, strict=True)
        }
        # The next run may write where these values lie: the runtime knows no reader of them.
        torch.cuda.current_stream(index).synchronize()
        return results


class _DeviceValue:
    """A value of ONNX Runtime on a GPU, as PyTorch reads one: without a copy."""

    def __init__(self, value: Any) -> None:
        self._value = value  # keeps the memory
        dtype = np.dtype(_dtype_name(value.data_type()) or "float32")
        self.__cuda_array_interface__ = {
            "shape": tuple(value.shape()),
            "typestr": dtype.str,
            "data": (value.data_ptr(), False),
            "version": 3,
        }


@cache
def _load_runtime() -> Any:
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        package = "onnxruntime"
        raise MissingDependencyError(package, "onnx", "engine 'onnx'") from error
    except ImportError as error:
        message = f"engine 'onnx': the package is there but cannot be imported: {error}"
        raise EngineError(message) from error
    onnxruntime.set_default_logger_severity(3)  # what goes wrong is raised
    return onnxruntime


def _settings(runtime: Any, request: LoadRequest) -> Any:
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = request.options.intra_op_threads
    settings.inter_op_num_threads = request.options.inter_op_threads
    if request.options.inter_op_threads > 1:
        settings.execution_mode = runtime.ExecutionMode.ORT_PARALLEL
    # Threads that spin while they wait take the processors from the other nodes.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return settings


def _providers(runtime: Any, request: LoadRequest) -> list[Any]:
    wanted = _PROVIDERS[request.device.kind]
    available = runtime.get_available_providers()
    if wanted not in available:
        message = (
            f"device {request.device}: ONNX Runtime {runtime.__version__} has no {wanted}, only "
            f"{', '.join(available)}; for CUDA install onnxruntime-gpu"
        )
        raise DeviceUnavailableError(message)
    if request.device.kind == "cpu":
        return [wanted]
    settings: dict[str, Any] = {"device_id": request.device.index}
    memory = request.options.gpu_memory
    if memory != "growth":
        settings["gpu_mem_limit"] = _limit(float(memory), request.device)
    return [(wanted, settings), _PROVIDERS["cpu"]]


def _limit(memory: float, device: Device) -> int:
    from modelflow.device.driver import total_memory

    return int(memory * (1 << 20) if memory > 1 else memory * total_memory(device.index))


def _specs(path: Path, values: Sequence[Any]) -> list[TensorSpec]:
    specs = []
    for value in values:
        name = _dtype_name(value.type)
        if name is None:
            message = (
                f"model {path}: the port {value.name!r} is of type {value.type}; expected an array"
            )
            raise EngineError(message)
        shape = tuple(extent if isinstance(extent, int) else None for extent in value.shape)
        specs.append(TensorSpec(value.name, np.dtype(name), shape))
    return specs


def _dtype_name(text: str) -> str | None:
    """Gives NumPy's name of ``"tensor(float)"``; None where there is none."""
    if not text.startswith("tensor("):
        return None
    name = text[len("tensor(") : -1]
    found = _DTYPES.get(name, name)
    try:
        np.dtype(found)
    except TypeError:
        return None
    return found


def _chosen(
    path: Path, what: str, names: Sequence[str], known: Sequence[TensorSpec]
) -> tuple[TensorSpec, ...]:
    by_name = {spec.name: spec for spec in known}
    for name in names:
        if name not in by_name:
            raise EngineError(unknown_port(path, what, name, known))
    return tuple(by_name[name] for name in names) if names else tuple(known)


def _require_fed(path: Path, given: Sequence[TensorSpec], known: Sequence[TensorSpec]) -> None:
    absent = [str(spec) for spec in known if spec not in given]
    if absent:
        message = (
            f"model {path}: its input {absent[0]} is fed by no port; declare an input for each: "
            f"{', '.join(map(str, known))}"
        )
        raise EngineError(message)


@cache
def _errors() -> tuple[type[Exception], ...]:
    """Gives the exceptions of the runtime, which share no class of their own."""
    module = _load_runtime().capi.onnxruntime_pybind11_state
    own = [found for found in vars(module).values() if isinstance(found, type)]
    return (*(found for found in own if issubclass(found, Exception)), RuntimeError, ValueError)


def _reason(error: Exception) -> str:
    # "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : the sentence"
    return one_sentence(str(error).split(" : ", 3)[-1])
