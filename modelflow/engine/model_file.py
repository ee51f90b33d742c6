"""A model file with the ports that a unit declares for it. Light: no engine is loaded."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from modelflow.device import CPU
from modelflow.engine.engine import LoadRequest
from modelflow.engine.load_group import LoadGroup
from modelflow.engine.lookup import engine_for, find_engine
from modelflow.engine.options import options_with_defaults
from modelflow.engine.versions import chosen_versions, newest_path
from modelflow.errors import ConfigError, EngineError, did_you_mean
from modelflow.unit.port import Port
from modelflow.wire.tensor import TensorSpec, shape_text

__all__ = ["ModelFile", "missing_model", "read_model_file"]


@dataclass(frozen=True)
class ModelFile:
    """What an inference unit runs.

    Attributes:
        path: The model's file or folder; it need not exist yet (see `missing_model`).
        engine: The engine's name (``virtual_type``).
        inputs, outputs: The ports, by the names that the model knows them by (tensor names of a
            frozen graph, keys of a signature).
        config: Defaults of the options (the ``[config]`` of the unit's TOML).
        group: See `LoadRequest.group`.
    """

    path: Path
    engine: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    config: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    group: LoadGroup | None = None


def read_model_file(
    path: str | Path,
    *,
    engine: str | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
) -> ModelFile:
    """Reads the ports of a model file that stands alone. This loads the engine's package.

    Args:
        path: The model's file or folder.
        engine: The engine's name; None: chosen by the form of the file.
        inputs: The inputs to use, where not all that the model has.
        outputs: The outputs to use, likewise.
        config: Defaults of the options; ``signature`` is obeyed.

    Raises:
        EngineError: no such file, no model, or a port that it does not have.
        MissingDependencyError: the engine's package is not installed.
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
    request = LoadRequest(
        list(chosen_versions(path, options.version).values())[-1],
        CPU,
        options,
        tuple(inputs),
        tuple(outputs),
    )
    found_inputs, found_outputs = find_engine(name).describe(request)
    return ModelFile(
        path,
        name,
        tuple(map(_port, found_inputs)),
        tuple(map(_port, found_outputs)),
        MappingProxyType(dict(config or {})),
    )


def missing_model(path: Path) -> str | None:
    """Returns what to say where the model is not there, with the way to get it; else None."""
    if path.exists():
        return None
    readme = path.parent / "README.md"
    where = f"; {readme} says how to make it" if readme.is_file() else ""
    folder = path.parent
    near = did_you_mean(path.name, os.listdir(folder)) if folder.is_dir() else ""
    return f"model {path}: there is no such file or folder{near}{where}"


def _port(tensor: TensorSpec) -> Port:
    shape = None if tensor.item_shape is None else shape_text(tensor.item_shape)
    dtype = "string" if tensor.dtype == object else tensor.dtype.name
    return Port(tensor.name, dtype=dtype, shape=shape)
