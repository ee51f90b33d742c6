"""Flow units in dynamic libraries (``type = "c++"``), called without the interpreter lock.

The interface is ``modelflow_unit.h`` (`include_folder`). The memory of the outputs belongs to
modelflow: the unit describes their types and shapes, and fills them.
"""

import ctypes
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.device import empty
from modelflow.errors import ConfigError
from modelflow.unit.port import Port
from modelflow.unit.spec import DECLARED_TYPES
from modelflow.unit.unit import Context, FlowUnit

ABI = 1
_MAX_NDIM = 8
_MAX_BYTES = 1 << 40
# In the order of modelflow_dtype.
_NAMES = "uint8 int8 uint16 int16 uint32 int32 uint64 int64 float32 float64 bool"
_DTYPES = [np.dtype(name) for name in _NAMES.split()]
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}

Array = npt.NDArray[Any]
Kind = tuple[tuple[int, tuple[int, ...]], ...]


class _Array(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.c_int64 * _MAX_NDIM),
    )


class _Error(ctypes.Structure):
    _fields_ = (("message", ctypes.c_char * 512),)

    @property
    def text(self) -> str:
        return bytes(self.message).decode("utf-8", "replace")


def include_folder() -> Path:
    """Returns the folder with ``modelflow_unit.h``."""
    return Path(__file__).resolve().parents[1] / "include"


