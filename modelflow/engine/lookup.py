"""Finding an engine by its name, or by the look of a model file."""

from pathlib import Path

from modelflow.engine.engine import Engine
from modelflow.errors import EngineError
from modelflow.plugins import Plugins

__all__ = ["ENGINES", "GROUP", "engine_for", "engine_names", "find_engine"]

GROUP = "modelflow.engines"
# Other names of the same engines.
_ALIASES = {"onnxruntime": "onnx", "pytorch": "torch"}

ENGINES = Plugins(
    GROUP,
    "engine",
    Engine,  # type: ignore[type-abstract]
    {
        "tensorflow": "modelflow.engine.tensorflow:TensorFlowEngine",
        "onnx": "modelflow.engine.onnx:OnnxEngine",
        "torch": "modelflow.engine.torch:TorchEngine",
    },
    EngineError,
)


def engine_names() -> tuple[str, ...]:
    """Returns the names that ``virtual_type`` accepts, the built-in ones first."""
    return ENGINES.names()


def find_engine(name: str) -> Engine:
    """Returns the engine of that name; its package is not loaded yet.

    Raises:
        EngineError: there is none of that name, or its plug-in cannot be imported.
    """
    return ENGINES.find(_ALIASES.get(name, name))


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


def _looks_like(path: Path) -> str:
    if path.is_dir():
        return "a folder without saved_model.pb"
    return f"a {path.suffix!r} file" if path.suffix else "a file without an ending"
