"""Writes a folder completely or not at all."""

import contextlib
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_folder(path: Path, *, is_forced: bool = False) -> Iterator[Path]:
    """Yields a draft folder whose files take their final places at the end of the block.

    If the block fails, no file remains. Drafts of killed processes are removed as well.

    Args:
        path: The final path, which must be missing or an empty folder. An empty folder is kept,
            because a process may use it as its current folder, or it may be a mount. A link to a
            folder is treated as this folder.
        is_forced: Whether to allow a folder with files. Files of the same names are replaced one by
            one, each completely, and other files stay.

    Raises:
        FileExistsError: the path exists and is not allowed. Nothing is written.
        OSError: the folder cannot be written.
    """
    is_there = path.is_dir()
    if not is_there and (path.exists() or path.is_symlink()):
        raise FileExistsError(path)
    place = path.resolve()
    if not is_there:
        place.parent.mkdir(parents=True, exist_ok=True)
    home = place if is_there else place.parent  # a rename requires the same file system
    _sweep(home, place.name)
    if is_there and not is_forced and any(place.iterdir()):
        raise FileExistsError(path)
    draft = home / f".{place.name}.{secrets.token_hex(6)}.part"
    draft.mkdir()
    try:
        with _hold(draft):
            yield draft
            if is_there:
                _merge(draft, place)
            else:
                draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _sweep(home: Path, name: str) -> None:
    """Removes the drafts of a folder that no process is writing."""
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{12}}\.part")
    for found in [each for each in home.iterdir() if pattern.fullmatch(each.name)]:
        with contextlib.suppress(OSError), _hold(found):
            shutil.rmtree(found)


@contextlib.contextmanager
def _hold(draft: Path) -> Iterator[None]:
    """Marks a draft as being written by this process, for other processes.

    Raises:
        OSError: another process is writing the draft.
    """
    held = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(held)


def _merge(draft: Path, path: Path) -> None:
    """Moves every file of one folder to the same relative path in another."""
    found = [file for file in sorted(draft.rglob("*")) if file.is_file()]
    places = [path / file.relative_to(draft) for file in found]
    for place in places:  # checks all paths before the first file is moved
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            raise FileExistsError(place)
    for file, place in zip(found, places, strict=True):
        file.replace(place)
