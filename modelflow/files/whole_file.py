"""Writing a file whole or not at all."""

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

# Bytes of its name that a draft keeps: a name has at most 255.
_MOST_NAME = 100
# What a file is called until it is whole: .NAME.HEX.part
_DRAFT = re.compile(r"\..*\.[0-9a-f]{12}\.part", re.DOTALL)


def write_whole(path: Path, contents: bytes) -> None:
    """Writes a file: readers see the one that was there before, or all of the new one.

    Folders that are not there are made; where writing fails nothing is left, but where the process
    is killed (see `remove_drafts`). Who may read and write a file that is there stays as it is.

    Raises:
        OSError: it cannot be written.
    """
    with whole_file(path) as file:
        file.write(contents)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file to be written piece by piece, as `write_whole` writes one.

    Raises:
        OSError: it cannot be written.
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
    """Removes what `write_whole` had not finished in a folder when its process was killed.

    Nobody else may write there meanwhile: what is being written looks the same.

    Args:
        folder: Where they are.
        of: Those of this file alone; None: of all.

    Raises:
        OSError: the folder cannot be read, or a draft not removed.
    """
    for path in folder.iterdir():
        is_meant = of is None or path.name[: -len("0123456789ab.part")] == _draft_start(of)
        if is_meant and _DRAFT.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def _draft_start(path: Path) -> str:
    return f".{os.fsencode(path.name)[:_MOST_NAME].decode(errors='ignore')}."


def check_standard_output(option: str) -> None:
    """Checks that standard output is there to take data.

    Raises:
        ConfigError: it was closed when the program began (``>&-``).
    """
    if getattr(sys.stdout, "name", "") == os.devnull:  # put there by `modelflow.__main__`
        raise ConfigError(f"{option}: standard output is closed; give a file")
