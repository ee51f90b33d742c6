"""The section ``[serve]`` of a graph file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modelflow.config.document import read_text
from modelflow.config.keys import KeyReader
from modelflow.config.schema import SERVE_KEYS, SERVE_OPTIONS
from modelflow.config.serve_port import ServeConfig, ServePort
from modelflow.errors import ConfigError

__all__ = ["read_serve"]


def read_serve(given: Any, folder: Path, reader: KeyReader) -> ServeConfig:
    """Returns what the section says.

    Args:
        given: Its values.
        folder: What paths in it are relative to.
        reader: Gets what is wrong.
    """
    keys = reader.read(("serve",), given, SERVE_OPTIONS)
    sides = {
        side: {
            name: _port(("serve", side, name), table, folder, reader)
            for name, table in reader.table(("serve", side), keys[side]).items()
        }
        for side in SERVE_KEYS
    }
    return ServeConfig(**sides, is_isolated=keys["isolate"])


def _port(path: tuple[str, str, str], given: Any, folder: Path, reader: KeyReader) -> ServePort:
    keys = reader.read(path, given, SERVE_KEYS[path[1]])
    shape: list[int] | None = keys["shape"]
    if shape is not None and 0 in shape:
        message = f"[{'.'.join(path)}]: key 'shape': got {shape}; expected lengths from 1, or -1"
        reader.wrong((*path, "shape"), message)
    return ServePort(
        keys["datatype"],
        None if shape is None else tuple(None if extent == -1 else extent for extent in shape),
        keys["batched"],
        _labels(path, keys.get("labels", ()), folder, reader),
        reader.at(*path),
    )


def _labels(
    path: tuple[str, str, str], given: str | Sequence[str], folder: Path, reader: KeyReader
) -> tuple[str, ...]:
    """The names themselves, or those in a file."""
    if not isinstance(given, str):
        return tuple(given)
    try:
        return tuple(line.strip() for line in read_text(folder / given).rstrip().splitlines())
    except ConfigError as error:
        reader.wrong((*path, "labels"), f"[{'.'.join(path)}]: labels: {error}")
        return ()
