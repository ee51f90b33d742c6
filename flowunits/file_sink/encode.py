"""The contents of files: images, arrays, JSON, text."""

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from modelflow import Buffer
from modelflow.image import convert_color, opencv, read_image

__all__ = ["FORMATS", "IMAGE_SUFFIXES", "encode", "json_line"]

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
FORMATS = {
    **dict.fromkeys(IMAGE_SUFFIXES, "image"),
    ".npy": "npy",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
}
_MAX_DEPTH = 64


def encode(buffer: Buffer, kind: str, suffix: str, quality: int) -> bytes:
    """Returns the contents of a file that holds ``buffer``.

    Args:
        buffer: What to write.
        kind: ``image npy bytes text``.
        suffix: For images, the ending of the path, which names the format.
        quality: For JPEG and WebP, 1..100.

    Raises:
        ValueError: the data is not of that kind.
    """
    data = buffer.data
    if kind == "image":
        return data if isinstance(data, bytes) else _image(buffer, suffix, quality)
    if kind == "npy":
        return _npy(data)
    if kind == "text" and not isinstance(data, str):
        text = str(buffer) if isinstance(data, bytes) else json.dumps(plain(data))
        return text.encode()
    return _bytes(data)


def json_line(data: Any) -> bytes:
    """Returns ``data`` as one line of JSON with its line feed.

    Raises:
        ValueError: it holds something that JSON cannot hold.
    """
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def plain(value: Any, depth: int = 0) -> Any:
    """Returns ``value`` as what JSON knows: arrays as lists, boxes as mappings, bytes as text.

    Raises:
        ValueError: it holds something else, or is nested too deeply.
    """
    if depth > _MAX_DEPTH:
        message = f"in_data: got data nested deeper than {_MAX_DEPTH}; expected less for JSON"
        raise ValueError(message)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    message = f"in_data: got {type(value).__name__}; expected data that JSON can hold"
    raise ValueError(message)


def _image(buffer: Buffer, suffix: str, quality: int) -> bytes:
    cv2 = opencv()
    if suffix not in IMAGE_SUFFIXES:
        message = (
            f"path: got the ending {suffix!r} for an image; expected one of "
            f"{', '.join(IMAGE_SUFFIXES)}"
        )
        raise ValueError(message)
    image = read_image(buffer, "in_data", allow_nv12=True)
    pixels = convert_color(image, "gray" if image.pix_fmt == "gray" else "bgr", "hwc").data
    parameters = []
    if suffix in (".jpg", ".jpeg"):
        parameters = [cv2.IMWRITE_JPEG_QUALITY, quality]
    elif suffix == ".webp":
        parameters = [cv2.IMWRITE_WEBP_QUALITY, quality]
    try:
        _, encoded = cv2.imencode(suffix, pixels, parameters)
    except cv2.error as error:
        size = f"{image.width} x {image.height}"
        message = f"in_data: got {size} pixels, which {suffix} cannot hold: {error.err}"
        raise ValueError(message) from error
    contents: bytes = encoded.tobytes()
    return contents


def _npy(data: Any) -> bytes:
    if not isinstance(data, np.ndarray) or data.dtype.hasobject:
        message = f"in_data: got {type(data).__name__}; expected an array of numbers for npy"
        raise ValueError(message)
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
    message = f"in_data: got {type(data).__name__}; expected bytes, text or an array"
    raise ValueError(message)
