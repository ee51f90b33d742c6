"""The model files, the folders of units and the label files beside a graph file."""

import itertools
import os
import tomllib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelflow.engine.lookup import find_reader, newest_path
from modelflow.errors import ConfigError, EngineError
from modelflow.graph.files import is_passed
from modelflow.image import read_labels

MOST_DEPTH = 4
"""The most folders from the folder of the graph down to a listed file."""
MOST_ENTRIES = 2000
"""The most files and folders that are looked at."""
MOST_RESULTS = 200
"""The most models, folders of units and label files in an answer, each."""
MOST_TEXT = 32 << 20
"""The most bytes of texts that are read."""

_MOST_BYTES = 1 << 20
_MOST_LABEL = 100


@dataclass
class Places:
    """The files below a folder that a graph can use.

    Attributes:
        home: The folder, without links.
        models: The model files and folders.
        units: The unit files, with the name of the unit.
        labels: The label files, with their number of labels.
        is_complete: Whether all files have been looked at.
        room: The bytes of texts that may still be read.
    """

    home: Path
    models: list[Path] = field(default_factory=list)
    units: dict[Path, str] = field(default_factory=dict)
    labels: dict[Path, int] = field(default_factory=dict)
    is_complete: bool = True
    room: int = field(default_factory=lambda: MOST_TEXT)

    def document(self, folders: Iterable[str]) -> dict[str, Any]:
        """Returns the places as JSON values, with paths relative to the folder.

        Args:
            folders: The folders that ``[driver] dir`` names, whose units are left out.
        """
        named = {real_path(self.home / folder) for folder in folders}
        return {
            "models": [
                {"path": self.name(path), "bytes": size_of(path)}
                for path in sorted(self.models)[:MOST_RESULTS]
            ],
            "folders": [
                {"path": self.name(folder), "units": units}
                for folder, units in self._folders()
                if not named & {folder, *folder.parents}
            ][:MOST_RESULTS],
            "labels": [self.name(path) for path in sorted(self.labels)[:MOST_RESULTS]],
            "complete": self.is_complete,
        }

    def name(self, path: Path) -> str:
        """Returns a path relative to the folder."""
        return path.relative_to(self.home).as_posix()

    def units_below(self, folder: Path) -> list[str]:
        """Returns the names of the units in a folder and its subfolders."""
        return sorted({name for file, name in self.units.items() if folder in file.parents})

    def _folders(self) -> Iterator[tuple[Path, list[str]]]:
        folders = {self.folder_for(file) for file in self.units}
        for folder in sorted(folders - {self.home}):
            yield folder, self.units_below(folder)

    def folder_for(self, file: Path) -> Path:
        """Returns the folder that ``[driver] dir`` names for a unit file.

        For ``units/NAME/NAME.toml`` this is ``units``, which may have more units.
        """
        folder = file.parent
        is_named = file.stem == folder.name and self.home in folder.parent.parents
        is_own = is_named and not any(
            other != file and other.parent == folder for other in self.units
        )
        return folder.parent if is_own else folder


def find_places(folder: Path) -> Places:
    """Returns the places below a folder, level by level up to the limits.

    Hidden folders, environments and caches are left out, and links that lead out of the folder.
    """
    places = Places(folder.resolve())
    waiting, seen, count = deque([(places.home, 1)]), {places.home}, 0
    while waiting:
        place, depth = waiting.popleft()
        entries = _list(place, MOST_ENTRIES - count)
        count += len(entries)
        names = {path.name for path in entries}
        if "pyvenv.cfg" in names:
            continue
        has_versions = _add_versions(places, place, entries)
        for path in entries:
            real = real_path(path)
            if is_passed(path.name) or real in seen or places.home not in real.parents:
                continue
            seen.add(real)
            if has_versions and path.name.isdecimal():
                continue
            if _reader_of(path):
                places.models.append(path)
            elif os.path.isdir(path) and depth < MOST_DEPTH:
                waiting.append((path, depth + 1))
            elif os.path.isdir(path):
                places.is_complete = False
            else:
                _add_file(places, path)
        if count >= MOST_ENTRIES:
            places.is_complete = False
            break
    return places


def size_of(path: Path) -> int:
    """Returns the bytes of a file, or of the files in a folder."""
    if os.path.isfile(path):
        return path.stat().st_size
    files = itertools.islice(path.rglob("*"), MOST_ENTRIES)
    return sum(file.stat().st_size for file in files if os.path.isfile(file))


def _list(folder: Path, most: int) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in itertools.islice(entries, max(most, 0)))
    except OSError:  # the folder cannot be read, or is gone
        return []


def _add_versions(places: Places, folder: Path, entries: Iterable[Path]) -> bool:
    """Adds a folder if the folder has versions of a model, and tells the result."""
    if folder == places.home or not any(path.name.isdecimal() for path in entries):
        return False
    newest = newest_path(folder)
    if newest == folder or not _reader_of(newest):
        return False
    places.models.append(folder)
    return True


def _reader_of(path: Path) -> str | None:
    try:
        return find_reader(path)
    except (EngineError, OSError):  # an engine's package is damaged, or a folder is not readable
        return None


def _add_file(places: Places, path: Path) -> None:
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES or path.suffix not in (".toml", ".txt") or not path.is_file():
            return  # a pipe would wait for its writer
        places.room -= size
        if places.room < 0:
            places.is_complete = False
        elif path.suffix == ".toml":
            base = tomllib.loads(path.read_text("utf-8")).get("base")
            if isinstance(base, dict) and isinstance(base.get("name"), str):
                places.units[path] = base["name"]
        elif not path.name.startswith("requirements"):
            labels = read_labels(str(path))
            if len(labels) > 1 and all(0 < len(label) <= _MOST_LABEL for label in labels):
                places.labels[path] = len(labels)
    except (OSError, ValueError, RecursionError):  # not readable, or no text
        return


def path_below(home: Path, text: str) -> Path:
    """Returns an existing file or folder below a folder.

    Raises:
        ConfigError: There is none, or the path leads out of the folder.
    """
    home = home.resolve()
    path = home / text
    if home not in real_path(path).parents:
        raise ConfigError(f"{text:.200}: is not below {home}; copy it there first")
    if not os.path.exists(path):
        raise ConfigError(f"{text:.200}: there is no such file or folder in {home}")
    return path


def check_below(home: Path, paths: Iterable[Path]) -> None:
    """Checks that files to write are below a folder without links, also where links lead.

    Raises:
        ConfigError: A link leads a file out of the folder.
    """
    for path in paths:
        if home not in real_path(path).parents:
            raise ConfigError(f"{path.relative_to(home)}: leads out of {home} by a link")


def real_path(path: Path) -> Path:
    """Returns a path without links; a link that leads to itself stays.

    Raises:
        ConfigError: No file can have the path.
    """
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:
        raise ConfigError(f"{str(path)!r:.200}: no file can have this path: {error}") from error
