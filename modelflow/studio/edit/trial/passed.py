"""The last buffers of every output of a graph, in the form that a page shows."""

import itertools
import json
import math
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.device import CPU
from modelflow.errors import describe_error
from modelflow.files.json_value import json_value, number_lists

KEPT = 4
"""The number of buffers that are stored for each output."""

_MOST_SIDE = 1024
# The most values of an array that statistics are computed from.
_MOST_COUNTED = 1 << 20
_MOST_VALUES = 64
_MOST_TEXT = 20_000
_MOST_BYTES = 64
_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


class ImagePreview(NamedTuple):
    """An image in a format of browsers.

    Attributes:
        kind: The media type.
        contents: The contents of the image file.
    """

    kind: str
    contents: bytes


class _Kept:
    """A buffer, and its document once a page has requested that."""

    __slots__ = ("buffer", "document", "number", "picture")

    def __init__(self, buffer: Buffer, number: int) -> None:
        self.buffer = buffer
        self.number = number
        self.document: dict[str, Any] | None = None
        self.picture: ImagePreview | None = None


class EdgeSamples:
    """The last buffers of every output. Safe from any thread, but call `document` on one only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._kept: dict[tuple[str, str], deque[_Kept]] = {}
        self._numbers = itertools.count(1)

    def add(self, node: str, output: str, buffers: Sequence[Buffer]) -> None:
        """Stores the last buffers of an output; see `modelflow.runtime.entry.sinks.Tap`."""
        last = [_Kept(buffer.twin(), next(self._numbers)) for buffer in buffers[-KEPT:]]
        with self._lock:
            self._counts[node, output] += len(buffers)
            self._kept.setdefault((node, output), deque(maxlen=KEPT)).extend(last)

    def document(self, node: str, output: str) -> dict[str, Any]:
        """Returns the last buffers of an output as JSON values, the newest first.

        An image among them has a ``number``, with which `picture` returns it.
        """
        with self._lock:
            count = self._counts[node, output]
            kept = tuple(self._kept.get((node, output), ()))
        return {"count": count, "values": [_show(one) for one in reversed(kept)]}

    def picture(self, number: int) -> ImagePreview | None:
        """Returns an image of a document, or None for a number that is unknown or too old."""
        with self._lock:
            everything = [one for kept in self._kept.values() for one in kept]
        return next((one.picture for one in everything if one.number == number), None)


def _show(kept: _Kept) -> dict[str, Any]:
    """Returns the document of a buffer; an error for one buffer does not affect others."""
    if kept.document is None:
        try:
            kept.document, kept.picture = _look_at(kept.buffer)
            json.dumps(kept.document, allow_nan=False)
        except Exception as error:  # noqa: BLE001 - an object of the user may raise anything
            text = f"cannot be shown: {describe_error(error)}"
            name = type(kept.buffer.data).__name__
            kept.document = {"kind": "object", "type": name, "text": text, "meta": {}}
        if kept.picture is not None:
            kept.document["picture"] = kept.number
    return kept.document


def _look_at(buffer: Buffer) -> tuple[dict[str, Any], ImagePreview | None]:
    if buffer.error is not None:
        document = {"kind": "error", "text": str(buffer.error), "meta": _meta(buffer.meta)}
        return document, None
    buffer = buffer.to(CPU)
    return {**_describe(buffer.data), "meta": _meta(buffer.meta)}, _picture(buffer)


def _picture(buffer: Buffer) -> ImagePreview | None:
    data = buffer.data
    if isinstance(data, bytes | bytearray | memoryview):
        contents = bytes(data)
        kinds = (kind for start, kind in _SIGNATURES.items() if contents.startswith(start))
        kind = next(kinds, None)
        return None if kind is None else ImagePreview(kind, contents)
    contents_or_none = _thin(buffer)._repr_png_() if _is_image(data) else None
    return None if contents_or_none is None else ImagePreview("image/png", contents_or_none)


def _thin(buffer: Buffer) -> Buffer:
    """Returns an image with rows and columns left out, to limit the time of encoding."""
    data = buffer.data
    rows, columns = data.shape[-3:-1] if data.ndim == 3 else data.shape
    if buffer.get("layout") == "chw" or buffer.get("pix_fmt") in ("nv12", "nv21"):
        return buffer  # planes cannot be thinned like pixels
    step = max(1, max(rows, columns) // _MOST_SIDE)
    return buffer if step == 1 else Buffer(data[::step, ::step], buffer.meta)


def _is_image(data: Any) -> bool:
    return isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim in (2, 3)


def _describe(data: Any) -> dict[str, Any]:
    """Returns the document of a value: its kind, and the contents for that kind."""
    if isinstance(data, str):
        return {"kind": "text", "text": data[:_MOST_TEXT], "length": len(data)}
    if isinstance(data, bytes | bytearray | memoryview):
        return _bytes(bytes(data))
    if isinstance(data, np.ndarray):
        return _array(data)
    try:
        return {"kind": "json", "value": _shorten(_finite(json_value(data)))}
    except ValueError:  # an object of the user's own class
        text = repr(data)
        return {"kind": "object", "type": type(data).__name__, "text": text[:_MOST_TEXT]}


def _bytes(data: bytes) -> dict[str, Any]:
    binary = {"kind": "bytes", "text": data[:_MOST_BYTES].hex(" "), "length": len(data)}
    try:
        text = data.decode()[:_MOST_TEXT]
    except UnicodeDecodeError:
        return binary
    is_text = all(letter.isprintable() or letter.isspace() for letter in text)
    return {"kind": "text", "text": text, "length": len(data)} if is_text else binary


def _array(array: npt.NDArray[Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "kind": "array",
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "first": _first(array),
    }
    if array.dtype.kind in "iufb" and array.size:
        step = -(-array.size // _MOST_COUNTED)
        values = array.reshape(-1)[::step]
        values = values.astype(np.float64) if array.dtype.kind == "f" else values
        good = values[np.isfinite(values)] if array.dtype.kind == "f" else values
        shown["odd"] = int(values.size - good.size)  # not finite
        shown["step"] = step
        if good.size:
            figures = {"min": good.min(), "max": good.max(), "mean": good.mean(), "std": good.std()}
            plain = {name: value.item() for name, value in figures.items()}
            shown |= {
                name: value if math.isfinite(value) else None for name, value in plain.items()
            }
    return shown


def _first(array: npt.NDArray[Any]) -> list[Any]:
    values = array.reshape(-1)[:_MOST_VALUES]
    if array.dtype.kind in "iufb" and array.dtype.itemsize <= 8:
        found: list[Any] = _finite(number_lists(values))
        return found
    return [str(value)[:200] for value in values]


def _meta(meta: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value)[:200] for key, value in itertools.islice(meta.items(), 40)}


def _finite(value: Any) -> Any:
    """Replaces numbers that JSON does not know by texts."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return value


def _shorten(value: Any) -> Any:
    """Cuts long lists, mappings and texts."""
    if isinstance(value, str):
        return value if len(value) <= _MOST_TEXT else f"{value[:_MOST_TEXT]}…"
    if isinstance(value, list):
        cut = [_shorten(one) for one in value[:_MOST_VALUES]]
        more = len(value) - _MOST_VALUES
        return [*cut, f"… {more} more"] if more > 0 else cut
    if isinstance(value, dict):
        items = itertools.islice(value.items(), _MOST_VALUES)
        found = {key: _shorten(one) for key, one in items}
        more = len(value) - _MOST_VALUES
        return {**found, "…": f"{more} more"} if more > 0 else found
    return value
