"""New files: a name that can be one, and nothing that is there overwritten."""

import keyword
import re
from collections.abc import Mapping
from pathlib import Path

from modelflow.errors import ConfigError

__all__ = ["check_name", "written"]

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


def check_name(name: str) -> None:
    """Checks the name of a new unit or graph.

    Raises:
        ConfigError: files and Python cannot bear it.
    """
    if not _NAME.match(name) or keyword.iskeyword(name):
        message = (
            f"name: got {name!r}; expected lower-case letters, digits and '_', beginning with a "
            "letter, and no word of Python's own"
        )
        raise ConfigError(message)


def written(files: Mapping[Path, str]) -> list[Path]:
    """Writes new files, and the folders that they are in.

    Returns:
        The files.

    Raises:
        ConfigError: one of them is there already, or cannot be written.
    """
    there = [path for path in files if path.exists()]
    if there:
        message = f"{there[0]}: is there already; nothing was written"
        raise ConfigError(message)
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            message = f"{path}: cannot be written: {error.strerror or error}"
            raise ConfigError(message) from error
    return list(files)
