"""Writing a folder whole or not at all."""

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["whole_folder"]


@contextlib.contextmanager
def whole_folder(path: Path, *, is_forced: bool = False) -> Iterator[Path]:
    """Gives a folder to write in, which takes its place at the end of the block.

    Where the block fails nothing of it is left.

    Args:
        path: The place: nothing is there, or an empty folder.
        is_forced: There may be one with files: those of the same names are replaced, each as a
            whole, and the others stay.

    Raises:
        FileExistsError: there is something else; nothing is written.
        OSError: it cannot be written.
    """
    is_there = path.exists() or path.is_symlink()
    if is_there and not (path.is_dir() and (is_forced or not any(path.iterdir()))):
        raise FileExistsError(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    draft.mkdir()
    try:
        yield draft
        if is_there and is_forced:
            _merge(draft, path)
        else:
            draft.rename(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


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
