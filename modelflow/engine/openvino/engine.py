"""The engine ``openvino``: models on the CPU, by OpenVINO."""

import logging
import re
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from modelflow.engine.engine import (
    Arrays,
    Engine,
    LoadedModel,
    LoadRequest,
    check_ports,
    import_package,
    model_error,
    one_sentence,
    refuse_closed,
    require_fed,
)
from modelflow.engine.model_file import looks_like
from modelflow.engine.options import IntraOpOptions
from modelflow.errors import EngineError, ItemRefusedError
from modelflow.log import LEVELS
from modelflow.unit.option import option
from modelflow.wire.tensor import TensorSpec

# The place in OpenVINO's source that raised an error, and the condition that failed there.
_SOURCE = re.compile(
    r"Exception from src/\S+:\d+:|Check '.*?' failed at src/\S+:\d+:|"
    r"FrontEnd API failed with \w+:|\w+Mismatch:"
)
_OWN_FAULT = re.compile(r"fail(ed|ure) to allocate|bad_alloc|out of memory", re.IGNORECASE)
_DTYPES = {
    "boolean": "bool",
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
# OpenVINO's CPU plug-in computes these types as int32 and drops the upper bits without an error.
_WIDE = tuple(map(np.dtype, ("int64", "uint32", "uint64")))
_INT32 = np.iinfo(np.int32)

# The most shapes of items that a model remembers to have checked.
_MOST_SHAPES = 1000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenVinoOptions(IntraOpOptions):
    """The options of a node whose model OpenVINO runs."""

    precision: Literal["fp32", "bf16", "auto"] = option(
        "fp32",
        help="Number type of the calculation: fp32, bf16 (only on processors that have it), or "
        "auto, OpenVINO's own choice. INT8 layers of a quantised model stay INT8.",
    )
    num_streams: int = option(
        0,
        help="Number of batches that run at once, each on its share of the threads. 0 lets "
        "performance_hint choose.",
        minimum=0,
        maximum=4096,
    )
    performance_hint: Literal["", "latency", "throughput"] = option(
        "",
        help="Goal of OpenVINO's own settings: latency or throughput. If empty, OpenVINO's "
        "default, which is latency.",
    )


class OpenVinoEngine(Engine):
    """Runs OpenVINO's ``.xml`` and, if named, ``.onnx`` files and SavedModels.

    Ports are the inputs and outputs of the file. A port with several names has the first one, and a
    unit may use any of them.
    """

    suffixes = (".xml",)
    requires: ClassVar = {"openvino": "openvino"}
    options = OpenVinoOptions

    def load(self, request: LoadRequest) -> LoadedModel:
        """Loads a model and checks its ports; see `Engine.load`."""
        library, path = import_package("openvino", "openvino"), request.path
        settings = _settings(request.options)
        _check_form(path)
        try:
            model = _core().read_model(str(path))
            if any(port.get_partial_shape().rank.is_dynamic for port in model.inputs):
                raise model_error(
                    path,
                    "an input has any number of axes; OpenVINO on the CPU runs a known number. "
                    "Save the model with a number of axes, or choose another engine",
                )
            for port in (*model.inputs, *model.outputs):
                _dtype_of(path, port)
            compiled = _core().compile_model(model, "CPU", settings)
        except RuntimeError as error:
            raise model_error(
                path,
                f"{_form(path)}OpenVINO {library.__version__} does not load it: {_reason(error)}",
            ) from error
        return OpenVinoModel(model, compiled, request)


class OpenVinoModel(LoadedModel):
    """A compiled model with a pool of infer requests; each calling thread borrows a request."""

    keeps_outputs = False

    def __init__(self, model: Any, compiled: Any, request: LoadRequest) -> None:
        """Checks the ports.

        Args:
            model: The model as it was read.
            compiled: The compiled model.
            request: The order to load the model.

        Raises:
            EngineError: The model lacks a port, or no port feeds an input.
        """
        self._path, self.is_stateful = request.path, bool(model.get_variables())
        sides = {"input": compiled.inputs, "output": compiled.outputs}
        chosen = {}
        for what, names in (("input", request.inputs), ("output", request.outputs)):
            chosen[what] = _choose(request.path, what, names, sides[what])
        self.inputs = tuple(_spec(self._path, *one, has_rows=True) for one in chosen["input"])
        self.outputs = tuple(_spec(self._path, *one, has_rows=None) for one in chosen["output"])
        own = [_spec(self._path, _name(port), port, has_rows=True) for port in compiled.inputs]
        fed = {_name(port) for _, port in chosen["input"]}
        require_fed(self._path, fed, own)
        self.batch_range = _batch_range([port for _, port in chosen["input"]])
        self._ports = {name: port for side in chosen.values() for name, port in side}
        self._wide = tuple(spec.name for spec in self.inputs if spec.dtype in _WIDE)
        for spec in (*self.inputs, *self.outputs):
            if spec.dtype == np.float64:
                text = "model %s: OpenVINO computes the float64 of the port %r as float32"
                _log.log(LEVELS["NOTICE"], text, self._path, spec.name)
        self._open = [spec.name for spec in self.inputs if None in (spec.item_shape or ())]
        self._model = model if self._open else None
        self._passed: set[tuple[tuple[int, ...], ...]] = set()
        self._compiled = compiled
        self._idle: list[Any] = []
        # Each infer request has its own values of the variables, so all calls share one request.
        self._turn: AbstractContextManager[Any] = (
            threading.Lock() if self.is_stateful else nullcontext()
        )

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Runs one batch; see `LoadedModel.run`."""
        for name in self._wide:
            self._check_range(name, inputs[name])
        if self._open:
            self._check_shapes(inputs)
        with self._turn:
            # Lists pop and append in one step, so the pool needs no lock.
            try:
                request = self._idle.pop()
            except IndexError:
                request = (self._compiled or refuse_closed()).create_infer_request()
            try:
                # OpenVINO shares writable inputs. It copies outputs, because the request reuses
                # their memory.
                tensors = {
                    self._ports[name]: value if value.flags.writeable else value.copy()
                    for name, value in inputs.items()
                }
                found = request.infer(tensors, share_inputs=True)
                return {spec.name: found[self._ports[spec.name]] for spec in self.outputs}
            except (RuntimeError, MemoryError) as error:
                raise self._error(error) from error
            finally:
                self._idle.append(request)

    def close(self) -> None:
        """Frees the infer requests and the weights."""
        self._idle.clear()
        self._compiled = self._model = None

    def _check_range(self, name: str, values: npt.NDArray[Any]) -> None:
        if values.size and (values.min() < _INT32.min or values.max() > _INT32.max):
            odd = values.min() if values.min() < _INT32.min else values.max()
            raise ItemRefusedError(
                f"model {self._path.name}: input {name!r}: got {odd}; expected a number that int32 "
                f"holds, because OpenVINO computes {values.dtype} as int32"
            )

    def _check_shapes(self, inputs: Arrays) -> None:
        """Checks a new shape of items by OpenVINO's own rules for the shapes of operators.

        The CPU plug-in multiplies matrices with free axes without that check, and reads beyond the
        end of rows that are too short.
        """
        shapes = tuple(inputs[name].shape[1:] for name in self._open)
        if shapes in self._passed:
            return
        ports = [self._ports[name] for name in self._open]
        try:
            (self._model or refuse_closed()).clone().reshape(
                {
                    port.any_name: [port.get_partial_shape()[0], *shape]
                    for port, shape in zip(ports, shapes, strict=True)
                }
            )
        except RuntimeError as error:
            raise self._error(error) from error
        if len(self._passed) >= _MOST_SHAPES:
            self._passed.clear()
        self._passed.add(shapes)

    def _error(self, error: Exception) -> EngineError:
        if isinstance(error, MemoryError) or _OWN_FAULT.search(str(error)):
            return model_error(self._path, _reason(error))
        return ItemRefusedError(f"model {self._path.name}: {_reason(error)}")


@cache
def _core() -> Any:
    return import_package("openvino", "openvino").Core()


def _settings(options: OpenVinoOptions) -> dict[str, Any]:
    """Returns OpenVINO's properties of a node's options.

    Raises:
        EngineError: The processor does not compute in the wanted precision.
    """
    if options.precision == "bf16":
        known = _core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        if "BF16" not in known:
            raise EngineError(
                "precision: got bf16, which OpenVINO does not compute on this processor (it has "
                f"{', '.join(known)}); set fp32 or auto"
            )
    hints = {"fp32": "f32", "bf16": "bf16", "auto": ""}
    settings = {
        "INFERENCE_PRECISION_HINT": hints[options.precision],
        "PERFORMANCE_HINT": options.performance_hint.upper(),
        "NUM_STREAMS": options.num_streams,
        "INFERENCE_NUM_THREADS": options.intra_op_threads,
    }
    return {name: value for name, value in settings.items() if value}


def _check_form(path: Path) -> None:
    """Checks the kind of a model file before OpenVINO tries all its readers.

    Raises:
        EngineError: The file is no model of this engine, or its weights are missing.
    """
    expected = "expected an OpenVINO model (.xml and .bin), an ONNX file or a SavedModel's folder"
    if path.is_dir():
        if not (path / "saved_model.pb").is_file():
            raise model_error(path, f"a folder without saved_model.pb; {expected}")
        return
    suffix = path.suffix.lower()
    if suffix not in (".xml", ".onnx"):
        raise model_error(path, f"{looks_like(path)}; {expected}")
    if suffix == ".xml":
        with path.open("rb") as file:
            is_network = b"<net" in file.read(4096)
        if not is_network:
            raise model_error(path, f"{looks_like(path)} without <net>; {expected}")


def _form(path: Path) -> str:
    """Describes the fault of a file that OpenVINO did not load; empty if the fault is inside."""
    binary = path.with_suffix(".bin")
    if path.suffix.lower() == ".xml" and not binary.is_file():
        return f"there is no {binary.name} next to it, which holds the weights; "
    found = looks_like(path) if path.suffix.lower() == ".onnx" else ""
    return "" if not found or found.endswith(", or cut off") else f"{found}; "


def _name(port: Any) -> str:
    """Returns the name of a port: the operator's own if that is a tensor's name, else the first."""
    own: str = port.get_node().get_friendly_name()
    names: set[str] = port.get_names()
    return own if own in names or not names else min(names, key=lambda name: (len(name), name))


def _choose(
    path: Path, what: str, names: Sequence[str], known: Sequence[Any]
) -> list[tuple[str, Any]]:
    """Returns the wanted ports with their names, or all ports."""
    by_name = {name: port for port in known for name in (_name(port), *port.get_names())}
    if any(name not in by_name for name in names):
        listed = [_spec(path, _name(port), port, has_rows=None) for port in known]
        check_ports(path, what, [name for name in names if name not in by_name], listed)
    return [(name, by_name[name]) for name in names or map(_name, known)]


def _spec(path: Path, name: str, port: Any, *, has_rows: bool | None) -> TensorSpec:
    shape = port.get_partial_shape()
    lengths = None
    if not shape.rank.is_dynamic:
        lengths = tuple(None if axis.is_dynamic else axis.get_length() for axis in shape)
    is_batched = False if lengths == () else has_rows
    return TensorSpec(name, _dtype_of(path, port), lengths, is_batched)


def _dtype_of(path: Path, port: Any) -> np.dtype[Any]:
    kind = port.get_element_type().get_type_name()
    if kind in _DTYPES:
        return np.dtype(_DTYPES[kind])
    # OpenVINO 2026.4 frees a text twice that a model returns unchanged, which ends the process.
    advice = "run it with the engine of its own library" if kind == "string" else "convert it"
    raise model_error(
        path,
        f"the port {_name(port)!r} is of type {kind}; expected one of {', '.join(_DTYPES)}; "
        f"{advice}",
    )


def _batch_range(inputs: Sequence[Any]) -> tuple[int, int | None]:
    """Returns the smallest and the largest batch that the shapes of the inputs allow."""
    axes = [port.get_partial_shape()[0] for port in inputs if len(port.get_partial_shape())]
    open_axes = [axis for axis in axes if axis.is_dynamic]
    most = [axis.get_max_length() for axis in open_axes if axis.get_max_length() > 0]
    least = max((axis.get_min_length() for axis in open_axes), default=1)
    return max(1, least), min(most, default=None)


def _reason(error: Exception) -> str:
    return one_sentence(_SOURCE.sub("", str(error)))