class NativeUnit(FlowUnit):
    """Calls a library with whole batches. Rows must not depend on one another."""

    def __init__(self, library: Path, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        """Stores the library and the ports of the unit's TOML, in order."""
        self._path = library
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._wanted = [None if p.dtype is None else _dtype(library, p) for p in inputs]
        self._instance: int | None = None
        self._kinds: dict[Kind, list[tuple[np.dtype[Any], tuple[int, ...]]]] = {}

    def open(self, config: Mapping[str, Any]) -> None:
        """Loads the library and makes an instance.

        Raises:
            ConfigError: the file is missing, is no library, was built for another version, or
                refuses the options.
        """
        self._library = _load(self._path)
        error = _Error()
        options = json.dumps(dict(config)).encode()
        self._instance = self._library.modelflow_open(options, ctypes.byref(error))
        if not self._instance:
            raise _wrong(self._path, f"modelflow_open: {error.text or 'gave no instance'}")

    def close(self) -> None:
        """Closes the instance."""
        if self._instance:
            self._library.modelflow_close(self._instance)
            self._instance = None

    def process(self, ctx: Context) -> None:
        """Runs the batch: one call for all valid rows."""
        columns = [ctx.inputs[port.name] for port in self._inputs]
        rows = len(columns[0])
        results: list[list[Any]] = [[None] * rows for _ in self._outputs]
        given: list[list[Array]] = []
        made: list[list[Array]] = []
        places: list[int] = []
        for row, cells in enumerate(zip(*columns, strict=True)):
            try:
                arrays = [self._array(i, cell) for i, cell in enumerate(cells)]
                outputs = [empty(shape, dtype) for dtype, shape in self._describe(arrays)]
            except ValueError as error:
                _fill(results, row, error)
                continue
            given.append(arrays)
            made.append(outputs)
            places.append(row)
        for row, outputs, failure in zip(places, made, self._run(given, made), strict=True):
            if failure is not None:
                _fill(results, row, failure)
                continue
            for result, array in zip(results, outputs, strict=True):
                result[row] = array
        for port, result in zip(self._outputs, results, strict=True):
            ctx.emit(result, port.name)

    def _run(self, given: list[list[Array]], made: list[list[Array]]) -> list[ValueError | None]:
        rows = len(given)
        if not rows:
            return []
        inputs = (_Array * (rows * len(self._inputs)))()
        outputs = (_Array * (rows * max(1, len(self._outputs))))()
        errors = (_Error * rows)()
        for targets, rows_of in ((inputs, given), (outputs, made)):
            for target, array in zip(targets, chain.from_iterable(rows_of), strict=False):
                _describe(target, array)
        self._library.modelflow_process(self._instance, rows, inputs, outputs, errors)
        return [ValueError(error.text) if error.message else None for error in errors]

    def _array(self, place: int, buffer: Buffer) -> Array:
        name, data = self._inputs[place].name, buffer.data
        if isinstance(data, str):
            data = data.encode()
        if isinstance(data, bytes | bytearray | memoryview):
            data = np.frombuffer(data, np.uint8)
        if isinstance(data, bool | int | float):
            data = np.asarray(data, self._wanted[place])
        wanted = self._wanted[place]
        if not isinstance(data, np.ndarray) or data.dtype not in _CODES or data.ndim > _MAX_NDIM:
            found = f"a {data.dtype} array" if isinstance(data, np.ndarray) else type(data).__name__
            raise ValueError(f"{name}: got {found}; expected an array of numbers, bytes or text")
        if wanted is not None and data.dtype != wanted:
            raise ValueError(f"{name}: got a {data.dtype} array; expected {wanted}")
        return np.ascontiguousarray(data)

    def _describe(self, arrays: list[Array]) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
        """Returns the types and shapes of the outputs, cached by the types and shapes of inputs."""
        kind = tuple((_CODES[array.dtype], array.shape) for array in arrays)
        found = self._kinds.get(kind)
        if found is None:
            if len(self._kinds) > 256:  # bounds the cache if images always have new sizes
                self._kinds.clear()
            found = self._kinds[kind] = self._request(arrays)
        return found

    def _request(self, arrays: list[Array]) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
        inputs = (_Array * len(arrays))()
        outputs = (_Array * max(1, len(self._outputs)))()
        error = _Error()
        for target, array in zip(inputs, arrays, strict=True):
            _describe(target, array)
            target.data = None
        self._library.modelflow_describe(self._instance, inputs, outputs, ctypes.byref(error))
        if error.message:
            raise ValueError(error.text)
        found = []
        for port, output in zip(self._outputs, outputs, strict=False):
            shape = tuple(output.shape[: max(0, min(output.ndim, _MAX_NDIM))])
            is_right = 0 <= output.dtype < len(_DTYPES) and 0 <= output.ndim <= _MAX_NDIM
            size = int(np.prod(shape, dtype=object)) if is_right else 0
            if not is_right or min(shape, default=0) < 0 or size > _MAX_BYTES:
                raise RuntimeError(
                    f"{self._path}: modelflow_describe says of the output {port.name!r}: dtype "
                    f"{output.dtype}, ndim {output.ndim}, shape {shape}; expected a "
                    f"modelflow_dtype, and 0 to {_MAX_NDIM} axes of at least 0"
                )
            found.append((_DTYPES[output.dtype], shape))
        return found


def _describe(target: _Array, array: Array) -> None:
    target.data = array.ctypes.data
    target.dtype = _CODES[array.dtype]
    target.ndim = array.ndim
    target.shape[: array.ndim] = array.shape


def _fill(results: list[list[Any]], row: int, error: ValueError) -> None:
    for result in results:
        result[row] = error


def _dtype(library: Path, port: Port) -> np.dtype[Any]:
    try:
        found = np.dtype(DECLARED_TYPES.get(str(port.dtype), port.dtype))
    except TypeError:
        found = np.dtype(object)
    if found not in _CODES:
        expected = ", ".join(_NAMES.split())
        raise _wrong(
            library, f"port {port.name!r}: type {port.dtype!r}; expected one of {expected}"
        )
    return found


def _wrong(path: Path, text: str) -> ConfigError:
    return ConfigError(f"{path}: {text}")


def _load(path: Path) -> ctypes.CDLL:
    if not path.is_file():
        raise _wrong(path, "there is no such library; build it (make, in its folder)")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise _wrong(path, f"cannot be loaded: {error}") from error
    names = ("abi", "open", "describe", "process", "close")
    missing = [f"modelflow_{name}" for name in names if not hasattr(library, f"modelflow_{name}")]
    if missing:
        expected = 'expected the functions of modelflow_unit.h, declared extern "C"'
        raise _wrong(path, f"has no {', '.join(missing)}; {expected}")
    pointer, array, error_type = ctypes.c_void_p, ctypes.POINTER(_Array), ctypes.POINTER(_Error)
    library.modelflow_abi.restype = ctypes.c_int32
    library.modelflow_open.restype = pointer
    library.modelflow_open.argtypes = [ctypes.c_char_p, error_type]
    library.modelflow_describe.restype = None
    library.modelflow_describe.argtypes = [pointer, array, array, error_type]
    library.modelflow_process.restype = None
    library.modelflow_process.argtypes = [pointer, ctypes.c_int64, array, array, error_type]
    library.modelflow_close.restype = None
    library.modelflow_close.argtypes = [pointer]
    found = library.modelflow_abi()
    if found != ABI:
        raise _wrong(
            path,
            f"was built with version {found} of modelflow_unit.h; expected {ABI}: build it again",
        )
    return library
