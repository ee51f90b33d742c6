"""Writes files from a page beside a graph: models, and folders with unit files."""

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from modelflow.errors import ConfigError
from modelflow.starters.template import write_files
from modelflow.studio.edit.models.places import check_below

MOST_FILES = 200
"""The most files of an upload."""
MOST_PARTS = 5
"""The most parts of a name: four folders and the file."""

_MOST_NAME = 100
_MODELS, _UNITS = "models", "units"
_BASE = re.compile(rb"^\s*\[\s*base\s*\]", re.MULTILINE)


def write_upload(home: Path, given: Sequence[Mapping[str, Any]]) -> list[str]:
    """Writes files below ``models``, or below ``units`` for a folder with unit files.

    An existing file with the same bytes is left alone.

    Args:
        home: The folder of the graph.
        given: For each file its relative ``name`` and its bytes as ``base64``.

    Returns:
        The paths of all files, relative to the graph's folder.

    Raises:
        ConfigError: A name or the contents of a file are malformed, a file exists with other
            bytes, or cannot be written. Then no file is written.
    """
    if not 0 < len(given) <= MOST_FILES:
        raise ConfigError(f"files: got {len(given)}; expected 1 to {MOST_FILES}")
    files: dict[PurePosixPath, bytes] = {}
    for file in given:
        name = _read_name(file.get("name"))
        if name in files:
            raise ConfigError(f"files: got {name} twice; expected each name once")
        files[name] = _read_bytes(name, file.get("base64"))
    placed = _place_all(files)
    home = home.resolve()
    contents = {home / path: data for path, data in placed.items()}
    check_below(home, contents)
    write_files(contents, reused=contents)
    return [str(path) for path in placed]


def _read_name(value: Any) -> PurePosixPath:
    """Returns a name from outside as a relative path.

    Raises:
        ConfigError: The name is malformed.
    """
    parts = value.split("/") if isinstance(value, str) else []
    if not 0 < len(parts) <= MOST_PARTS or not all(map(_is_part, parts)):
        raise ConfigError(
            f"files: name: got {value!r:.200}; expected a relative path of at most {MOST_PARTS} "
            f"parts, each at most {_MOST_NAME} characters, not hidden and without '\\'"
        )
    return PurePosixPath(*parts)


def _is_part(part: str) -> bool:
    is_short = 0 < len(part) <= _MOST_NAME
    return is_short and part[0] != "." and "\\" not in part and part.isprintable()


def _read_bytes(name: PurePosixPath, value: Any) -> bytes:
    if not isinstance(value, str):
        raise ConfigError(f"{name}: base64: got {value!r:.60}; expected a text")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise ConfigError(f"{name} did not arrive whole: {error}") from error


def _place_all(files: Mapping[PurePosixPath, bytes]) -> dict[PurePosixPath, bytes]:
    """Returns the files by their paths in the graph's folder.

    Files without a folder belong together: a unit file among them gives all of them its folder.
    """
    units = [name for name, data in files.items() if name.suffix == ".toml" and _BASE.search(data)]
    tops = {name.parts[0] for name in units if len(name.parts) > 1}
    loose = next((name.stem for name in units if len(name.parts) == 1), None)
    placed = {}
    for name, data in files.items():
        first = name.parts[0]
        if len(name.parts) == 1:
            path = PurePosixPath(_MODELS) if loose is None else PurePosixPath(_UNITS, loose)
        elif first in (_MODELS, _UNITS):
            path = PurePosixPath()
        else:
            path = PurePosixPath(_UNITS if first in tops else _MODELS)
        placed[path / name] = data
    return placed
