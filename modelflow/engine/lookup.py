"""Finding an engine by its name, or by the look of a model file."""

import importlib
import threading
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from modelflow.engine.engine import Engine
from modelflow.errors import EngineError, did_you_mean

__all__ = ["GROUP", "engine_for", "engine_names", "find_engine"]

GROUP = "modelflow.engines"
_BUILT_IN = {
    "tensorflow": "modelflow.engine.tensorflow:TensorFlowEngine",
    "onnx": "modelflow.engine.onnx:OnnxEngine",
    "torch": "modelflow.engine.torch:TorchEngine",
}
# Other names of the same engines.
_ALIASES = {"onnxruntime": "onnx", "pytorch": "torch"}

_engines: dict[str, Engine] = {}
_lock = threading.Lock()


def engine_names() -> tuple[str, ...]:
    """Returns the names that ``virtual_type`` accepts, the built-in ones first."""
    others = sorted({point.name for point in entry_points(group=GROUP)} - set(_BUILT_IN))
    return (*_BUILT_IN, *others)


def find_engine(name: str) -> Engine:
    """Returns the engine of that name; its package is not loaded yet.

    Raises:
        EngineError: there is none of that name, or its plug-in cannot be imported.
    """
    name = _ALIASES.get(name, name)
    with _lock:
        if name not in _engines:
            _engines[name] = _imported(name)
        return _engines[name]


def engine_for(path: Path) -> str:
    """Returns the name of the engine that reads the model at ``path``.

    Raises:
        EngineError: the path does not exist, or no engine knows its form.
    """
    if not path.exists():
        message = f"model {path}: there is no such file or folder"
        raise EngineError(message)
    for name in engine_names():
        if find_engine(name).is_reader_of(path):
            return name
    message = (
        f"model {path}: {_looks_like(path)}, which no engine reads (engines: "
        f"{', '.join(engine_names())}); name one with virtual_type (or engine=) if it is a model"
    )
    raise EngineError(message)


def _imported(name: str) -> Engine:
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        return _made(name, getattr(importlib.import_module(module), attribute))
    points = [point for point in entry_points(group=GROUP) if point.name == name]
    if not points:
        known = engine_names()
        message = f"unknown engine {name!r}{did_you_mean(name, known)}; engines: {', '.join(known)}"
        raise EngineError(message)
    return _made(name, _loaded(points[0]))


def _loaded(point: EntryPoint) -> object:
    try:
        loaded: object = point.load()
    except (ImportError, AttributeError) as error:
        message = f"engine {point.name!r}: its plug-in {point.value!r} cannot be imported: {error}"
        raise EngineError(message) from error
    return loaded


def _made(name: str, found: object) -> Engine:
    if not (isinstance(found, type) and issubclass(found, Engine)):
        message = f"engine {name!r}: got {found!r}; expected a subclass of modelflow.engine.Engine"
        raise EngineError(message)
    return found()


def _looks_like(path: Path) -> str:
    if path.is_dir():
        return "a folder without saved_model.pb"
    return f"a {path.suffix!r} file" if path.suffix else "a file without an ending"
