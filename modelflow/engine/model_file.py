"""Model files with the ports that a unit declares for them. Loads no engine."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from modelflow.device import CPU
from modelflow.engine.engine import Engine, LoadGroup, LoadRequest
from modelflow.engine.lookup import choose_versions, engine_for, find_engine, newest_path
from modelflow.engine.options import options_with_defaults
from modelflow.errors import ConfigError, EngineError, absence_hint
from modelflow.unit.port import Port
from modelflow.wire.tensor import TensorSpec, shape_text

_BEGINNINGS = (
    (b"PK\x03\x04", "a zip archive (Keras and PyTorch models are)"),
    (b"\x89HDF", "an HDF5 file (Keras models ending in .h5 are)"),
    (b"version https://git-lfs", "a Git LFS pointer (git lfs pull fetches the file itself)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"<", "a text file (HTML or XML)"),
    (b"{", "a text file (JSON)"),
    (b"node {", "a graph in protobuf's text form"),
)
_TFLITE = b"TFL3"


def looks_like(path: Path) -> str:
    """Describes a file by its first bytes: ``"a zip archive ..."``, ``"a gzip archive"``."""
    size = path.stat().st_size
    if size == 0:
        return "an empty file"
    with path.open("rb") as file:
        start = file.read(32)
    if start[4:8] == _TFLITE:
        return "a TensorFlow Lite model"
    for beginning, name in _BEGINNINGS:
        if start.startswith(beginning):
            return name
    return f"{size} bytes of another format, or cut off"


@dataclass(frozen=True)
class ModelFile:
    """A model file and the ports of the inference unit that runs the model.

    Attributes:
        path: The model's file or folder, which need not exist yet (see `missing_model`).
        engine: The engine's name (``virtual_type``), or ``"module:Class"`` for a `PythonModel`.
        inputs, outputs: The ports, by their names in the model (tensor names of a frozen graph,
            keys of a signature).
        config: Defaults of the options (the ``[config]`` of the unit's TOML).
        group: See `LoadRequest.group`.
        find_class: Imports and returns the `PythonModel`. None to import its module as usual.
    """

    path: Path
    engine: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    config: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    group: LoadGroup | None = None
    find_class: Callable[[], object] | None = None

    def find_engine(self) -> Engine:
        """Returns the engine; see `modelflow.engine.lookup.find_engine`."""
        return find_engine(self.engine, self.find_class)


def read_model_file(
    path: str | Path,
    *,
    engine: str | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
) -> ModelFile:
    """Reads the ports of a model file without unit file. This loads the engine's package.

    Args:
        path: The model's file or folder.
        engine: The engine's name, or ``"module:Class"``. None to choose the engine by the form of
            the file.
        inputs: The inputs to use. Empty for all inputs of the model.
        outputs: The outputs to use. Empty for all outputs of the model.
        config: Defaults of the options; ``signature`` selects the ports.

    Raises:
        EngineError: The file does not exist, is no model, or lacks a port.
        MissingDependencyError: The engine's package is not installed.
        ConfigError: ``config`` does not fit.
    """
    path = Path(path)
    absent = missing_model(path)
    if absent:
        raise EngineError(absent)
    name = engine_for(newest_path(path)) if engine is None else engine
    try:
        options = options_with_defaults(find_engine(name).options, config or {})()
    except ValueError as error:
        raise ConfigError(str(error)) from error
    *_, version = choose_versions(path, options.version).values()
    request = LoadRequest(version, CPU, options, tuple(inputs), tuple(outputs))
    takes, gives = (tuple(map(_port, side)) for side in find_engine(name).describe(request))
    return ModelFile(path, name, takes, gives, MappingProxyType(dict(config or {})))


def missing_model(path: Path) -> str | None:
    """Returns a message with the way to get a missing model, or None if the model exists."""
    if path.exists():
        return None
    return f"model {path}: there is no such file or folder{absence_hint(path)}"


def _port(tensor: TensorSpec) -> Port:
    shape = None if tensor.item_shape is None else shape_text(tensor.item_shape)
    dtype = "string" if tensor.dtype == object else tensor.dtype.name
    return Port(tensor.name, dtype=dtype, shape=shape)


def unit_text(file: ModelFile, target: Path | None = None, device: str = "cpu") -> str:
    """Returns the TOML of an inference unit that runs ``file``.

    Args:
        file: The model with its ports.
        target: The file that the text is for. The unit gets its name. None for a file next to the
            model, with the model's name.
        device: The device that the unit is for.
    """
    import tomlkit  # imported here, because only commands that write a unit file need it

    path = file.path.resolve()
    target = target or path
    entry = os.path.relpath(path, target.parent.resolve())
    document: dict[str, Any] = {
        "base": {
            "name": _unit_name(target),
            "device": device,
            "version": "1.0.0",
            "description": f"Runs {path.name}.",
            "entry": entry,
            "type": "inference",
            "virtual_type": file.engine,
        }
    }
    if file.config:
        document["config"] = dict(file.config)
    for what, ports in (("input", file.inputs), ("output", file.outputs)):
        document[what] = {
            f"{what}{number}": {"name": port.name, "type": port.dtype or "float32"}
            for number, port in enumerate(ports, 1)
        }
    return tomlkit.dumps(document)


def _unit_name(path: Path) -> str:
    """Turns a file name into letters that graphs accept: ``my_net`` from ``my net.onnx``."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem)
    return name if re.match(r"[A-Za-z_]", name) else f"model_{name}"
