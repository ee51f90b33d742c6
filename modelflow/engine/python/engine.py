"""The engine around a `PythonModel`: finds the class, and checks the results of `predict`."""

import contextlib
import importlib
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from modelflow.engine.engine import (
    Arrays,
    Engine,
    LoadedModel,
    LoadRequest,
    check_ports,
    model_error,
    one_sentence,
    require_fed,
)
from modelflow.engine.python.model import PythonModel, read_ports
from modelflow.errors import EngineError, did_you_mean, find_line
from modelflow.wire.tensor import TensorSpec, has_shape, shape_text


class PythonEngine(Engine):
    """Runs the models of one `PythonModel` class, ``"module:Class"``."""

    device_kinds: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def __init__(self, name: str, find_class: Callable[[], object] | None = None) -> None:
        """Stores the name; the class is imported with its first model.

        Args:
            name: The module and the class.
            find_class: Imports and returns the class. None to import the module as usual.
        """
        self._name = name
        self._find = find_class or partial(import_class, name)

    def load(self, request: LoadRequest) -> LoadedModel:
        """Makes an instance and loads the model; see `Engine.load`."""
        cls = self._find_class()
        inputs, outputs = self.describe(request)
        require_fed(request.path, [spec.name for spec in inputs], read_ports(cls, "inputs"))
        if request.device.kind not in cls.devices:
            raise model_error(
                request.path,
                f"engine {self._name!r} runs on {', '.join(cls.devices)}; got the device "
                f"{request.device}. Give the node another device, or name "
                f"{request.device.kind!r} in {cls.__qualname__}.devices",
            )
        try:
            model = cls()
            model.load(request.path, str(request.device))
        except EngineError:
            raise
        except Exception as error:
            line = find_line(error)
            raise model_error(
                request.path,
                f"engine {self._name!r} failed in load: {type(error).__name__}: "
                f"{one_sentence(str(error))}{f' ({line})' if line else ''}",
            ) from error
        return _LoadedPythonModel(model, tuple(inputs), tuple(outputs))

    def describe(self, request: LoadRequest) -> tuple[Sequence[TensorSpec], Sequence[TensorSpec]]:
        """Returns the ports that the class declares, without loading the model.

        Raises:
            EngineError: The class cannot be imported, is no `PythonModel`, or lacks a port.
        """
        cls = self._find_class()
        found = []
        for what, names, ports in (
            ("input", request.inputs, read_ports(cls, "inputs")),
            ("output", request.outputs, read_ports(cls, "outputs")),
        ):
            check_ports(request.path, what, names, ports)
            by_name = {port.name: port for port in ports}
            found.append([by_name[name] for name in names or by_name])
        return found[0], found[1]

    def _find_class(self) -> type[PythonModel]:
        try:
            found = self._find()
        except EngineError:
            raise
        except Exception as error:
            raise _import_error(self._name, error) from error
        if not (isinstance(found, type) and issubclass(found, PythonModel)):
            raise EngineError(
                f"engine {self._name!r}: got {found!r}; expected a subclass of "
                "modelflow.PythonModel"
            )
        if inspect.isabstract(found):
            absent = ", ".join(sorted(found.__abstractmethods__))
            raise EngineError(f"engine {self._name!r}: the class lacks {absent}; define it")
        return found


def import_class(name: str) -> Any:
    """Imports ``"module:Class"`` and returns the class.

    Raises:
        EngineError: The module cannot be imported, or has no such class.
    """
    try:
        module = importlib.import_module(name.partition(":")[0])
    except Exception as error:
        raise _import_error(name, error) from error
    return get_class(module, name)


def get_class(module: ModuleType, name: str) -> Any:
    """Returns the class ``"module:Class"`` of an imported module.

    Raises:
        EngineError: The module has no such class.
    """
    module_name, _, attribute = name.partition(":")
    if not hasattr(module, attribute):
        near = did_you_mean(attribute, vars(module))
        what = repr(module_name)
        if getattr(module, "__file__", None) is None and hasattr(module, "__path__"):
            what = f"the folder {next(iter(module.__path__))} is taken for {module_name!r}, and"
        raise EngineError(f"engine {name!r}: {what} has no {attribute!r}{near}")
    return getattr(module, attribute)


