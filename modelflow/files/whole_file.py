"""Writing a file whole or not at all."""

import secrets
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, contents: bytes) -> None:
    """Writes a file: readers see the one that was there before, or all of the new one.

    Folders that are not there are made; where writing fails nothing is left.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}")
    try:
        with draft.open("xb") as file:
            file.write(contents)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
