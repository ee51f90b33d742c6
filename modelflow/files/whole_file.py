"""Writes a file completely or not at all."""

import contextlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from modelflow.errors import ConfigError

# Bytes of the file's name that a draft keeps, because a name has at most 255 bytes.
_MOST_NAME = 100
# The name of a file until it is complete: .NAME.HEX.part
_DRAFT = re.compile(r"\..*\.[0-9a-f]{12}\.part", re.DOTALL)


def write_whole(path: Path, contents: bytes) -> None:
    """Writes a file; readers see the previous contents or the complete new contents.

    Missing folders are made. If writing fails, no draft remains, unless the process was killed (see
    `remove_drafts`). An existing file keeps its permissions.

    Raises:
        OSError: the file cannot be written.
    """
    with whole_file(path) as file:
        file.write(contents)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file to write its contents in several pieces, as `write_whole` does.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{_draft_start(path)}{secrets.token_hex(6)}.part")
    try:
        with draft.open("xb") as file:
            yield file
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def remove_drafts(folder: Path, of: Path | None = None) -> None:
    """Removes the drafts that killed processes left in a folder.

    No other process may write to the folder meanwhile, because the drafts of running processes look
    the same.

    Args:
        folder: The folder of the drafts.
        of: The file whose drafts are removed. By default all drafts are removed.

    Raises:
        OSError: the folder cannot be read, or a draft cannot be removed.
    """
    for path in folder.iterdir():
        is_meant = of is None or path.name[: -len("0123456789ab.part")] == _draft_start(of)
        if is_meant and _DRAFT.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def _draft_start(path: Path) -> str:
    return f".{os.fsencode(path.name)[:_MOST_NAME].decode(errors='ignore')}."


def check_standard_output(option: str) -> None:
    """Checks that standard output is open.

    Raises:
        ConfigError: standard output was closed when the program began (``>&-``).
    """
    if getattr(sys.stdout, "name", "") == os.devnull:  # set by `modelflow.__main__`
        raise ConfigError(f"{option}: standard output is closed; give a file")
