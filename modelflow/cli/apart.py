"""Files that one command reads and writes: each option has files of its own."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

__all__ = ["check_apart"]


def check_apart(read: Mapping[str, Sequence[Path]], written: Mapping[str, Path]) -> None:
    """Checks that nothing is written that is read, and nothing is written twice.

    Args:
        read: The files that are read, by the option that names them.
        written: The files and folders that are written.

    Raises:
        click.UsageError: two options name the same file.
    """
    inputs = {_identity(path): option for option, paths in read.items() for path in paths}
    seen: dict[object, str] = {}
    for option, path in written.items():
        if os.path.exists(path) and not path.is_file() and not path.is_dir():
            continue  # a device or a pipe
        identity = _identity(path)
        if identity in inputs:
            message = (
                f"{option}: {path} is read by {inputs[identity]}, and would be overwritten; give "
                "another file"
            )
            raise click.UsageError(message)
        other = seen.setdefault(identity, option)
        if other != option:
            message = f"{option}: is the file of {other}; give each a file of its own"
            raise click.UsageError(message)


def _identity(path: Path) -> object:
    """Returns what is the same for two names of a file, links too."""
    try:
        found = path.stat()
    except OSError:  # it is not there yet
        return os.path.realpath(path)
    return found.st_dev, found.st_ino
