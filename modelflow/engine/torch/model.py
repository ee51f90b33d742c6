"""A module in memory, ready to run on its device."""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.device import CPU
from modelflow.device.torch_memory import load_torch
from modelflow.engine.engine import LoadedModel, LoadRequest, model_error, one_sentence
from modelflow.engine.torch.cuda_graph import CudaGraphs
from modelflow.engine.torch.ports import Ports
from modelflow.engine.torch.settings import set_traced_tf32, torch_device
from modelflow.engine.torch.writes import INPUT, OWN, find_written
from modelflow.errors import EngineError, ItemRefusedError

# PyTorch raises RuntimeError for almost everything. A module is a function of its inputs, so they
# cause its errors, unless the memory, the device or PyTorch itself failed.
_OWN_FAULT = re.compile(
    r"out of memory|can't allocate memory|INTERNAL ASSERT FAILED|(cuda|cudnn|cublas|hip)\w* error",
    re.IGNORECASE,
)
_LISTING = "The following operation failed in the TorchScript interpreter."
_SENTENCE = re.compile(r"^(?:builtins\.)?(?P<kind>[\w.]+): ", re.MULTILINE)


class TorchModel(LoadedModel):
    """Runs a module: with NumPy arrays on the CPU, with tensors on a GPU."""

    keeps_outputs = False

    # TorchScript profiles the first call, and compiles during the second.
    warm_up_runs = 3

    def __init__(self, request: LoadRequest, module: Any, ports: Ports) -> None:
        """Converts the module as the options require.

        Args:
            request: Path, device and options.
            module: The module, a callable that takes the inputs in order.
            ports: The module's ports.
        """
        torch, options = load_torch(), request.options
        self._torch = torch
        self._path = request.path
        self._device = torch_device(request.device)
        self.memory = request.device
        self._is_on_host = request.device.kind == CPU.kind
        order = {spec.name: spec for spec in ports.inputs}
        self.inputs = tuple(order[name] for name in request.inputs) or ports.inputs
        self.outputs, self.batch_range = ports.outputs, ports.batch_range
        self._names = [spec.name for spec in self.outputs]
        self._arguments = tuple(order)
        self._bfloat16 = tuple(name in ports.bfloat16 for name in order)
        self._places = ports.places
        self._format = torch.channels_last if options.channels_last else None
        self._dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(options.precision)
        if self._dtype is not None:
            module = module.to(self._dtype)
        if self._format is not None:
            module = module.to(memory_format=self._format)
        self._own = {_pointer(held) for held in (*module.parameters(), *module.buffers())}
        if isinstance(module, torch.jit.ScriptModule):
            module = _freeze(module)
            set_traced_tf32(module.graph, options.precision)
            self._own.update(_constants(module))
        self._module: Any = module
        written = find_written(module)
        # Batches run one after the other: two at once would read each other's writes.
        self._turn = threading.Lock() if OWN in written else None
        # Read-only arrays, which others read too, may be passed without a copy.
        self._is_reader = INPUT not in written
        self._graphs = CudaGraphs(self._call, self._device) if options.cuda_graph else None
        fixed = {spec.batch_size for spec in self.inputs if spec.batch_size is not None}
        self._sizes = frozenset(fixed or request.batch_sizes)
        if self._device.type == "cuda":
            # The weights are moved and converted on this thread's stream. Workers use others.
            torch.cuda.current_stream(self._device).synchronize()

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs one batch; see `LoadedModel.run`."""
        torch = self._torch
        tensors = [self._tensor(inputs[name]) for name in self._arguments]
        with self._turn or nullcontext(), torch.inference_mode():
            try:
                if self._graphs is not None and self._batch_of(tensors) in self._sizes:
                    results = self._graphs.run(tensors)
                else:
                    results = self._call(tensors)
            except _list_raised() as error:
                if _OWN_FAULT.search(str(error)) and not self._is_on_host:
                    torch.cuda.empty_cache()
                raise self._error(error) from error
            if self._is_on_host:
                return dict(zip(self._names, map(_array, results), strict=True))
            if self._turn is not None and self._device.type == "cuda":
                # The next batch may be on another stream.
                torch.cuda.current_stream(self._device).synchronize()
            return dict(zip(self._names, results, strict=True))

    def close(self) -> None:
        """Frees the module and its captured graphs."""
        if self._graphs is not None:
            self._graphs.close()
        self._module = self._graphs = None
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()

    def _call(self, tensors: list[Any]) -> list[Any]:
        if self._module is None:
            raise model_error(self._path, "it is closed")
        if any(self._bfloat16):
            pairs = zip(tensors, self._bfloat16, strict=True)
            tensors = [t.bfloat16() if is_narrow else t for t, is_narrow in pairs]
        if self._dtype is not None:
            tensors = [t.to(self._dtype) if t.is_floating_point() else t for t in tensors]
        if self._format is not None:
            tensors = [
                t.contiguous(memory_format=self._format) if t.ndim == 4 else t for t in tensors
            ]
        result = self._module(*tensors)
        results = [result[place] for place in self._places] if self._places else [result]
        return [self._convert_result(result) for result in results]

    def _convert_result(self, result: Any) -> Any:
        """Converts bfloat16 to float32, and copies a result that lies in memory of the module."""
        if result.dtype in (self._dtype, self._torch.bfloat16):
            return result.float()
        is_own = self._turn is not None or _pointer(result) in self._own
        return result.clone() if is_own else result

    def _batch_of(self, tensors: list[Any]) -> int:
        return next((len(tensor) for tensor in tensors if tensor.ndim), 1)

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if not value.flags.writeable:
                value = np.asarray(_Writable(value)) if self._is_reader else value.copy()
            value = self._torch.from_numpy(value)
        return value

    def _error(self, error: Exception) -> EngineError:
        text, kind = str(error), type(error).__name__
        # TorchScript prints a listing of its code before the sentence about the error.
        if text.startswith(_LISTING) and (found := list(_SENTENCE.finditer(text))):
            kind, text = found[-1]["kind"], text[found[-1].end() :]
        said = f"{kind}: {one_sentence(text)}"
        if _OWN_FAULT.search(text):
            return model_error(self._path, said)
        return ItemRefusedError(f"model {self._path.name}: {said}")


def _list_raised() -> tuple[type[Exception], ...]:
    """Returns the exceptions of a call of a module, including TorchScript's own class."""
    own = load_torch().jit.Error
    return own, RuntimeError, LookupError, ValueError, TypeError, AssertionError


