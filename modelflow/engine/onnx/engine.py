"""The engine ``onnx``: ONNX files, by ONNX Runtime."""

import re
from collections.abc import Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from modelflow.device.torch_memory import load_torch
from modelflow.engine.engine import (
    Arrays,
    Engine,
    LoadedModel,
    LoadRequest,
    check_ports,
    model_error,
    one_sentence,
    refuse_closed,
    require_fed,
)
from modelflow.engine.model_file import looks_like
from modelflow.engine.onnx.settings import (
    OnnxOptions,
    check_providers,
    load_runtime,
    providers,
    session_options,
)
from modelflow.errors import EngineError, ItemRefusedError
from modelflow.wire.tensor import TensorSpec

# The place in the runtime's source that raised an error: a path, a line, a function, perhaps with
# its type and parameters. An error that another error quotes also has a number and a name.
_SOURCE = re.compile(
    r"(?:\[ONNXRuntimeError\] : \d+ : \w+ : )?\S*?\.(?:cc|h):\d+ "
    r"(?:(?:\S+ )?[\w:~<>]+\([^)]*\)(?: const)?|\w+) "
)
# Exceptions of the runtime for inputs that a kernel refuses: each kernel's author chose another.
# The second pattern matches messages about the memory or the device instead.
_OF_INPUTS = ("InvalidArgument", "Fail", "RuntimeException")
_OWN_FAULT = re.compile(
    r"fail(ed|ure) to allocate|bad_alloc|out of memory|CUDA\w* (failure|error)|CUDNN|CUBLAS",
    re.IGNORECASE,
)
_OPSET = re.compile(r"Opset (\d+) is under development.*domain (\S+) is till opset (\d+)")
# Names that converters make up for an axis of unknown length, a different name for each axis:
# tf2onnx ("unk__12"), and PyTorch ("x_dynamic_axes_1", "Reshapey_dim_0").
_MADE_UP = re.compile(r"^unk__\d+$|_dynamic_axes_\d+$|_dim_\d+$")
_DTYPES = {"float": "float32", "double": "float64", "string": "object", "bfloat16": None}


class OnnxEngine(Engine):
    """Runs ``.onnx`` files. Ports are the graph's inputs and outputs."""

    suffixes = (".onnx",)
    requires: ClassVar[Mapping[str, str]] = {"onnxruntime": "onnx"}
    device_kinds = ("cpu", "cuda")
    options = OnnxOptions

    def load(self, request: LoadRequest) -> LoadedModel:
        """Loads a file and checks its ports; see `Engine.load`."""
        runtime = load_runtime()
        path = request.path
        if path.is_dir():
            raise model_error(path, "a folder; expected an ONNX file (.onnx)")
        settings, wanted = session_options(request.options), providers(request)
        try:
            session = runtime.InferenceSession(str(path), settings, providers=wanted)
        except _errors() as error:
            raise model_error(
                path,
                f"{_form(path)}ONNX Runtime {runtime.__version__} does not load it: "
                f"{_reason(error)}",
            ) from error
        check_providers(session, wanted)
        if request.device.kind == "cpu":
            return OnnxModel(session, request)
        return OnnxDeviceModel(session, request)


class OnnxModel(LoadedModel):
    """A session on the CPU, which reads NumPy arrays without copies."""

    keeps_outputs = False

    text_type = str

    def __init__(self, session: Any, request: LoadRequest) -> None:
        """Checks the ports.

        Raises:
            EngineError: The model lacks a port, no port feeds an input, or a type is no array.
        """
        self._path = request.path
        inputs, outputs = session.get_inputs(), session.get_outputs()
        batch = {value.shape[0] for value in inputs if value.shape}
        self.inputs = tuple(
            _spec(request.path, value, bool(value.shape))
            for value in _choose(request.path, "input", request.inputs, inputs)
        )
        self.outputs = tuple(
            _spec(request.path, value, _is_batched(value.shape, batch))
            for value in _choose(request.path, "output", request.outputs, outputs)
        )
        require_fed(request.path, [spec.name for spec in self.inputs], list(map(_text, inputs)))
        self._fetches = [spec.name for spec in self.outputs]
        self._session = session

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Runs one batch; see `LoadedModel.run`."""
        session = self._session or refuse_closed()
        try:
            values = session.run(self._fetches, dict(inputs))
        except _errors() as error:
            raise self._error(error) from error
        return dict(zip(self._fetches, values, strict=True))

    def close(self) -> None:
        """Frees the session and the weights."""
        self._session = None

    def _error(self, error: Exception) -> EngineError:
        is_of_inputs = type(error).__name__ in _OF_INPUTS and not _OWN_FAULT.search(str(error))
        if is_of_inputs:
            return ItemRefusedError(f"model {self._path.name}: {_reason(error)}")
        return model_error(self._path, _reason(error))


class OnnxDeviceModel(OnnxModel):
    """A session on a GPU, whose inputs and outputs stay on the GPU, bound by their addresses.

    Each call has its own binding. The session itself is re-entrant.
    """

    def __init__(self, session: Any, request: LoadRequest) -> None:
        """Checks the ports; see `OnnxModel`."""
        super().__init__(session, request)
        self.memory = request.device

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs one batch of tensors. The outputs are tensors on the same device."""
        torch = load_torch()
        session = self._session or refuse_closed()
        binding = session.io_binding()
        where, index = self.memory.kind, self.memory.index
        for spec in self.inputs:
            tensor = inputs[spec.name].contiguous()
            binding.bind_input(
                spec.name, where, index, spec.dtype, tuple(tensor.shape), tensor.data_ptr()
            )
        for name in self._fetches:
            binding.bind_output(name, where, index)
        # The runtime works on a stream of its own, so the inputs must be complete before the call.
        # The runtime waits for its own stream itself.
        torch.cuda.current_stream(index).synchronize()
        try:
            session.run_with_iobinding(binding)
        except _errors() as error:
            raise self._error(error) from error
        values = binding.get_outputs()
        results = {
            name: torch.as_tensor(_DeviceValue(value), device=f"{where}:{index}").clone()
            for name, value in zip(self._fetches, values, strict=True)
        }
        # The next run may overwrite the memory of these values: the runtime does not know that it
        # is read here.
        torch.cuda.current_stream(index).synchronize()
        return results


