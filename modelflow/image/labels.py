"""Reads files of class names, one name a line."""

from pathlib import Path

_MAX_BYTES = 16 << 20


def read_labels(path: str) -> tuple[str, ...]:
    """Returns the names in a UTF-8 text file, one a line; blank lines at its end are ignored.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is larger than 16 MiB, or is no text.
    """
    file = Path(path)
    try:
        size = file.stat().st_size
    except OSError as error:
        raise type(error)(
            f"labels file {path}: {error.strerror}; expected a text file with a name a line"
        ) from error
    if size > _MAX_BYTES:
        raise ValueError(f"labels file {path}: got {size} bytes; expected at most {_MAX_BYTES}")
    try:
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"labels file {path}: got no UTF-8 text; expected a name a line"
        ) from error
    return tuple(line.strip() for line in text.rstrip().splitlines())