def _import_error(name: str, error: Exception) -> EngineError:
    line = find_line(error)
    return EngineError(
        f"engine {name!r}: cannot import {name.partition(':')[0]!r}: {type(error).__name__}: "
        f"{error}{f' ({line})' if line else ''}. Expected a module that is installed, on "
        "PYTHONPATH, in the folder you are in, or next to the graph or the unit file"
    )


class _LoadedPythonModel(LoadedModel):
    """A loaded `PythonModel`."""

    def __init__(
        self,
        model: PythonModel,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        self._model, self.text_type = model, model.text_type
        self.keeps_outputs = model.keeps_outputs
        is_safe = model.is_thread_safe
        self._turn = contextlib.nullcontext() if is_safe else threading.Lock()
        self._where = f"{type(model).__module__}:{type(model).__qualname__}.predict"

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        # Copied, because the arrays may be the memory of the items, which predict must not change.
        batch = {name: array.copy() for name, array in inputs.items()}
        size = len(next(iter(batch.values())))
        with self._turn:
            found = self._model.predict(batch if len(batch) > 1 else next(iter(batch.values())))
        return self._read_results(found, size)

    def close(self) -> None:
        self._model.close()

    def _read_results(self, found: Any, size: int) -> dict[str, npt.NDArray[Any]]:
        names = [output.name for output in self.outputs]
        declared = [port.name for port in self._model.outputs]
        if not isinstance(found, Mapping) and len(declared) == 1:
            found = {names[0]: found}
        if not isinstance(found, Mapping) or set(found) != set(declared):
            got = f"the outputs {list(found)}" if isinstance(found, Mapping) else _describe(found)
            raise EngineError(
                f"{self._where}: got {got}; expected {{output: rows}} with the outputs {declared}"
            )
        return {spec.name: self._read_rows(spec, found[spec.name], size) for spec in self.outputs}

    def _read_rows(self, spec: TensorSpec, value: Any, size: int) -> npt.NDArray[Any]:
        rows = _as_text(value) if spec.dtype == object else _as_numbers(value, spec.dtype)
        shape = spec.item_shape
        if rows is None or rows.ndim == 0 or len(rows) != size:
            advice = f"return a row for each of the {size} rows of the batch"
        elif rows.dtype != spec.dtype:
            advice = "return that type, or declare the type that is returned"
        elif shape is not None and not has_shape(rows.shape[1:], shape):
            advice = "return rows of that shape, or declare another"
        else:
            return rows
        kind = "string" if spec.dtype == object else spec.dtype.name
        expected = kind if shape is None else f"{kind} {shape_text((size, *shape))}"
        raise EngineError(
            f"{self._where}, output {spec.name!r}: got {_describe(value)}; expected {expected}; "
            f"{advice}"
        )


def _as_text(value: Any) -> npt.NDArray[Any] | None:
    """Returns texts as an array of ``str`` or ``bytes``, or None for other values."""
    try:
        # An array of NumPy's texts would cut zeros at the ends, make text of numbers, and give each
        # element the memory of the longest.
        array = np.asarray(value, dtype=object)
    except ValueError:  # rows of different shapes
        return None
    if not all(isinstance(one, str | bytes) for one in array.flat):
        return None
    if any(isinstance(one, np.generic) for one in array.flat):
        items = [one.item() if isinstance(one, np.generic) else one for one in array.flat]
        array = np.array(items, dtype=object).reshape(array.shape)
    return array


def _as_numbers(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Returns numbers as an array; Python's own numbers get the type of the port if they fit."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        return None
    if not isinstance(value, list | tuple):
        return array
    is_whole = array.dtype.kind in "iu" and dtype.kind in "iu"
    if not is_whole and not np.can_cast(array.dtype, dtype, "same_kind"):
        return array
    with np.errstate(over="ignore"):  # larger numbers become infinite
        converted = array.astype(dtype)
    is_lost = converted != array if is_whole else np.isinf(converted) & ~np.isinf(array)
    return array if is_lost.any() else converted


def _describe(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype} {shape_text(tuple(value.shape))}"
    if isinstance(value, list | tuple):
        kinds = sorted({type(one).__name__ for one in value})
        return f"a {type(value).__name__} of {len(value)} ({', '.join(kinds) or 'empty'})"
    return type(value).__name__