def _freeze(module: Any) -> Any:
    """Returns a TorchScript module with its weights as constants, and all its methods.

    The call stacks of inlined code still name the methods that freezing would drop. PyTorch ends
    the process if it formats an error with such a call stack. The methods' own graphs are emptied,
    because they might hold the weights a second time.
    """
    torch = load_torch()
    methods = [name for name in module._c._method_names() if name != "forward"]
    frozen = torch.jit.freeze(module, preserved_attrs=methods)
    for name in methods:
        graph = getattr(frozen, name).graph
        graph.eraseOutput(0)
        torch._C._jit_pass_dce(graph)
    return frozen


def _constants(module: Any) -> Iterator[int]:
    """Yields the addresses of the tensors that freezing has put into the graph."""
    for node in module.graph.findAllNodes("prim::Constant"):
        yield from map(_pointer, _tensors(node.output().toIValue()))


def _tensors(value: Any) -> Iterator[Any]:
    """Yields the tensors in a value of TorchScript."""
    if isinstance(value, load_torch().Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for held in value.values() if isinstance(value, dict) else value:
            yield from _tensors(held)


def _pointer(tensor: Any) -> int:
    pointer: int = tensor.untyped_storage().data_ptr()
    return pointer


def _array(tensor: Any) -> npt.NDArray[Any]:
    plain = tensor.detach().resolve_conj().resolve_neg()  # NumPy knows neither lazy operation
    array: npt.NDArray[Any] = plain.contiguous().numpy()
    return array


class _Writable:
    """An array's memory, marked as writable because PyTorch warns about read-only arrays."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array  # keeps the memory
        pointer, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (pointer, False)}
