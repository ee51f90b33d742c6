"""Finds an engine by its name or by the form of a model file, and the versions of a model."""

import glob
from collections.abc import Callable
from pathlib import Path

from modelflow.engine.engine import Engine, model_error
from modelflow.engine.python.engine import PythonEngine
from modelflow.engine.python.unread import find_kind, name_command
from modelflow.errors import EngineError
from modelflow.plugins import Plugins


def find_versions(path: Path) -> dict[int, Path]:
    """Returns the versions under ``path``, the oldest first; empty if ``path`` is a model itself.

    A version is a folder whose name is a number. The model is that folder (a SavedModel), or the
    only file in the folder beside the files of its weights.
    """
    if not path.is_dir():
        return {}
    folders = {
        int(entry.name): entry
        for entry in sorted(path.iterdir())  # if both 01 and 1 exist, 1 wins
        if entry.name.isdecimal() and entry.is_dir()
    }
    return {number: _model_in(folders[number]) for number in sorted(folders)}


def newest_path(path: Path) -> Path:
    """Returns the model of ``path``: the newest version, or the path itself."""
    versions = find_versions(path)
    return versions[max(versions)] if versions else path


def choose_versions(path: Path, version: str) -> dict[int, Path]:
    """Returns the versions that the option ``version`` selects, the newest last.

    Args:
        path: The model's path.
        version: ``""`` (the newest), a number, or several separated by commas.

    Returns:
        Number -> path of the model; ``{0: path}`` if the model has no versions.

    Raises:
        EngineError: The version does not exist, or the text is malformed.
    """
    versions = find_versions(path)
    if not versions:
        if version.strip():
            raise model_error(
                path,
                f"version {version!r} was asked for, but there are no versions "
                "(folders 1/ 2/ ...) in it",
            )
        return {0: path}
    if not version.strip():
        newest = max(versions)
        return {newest: versions[newest]}
    parts = [part.strip() for part in version.split(",")]
    known = ", ".join(map(str, versions))
    for part in parts:
        if not part.isdecimal() or int(part) not in versions:
            raise model_error(path, f"no version {part!r}; the versions are: {known}")
    return {number: versions[number] for number in sorted(set(map(int, parts)))}


def _model_in(folder: Path) -> Path:
    files = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    weights = {data for file in files for data in weight_files(file)}
    files = [file for file in files if file not in weights]
    is_alone = len(files) == 1 and files[0].is_file() and files[0].name != "saved_model.pb"
    return files[0] if is_alone else folder


def weight_files(path: Path) -> list[Path]:
    """Returns the files next to a model file that hold its weights.

    For ``net.onnx`` these are ``net.onnx.data`` or ``net.onnx_data``, and for OpenVINO's
    ``net.xml`` it is ``net.bin``.
    """
    found = sorted(path.parent.glob(f"{glob.escape(path.name)}[._]data*"))
    binary = path.with_suffix(".bin")
    is_openvino = path.suffix.lower() == ".xml" and binary.is_file()
    return [*found, binary] if is_openvino else found


GROUP = "modelflow.engines"
# Other names of the same engines.
_ALIASES = {"onnxruntime": "onnx", "pytorch": "torch"}

ENGINES = Plugins(
    GROUP,
    "engine",
    Engine,  # type: ignore[type-abstract]
    {
        "tensorflow": "modelflow.engine.tensorflow.engine:TensorFlowEngine",
        "onnx": "modelflow.engine.onnx.engine:OnnxEngine",
        "torch": "modelflow.engine.torch.engine:TorchEngine",
        "openvino": "modelflow.engine.openvino.engine:OpenVinoEngine",
    },
    EngineError,
)


def engine_names() -> tuple[str, ...]:
    """Returns the names that ``virtual_type`` accepts, the built-in ones first."""
    return ENGINES.names()


def find_engine(name: str, find_class: Callable[[], object] | None = None) -> Engine:
    """Returns the engine of that name, without loading the engine's package.

    Args:
        name: The name of an engine, or ``"module:Class"`` for a `PythonModel`.
        find_class: Imports and returns the `PythonModel`. None to import its module as usual.

    Raises:
        EngineError: No engine has that name, or its plug-in cannot be imported.
    """
    if ":" in name:
        return PythonEngine(name, find_class)
    name = _ALIASES.get(name, name)
    try:
        return ENGINES.find(name)
    except EngineError as error:
        if name in engine_names():
            raise
        raise EngineError(f"{error}, or module:Class for a PythonModel") from None


def find_reader(path: Path) -> str | None:
    """Returns the name of the engine that reads the model at ``path`` by its form, or None."""
    return next((name for name in engine_names() if find_engine(name).is_reader_of(path)), None)


def engine_for(path: Path) -> str:
    """Returns the name of the engine that reads the model at ``path``.

    Raises:
        EngineError: The path does not exist, or no engine reads a file of this form.
    """
    if not path.exists():
        raise model_error(path, "there is no such file or folder")
    reader = find_reader(path)
    if reader is not None:
        return reader
    kind, template = find_kind(path) or (_looks_like(path), "python")
    raise model_error(
        path,
        f"{kind}, which no engine reads (engines: {', '.join(engine_names())}); name one with "
        "virtual_type (or engine=), or write a class that reads it: "
        f"{name_command(path, template)}",
    )


def _looks_like(path: Path) -> str:
    if path.is_dir():
        return "a folder without saved_model.pb"
    return f"a {path.suffix!r} file" if path.suffix else "a file without an ending"
