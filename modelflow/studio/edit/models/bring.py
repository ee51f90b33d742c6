"""Reads a model beside a graph, and brings the model into the graph with a unit file."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from modelflow.engine import ModelFile, read_model_file
from modelflow.engine.model_file import unit_text
from modelflow.errors import ConfigError, explain_os_error
from modelflow.files.whole_file import write_whole
from modelflow.studio.edit.clipping import free_name
from modelflow.studio.edit.draft import Draft
from modelflow.studio.edit.models.chain import ModelUnit, add_model, uses_of
from modelflow.studio.edit.models.guess import PLAIN, Guess, guess_use
from modelflow.studio.edit.models.pixels import RANGES
from modelflow.studio.edit.models.places import Places, find_places, path_below, real_path
from modelflow.unit.port import Port

_MOST_SIZE = 1 << 16
# Names that say nothing about the model. Its folder gives the name instead.
_COMMON = frozenset({"model", "saved_model", "best", "last", "weights", "network"})


def describe_model(draft: Draft, path: str) -> dict[str, Any]:
    """Returns the ports of a model, the guess of its use, and its possible uses as JSON values.

    Raises:
        ConfigError: The path leads out of the graph's folder.
        EngineError: The file is no model.
        MissingDependencyError: The engine's package is not installed.
    """
    places = find_places(draft.path.parent)
    file = _read_model(places, path)
    guess = _guess(file, places)
    return {
        "path": path,
        "engine": file.engine,
        "inputs": list(map(_port, file.inputs)),
        "outputs": list(map(_port, file.outputs)),
        "guess": guess.document(),
        "uses": uses_of(draft.graph_text, guess),
        "ranges": list(RANGES),
    }


def _read_model(places: Places, path: str) -> ModelFile:
    with explain_os_error(f"{path}: cannot be read"):
        return read_model_file(path_below(places.home, path))


def _port(port: Port) -> dict[str, str]:
    return {"name": port.name, "dtype": port.dtype or "any", "shape": port.shape or ""}


def _guess(file: ModelFile, places: Places) -> Guess:
    """Returns the guess for a model, with a label file that has as many labels as classes."""
    guess = guess_use(file.inputs, file.outputs)
    count = guess.settings["classes"]
    fitting = [path for path, labels in places.labels.items() if labels == count]
    beside = [path for path in fitting if path.parent == file.path.parent]
    for labels in (beside, fitting):
        if len(labels) == 1:
            name = places.name(labels[0])
            guess.settings["labels"] = name
            guess.why.append(f"{name} has a label for each of the {count} classes.")
            break
    return guess


class Brought(NamedTuple):
    """A model in a graph.

    Attributes:
        text: The new text of the graph.
        files: The written files.
        added: The names of the added nodes.
    """

    text: str
    files: list[Path]
    added: list[str]


def bring_model(
    draft: Draft, path: str, use: str, settings: Mapping[str, Any], at: tuple[float, float] | None
) -> Brought:
    """Adds the nodes of a model, and writes the unit file if the model has none.

    Args:
        draft: The graph.
        path: The model, relative to the graph's folder.
        use: One of the uses of `describe_model`.
        settings: The settings, which replace those of the guess. None keeps the guess.
        at: The position of the model's node, for the use ``plain``.

    Raises:
        ConfigError: The path leads out of the graph's folder, or a setting is wrong or missing.
        EngineError: The file is no model.
        MissingDependencyError: The engine's package is not installed.
    """
    _check_settings(settings)
    places = find_places(draft.path.parent)
    file = _read_model(places, path)
    guess = _guess(file, places)
    given = {key: value for key, value in settings.items() if value is not None}
    unit = _find_unit(draft, file, places) or _new_unit(draft, file, places)
    folder = os.path.relpath(unit.folder, places.home)
    outputs = tuple(port.name for port in file.outputs)
    model = ModelUnit(unit.name, outputs, guess.tensors)
    text = draft.graph_text
    if not any(
        real_path(places.home / one) in (unit.folder, *unit.folder.parents) for one in draft.folders
    ):
        text = text.add_folder(folder)
    text, added = add_model(text, draft.units, model, use, {**guess.settings, **given})
    if at is not None and use == PLAIN:
        text = text.move_all({added[0]: at})
    if unit.text is not None:
        with explain_os_error(f"{unit.file}: cannot be written"):
            unit.file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(unit.file, unit.text.encode())
    return Brought(text.text, [] if unit.text is None else [unit.file], added)


class _UnitFile(NamedTuple):
    """The unit file of a model; ``text`` is None for an existing file."""

    name: str
    file: Path
    folder: Path
    text: str | None = None


def _find_unit(draft: Draft, file: ModelFile, places: Places) -> _UnitFile | None:
    """Returns the unit that runs a model already, or None."""
    for path in _unit_files(draft, places):
        try:
            base = tomllib.loads(path.read_text("utf-8")).get("base", {})
            entry = path.parent / str(base.get("entry"))
            if base.get("type") == "inference" and real_path(entry) == real_path(file.path):
                return _UnitFile(str(base["name"]), path, places.folder_for(path))
        except (OSError, ValueError, RecursionError, AttributeError, KeyError, ConfigError):
            continue  # the check reports the file
    return None


def _unit_files(draft: Draft, places: Places) -> Iterator[Path]:
    """Yields the unit files of the graph's folders first, then all others."""
    folders = [real_path(places.home / folder) for folder in draft.folders]
    known = [path for path in places.units if set(folders) & set(path.parents)]
    yield from dict.fromkeys([*known, *places.units])


