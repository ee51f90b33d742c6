"""Files that a command writes: checked before work begins, written whole."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from modelflow.errors import ConfigError
from modelflow.files.whole_file import check_standard_output, write_whole


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


def write_output(option: str, target: str, data: bytes) -> None:
    """Writes a file, all of it or nothing; a device or a pipe as it comes.

    Args:
        option: What names it, for messages.
        target: The file, in a folder that is there; ``-``: standard output.
        data: Its contents.

    Raises:
        ConfigError: it cannot be written; the message says why.
    """
    if target == "-":
        check_standard_output(f"{option} -")
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    path = Path(os.path.realpath(target))  # a link stays one
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            path.parent.stat()
            write_whole(path, data)
    except OSError as error:
        message = f"{option} {target}: cannot be written: {error.strerror or error}"
        raise ConfigError(message) from error