class _DeviceValue:
    """A value of ONNX Runtime on a GPU, in the form that PyTorch reads without a copy."""

    def __init__(self, value: Any) -> None:
        self._value = value  # keeps the memory
        dtype = np.dtype(_dtype_name(value.data_type()) or "float32")
        self.__cuda_array_interface__ = {
            "shape": tuple(value.shape()),
            "typestr": dtype.str,
            "data": (value.data_ptr(), False),
            "version": 3,
        }


def _spec(path: Path, value: Any, is_batched: bool | None) -> TensorSpec:
    name = _dtype_name(value.type)
    if name is None:
        advice = "name the outputs to use"
        if value.type.startswith(("seq(map", "map(")):
            advice = "convert it with zipmap=False (skl2onnx), or name the other outputs"
        raise model_error(
            path, f"the port {value.name!r} is of type {value.type}; expected an array; {advice}"
        )
    shape = tuple(extent if isinstance(extent, int) else None for extent in value.shape)
    return TensorSpec(value.name, np.dtype(name), shape, is_batched)


def _is_batched(shape: Sequence[Any], batch: Set[Any]) -> bool | None:
    """Returns whether axis 0 is the batch by its symbolic name, or None if unknown."""
    if not shape:
        return False
    length = shape[0]
    if not isinstance(length, str) or _MADE_UP.search(length):
        return None  # a number, or a name that nobody chose
    if length in batch:
        # ("n", "n") is the shape of values for pairs of items, such as distances.
        return not any(isinstance(axis, str) and axis in batch for axis in shape[1:])
    names = [name for name in batch if isinstance(name, str) and not _MADE_UP.search(name)]
    return False if names or all(isinstance(size, int) for size in batch) else None


def _dtype_name(text: str) -> str | None:
    """Returns NumPy's name of ``"tensor(float)"``, or None if NumPy has no such type."""
    if not text.startswith("tensor("):
        return None
    name = text[len("tensor(") : -1]
    found = _DTYPES.get(name, name)
    try:
        np.dtype(found)
    except TypeError:
        return None
    return found


def _choose(path: Path, what: str, names: Sequence[str], known: Sequence[Any]) -> Sequence[Any]:
    check_ports(path, what, names, list(map(_text, known)))
    by_name = {value.name: value for value in known}
    return [by_name[name] for name in names] if names else known


def _text(value: Any) -> Any:
    """Describes a port of any type, for messages."""
    try:
        return _spec(Path(), value, None)
    except EngineError:  # no array
        return value.name


@cache
def _errors() -> tuple[type[Exception], ...]:
    """Returns the exceptions of the runtime, which have no common base class."""
    module = load_runtime().capi.onnxruntime_pybind11_state
    own = [found for found in vars(module).values() if isinstance(found, type)]
    return (*(found for found in own if issubclass(found, Exception)), RuntimeError, ValueError)


def _form(path: Path) -> str:
    """Describes the form of a file that is no model; empty for a protobuf message."""
    found = looks_like(path)
    return "" if found.endswith(", or cut off") else f"{found}; "


def _reason(error: Exception) -> str:
    # ``[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : /src/graph.cc:91 Graph::Load(...) sentence``
    text = _SOURCE.sub("", str(error).split(" : ", 3)[-1])
    if found := _OPSET.search(text):
        number, domain, most = found.groups()
        return (
            f"its operators are of opset {number} of {domain}, newer than the known opset "
            f"{most}: convert the model to that one, or install a newer onnxruntime"
        )
    return one_sentence(text)