def _new_unit(draft: Draft, file: ModelFile, places: Places) -> _UnitFile:
    folder = home_of_units(draft)
    taken = {*places.units.values(), *(spec.name for spec in draft.units.specs())}
    there = [path.name for path in folder.iterdir()] if os.path.isdir(folder) else []
    name = free_name(_name(file.path, places.home), {*taken, *there, *draft.graph_text.nodes})
    target = folder / name / f"{name}.toml"
    return _UnitFile(name, target, folder, unit_text(file, target))


def _name(path: Path, home: Path) -> str:
    """Returns the name of the unit for a model file: ``my_net`` for ``my net.onnx``."""
    stem = path.stem
    if (stem.lower() in _COMMON or stem.isdecimal()) and path.parent != home:
        stem = path.parent.name
    name = re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_")
    return name if re.match("[A-Za-z]", name) else f"model_{name}".rstrip("_")


def home_of_units(draft: Draft) -> Path:
    """Returns the folder for new units: the first folder of ``[driver] dir``, or ``units``.

    Raises:
        ConfigError: The folder is not below the graph's folder.
    """
    home = draft.path.parent.resolve()
    name = draft.folders[0] if draft.folders else "units"
    folder = real_path(home / name)
    if not folder.is_relative_to(home) or os.path.islink(folder):  # a link to itself
        raise ConfigError(f"[driver] dir: {name} is not below {home}; nothing is written there")
    return folder


def add_folder(draft: Draft, path: str) -> dict[str, Any]:
    """Adds a folder of units to a graph, and returns the new text and the names of its units.

    Raises:
        ConfigError: The folder has no units, or the path leads out of the graph's folder.
    """
    folder = real_path(path_below(draft.path.parent, path))
    places = find_places(draft.path.parent)
    units = places.units_below(folder)
    if not units:
        raise ConfigError(
            f"{path}: has no unit; expected a folder with unit files (NAME.toml with [base])"
        )
    return {"text": draft.graph_text.add_folder(places.name(folder)).text, "units": units}


# -- settings --------------------------------------------------------------------------------------


_CHOICES: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "layout": ("hwc", "chw"),
        "colours": ("rgb", "bgr", "gray"),
        "channels": (1, 3),
        "range": RANGES,
    }
)
_KINDS: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {
        "width": (int,),
        "height": (int,),
        "classes": (int,),
        "margin": (int, float),
        "logits": (bool,),
        "softmax": (bool,),
        "head": (str,),
        "labels": (str,),
    }
)


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Checks the settings of a page.

    Raises:
        ConfigError: A setting is unknown, or its value does not fit.
    """
    for name, value in settings.items():
        choices, kinds = _CHOICES.get(name), _KINDS.get(name)
        if choices is None and kinds is None:
            known = ", ".join((*_CHOICES, *_KINDS))
            raise ConfigError(f"settings: got {name!r}; expected some of {known}")
        if value is None:
            continue
        if choices is not None and value not in choices:
            known = ", ".join(map(str, choices))
            raise ConfigError(f"settings: {name}: got {value!r:.60}; expected one of {known}")
        if kinds is not None and not _fits(value, kinds):
            words = " or ".join(kind.__name__ for kind in kinds)
            raise ConfigError(f"settings: {name}: got {value!r:.60}; expected {words}")


def _fits(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, str):
        return str in kinds and len(value) < 1000
    is_number = isinstance(value, int | float) and isinstance(value, kinds)
    return is_number and 0 <= value < _MOST_SIZE
