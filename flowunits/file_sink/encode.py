"""Encodes the contents of files: images, arrays, JSON, text."""

import io
import json
from typing import Any

import numpy as np

from modelflow import Buffer
from modelflow.files.json_value import json_value
from modelflow.image import ENCODINGS, encode_image, read_image

__all__ = ["FORMATS", "encode", "json_line"]

FORMATS = {
    **dict.fromkeys([f".{name}" for name in ENCODINGS], "image"),
    ".npy": "npy",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
}


def encode(buffer: Buffer, kind: str, suffix: str, quality: int) -> bytes:
    """Returns the contents of a file that holds ``buffer``.

    Args:
        buffer: The data.
        kind: ``image npy bytes text``.
        suffix: For images, the ending of the path, which names the format.
        quality: For JPEG and WebP, 1..100.

    Raises:
        ValueError: the data is not of that kind.
    """
    data = buffer.data
    if kind == "image":
        if isinstance(data, bytes):  # already encoded
            return data
        image = read_image(buffer, "in_data", allow_nv12=True)
        return encode_image(image, suffix.removeprefix("."), quality)
    if kind == "npy":
        return _npy(data)
    if kind == "text" and not isinstance(data, str):
        text = str(buffer) if isinstance(data, bytes) else json.dumps(_plain(data))
        return text.encode()
    return _bytes(data)


def json_line(data: Any) -> bytes:
    """Returns ``data`` as one line of JSON with its line feed.

    Raises:
        ValueError: the data holds a value that JSON cannot represent.
    """
    text = json.dumps(_plain(data), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def _plain(data: Any) -> Any:
    try:
        return json_value(data)
    except ValueError as error:
        raise ValueError(f"in_data: {error}") from error


def _npy(data: Any) -> bytes:
    if not isinstance(data, np.ndarray) or data.dtype.hasobject:
        raise ValueError(
            f"in_data: got {type(data).__name__}; expected an array of numbers for npy"
        )
    stream = io.BytesIO()
    np.save(stream, data, allow_pickle=False)
    return stream.getvalue()


def _bytes(data: Any) -> bytes:
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, np.ndarray) and not data.dtype.hasobject:
        return data.tobytes()
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise ValueError(f"in_data: got {type(data).__name__}; expected bytes, text or an array")
