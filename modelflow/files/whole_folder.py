"""Writing a folder whole or not at all."""

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
    """Gives a folder to write in, whose files take their places at the end of the block.

    Where the block fails nothing of it is left; what a process left that was killed goes as well.

    Args:
        path: The place: nothing is there, or an empty folder, which stays the one that it is:
            somebody may stand in it, or have mounted it. A link to one is taken for it.
        is_forced: There may be one with files: those of the same names are replaced, each as a
            whole, and the others stay.

    Raises:
        FileExistsError: there is something else; nothing is written.
        OSError: it cannot be written.
    """
    is_there = path.is_dir()
    if not is_there and (path.exists() or path.is_symlink()):
        raise FileExistsError(path)
    place = path.resolve()
    if not is_there:
        place.parent.mkdir(parents=True, exist_ok=True)
    home = place if is_there else place.parent  # of the same file system as what is moved there
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
    """Removes the drafts of a folder that nobody writes any more."""
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{12}}\.part")
    for found in [each for each in home.iterdir() if pattern.fullmatch(each.name)]:
        with contextlib.suppress(OSError), _hold(found):
            shutil.rmtree(found)


@contextlib.contextmanager
def _hold(draft: Path) -> Iterator[None]:
    """Has others see that a draft is written, for as long as this process lives.

    Raises:
        OSError: another process writes it.
    """
    held = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(held)


def _merge(draft: Path, path: Path) -> None:
    """Moves every file of one folder to its place in another."""
    found = [file for file in sorted(draft.rglob("*")) if file.is_file()]
    places = [path / file.relative_to(draft) for file in found]
    for place in places:  # before any is moved
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            raise FileExistsError(place)
    for file, place in zip(found, places, strict=True):
        file.replace(place)
