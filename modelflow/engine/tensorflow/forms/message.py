"""Protobuf messages read from files."""

from pathlib import Path
from typing import Any

from modelflow.engine.model_file import looks_like
from modelflow.errors import EngineError

_LARGEST = (1 << 31) - 1


def read_message(path: Path, message: Any, expected: str) -> None:
    """Reads a file into the empty protobuf ``message``.

    Raises:
        EngineError: the file is not of that form, or larger than a message may be (2 GiB).
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    size = path.stat().st_size
    if size > _LARGEST:
        text = f"model {path}: {size} bytes; expected {expected} of at most 2 GiB"
        raise EngineError(text)
    try:
        message.ParseFromString(path.read_bytes())
    except DecodeError as error:
        text = f"model {path}: {looks_like(path)}; expected {expected}"
        raise EngineError(text) from error
    if not message.ByteSize():
        text = f"model {path}: {looks_like(path)}; expected {expected}"
        raise EngineError(text)
