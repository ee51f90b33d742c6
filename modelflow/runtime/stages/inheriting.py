"""The meta that a result inherits from the inputs of its call.

The meta of the item (``path``, ``index``) are inherited. A key that the result lacks comes from the
first input that has the key. A key that the unit sets to None is removed. The format of an image
belongs to its array: `modelflow.pixels` says when a result inherits the format.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import is_
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.pixels import (
    CHANNELS,
    FORMAT_KEYS,
    NO_FORMAT,
    SIZE_KEYS,
    Format,
    Size,
    format_of,
)

_UINT8 = np.dtype(np.uint8)
_PACKED = ("bgr", "rgb", "gray")
_OF_IMAGES = frozenset((*FORMAT_KEYS, *SIZE_KEYS))
# Types whose values can be compared safely. Values of other types may raise, or return an array.
_PLAIN = (str, int, float, bool, bytes, type(None))


def inherit(buffer: Buffer, sources: Sequence[Buffer]) -> None:
    """Copies meta to a result from its sources, a buffer for each input."""
    for source in sources:
        theirs = source._meta
        if theirs and ("pix_fmt" in theirs or "layout" in theirs):
            if len(sources) > 1 or not _inherit_usual(buffer, source, theirs):
                _merge(buffer, map(_of_item, sources), sources)
            return
    own = buffer._meta
    for source in sources:
        if source._meta:
            buffer.inherit_meta(source)
    if own:
        _remove_none(buffer, own)


def _inherit_usual(buffer: Buffer, source: Buffer, theirs: Mapping[str, Any]) -> bool:
    """Copies the meta of an image without further meta; returns False if the case is unusual.

    The result is that of `_merge`, which takes twenty times as long.
    """
    if not _is_format_alone(theirs):
        return False
    own = buffer._meta
    if own:
        return _is_image(buffer) and not any(map(is_, own.values(), repeat(None)))
    data, image = buffer.data, source.data
    if type(data) is not np.ndarray or data is image:
        return False
    if data.ndim < 3:
        return bool(data.dtype != _UINT8)  # scores or boxes; bytes may be pixels in one row
    is_same = type(image) is np.ndarray and data.shape == image.shape
    channel = CHANNELS[theirs["pix_fmt"]]
    if not is_same or theirs["layout"] != "hwc" or data.shape[2:] != (channel,):
        return False
    buffer.inherit_meta(source)
    return True


def _is_format_alone(meta: Mapping[str, Any]) -> bool:
    pix_fmt, layout = meta.get("pix_fmt"), meta.get("layout")
    is_packed = type(pix_fmt) is str and pix_fmt in _PACKED
    return is_packed and type(layout) is str and len(meta) == 2


def inherit_whole(
    buffer: Buffer, columns: Sequence[Sequence[Buffer]], origin: Sequence[Buffer]
) -> None:
    """Copies to a result of whole streams the meta of the buffers that were expanded.

    Meta of the stream's own buffers stay with them. The score of an object is not the score of its
    picture. The result gets the image format of the stream's buffers if all have the same format.

    Args:
        buffer: The result.
        columns: The buffers of the stream, a column for each input.
        origin: The buffers that were expanded into the stream. If they are unknown, the result gets
            the meta on which all buffers of the stream agree.
    """
    parts = [part for column in columns for part in column]
    metas = map(_of_item, origin) if origin else map(_intersect, columns)
    _merge(buffer, metas, parts)


class StreamInputs:
    """The inputs of a stream unit that may emit any number of results.

    The runtime cannot know from which input such a unit made a result. A result that is the array
    of an input inherits all meta of that input. Another array gets the format of the stream's
    images, if all images so far have the same format.
    """

    def __init__(self) -> None:
        """Starts a stream without inputs."""
        self._formats: dict[Format, Buffer] = {}
        self._by_data: dict[int, Buffer] = {}

    def begin(self, sources: Iterable[Buffer]) -> None:
        """Stores the inputs of the next call."""
        self._by_data = {}
        for source in sources:
            if hasattr(source.data, "shape"):
                self._by_data[id(source.data)] = source
            if _is_image(source):
                pix_fmt, layout = source.get_many(*FORMAT_KEYS)
                if type(pix_fmt) is str and len(self._formats) < 2:
                    key = (pix_fmt, layout if type(layout) is str else None)
                    self._formats.setdefault(key, strip_data(source))

    def end(self) -> None:
        """Forgets the arrays of the call."""
        self._by_data = {}

    def give(self, buffer: Buffer) -> set[str]:
        """Copies meta to a result, but only from inputs that certainly match.

        Returns:
            Keys of the inputs that an image without meta of its own loses, such as ``timestamp``.
        """
        source = self._by_data.get(id(buffer.data))
        if source is not None:
            inherit(buffer, [source])
            return set()
        if not self._formats:
            return set()
        _merge(buffer, (), [*self._formats.values()])
        if not _is_image(buffer) or not _OF_IMAGES.issuperset(buffer.meta):
            return set()
        return {key for seen in self._formats.values() for key in seen.meta} - _OF_IMAGES


def strip_data(source: Buffer) -> Buffer:
    """Returns a buffer without data that has the meta and sizes of ``source``."""
    kept = Buffer()
    kept.inherit_meta(source)
    sizes = source.sizes()
    if sizes:
        kept.meta.update(sizes)
    return kept


def _merge(buffer: Buffer, metas: Iterable[Mapping[str, Any]], sources: Sequence[Buffer]) -> None:
    merged: dict[str, Any] = {}
    for meta in metas:
        merged = {**meta, **merged}
    if not _is_image(buffer):
        merged.update(format_of(buffer.data, _images(sources)))
    own = buffer._meta
    if own:
        merged.update(own)
    buffer._meta, buffer._is_meta_shared = merged or None, False
    if own:
        _remove_none(buffer, own)


def _remove_none(buffer: Buffer, own: Mapping[str, Any]) -> None:
    """Removes the keys that the unit has set to None."""
    for key in [key for key, value in own.items() if value is None]:
        buffer.meta.pop(key, None)


def _is_image(buffer: Buffer) -> bool:
    meta = buffer._meta
    return meta is not None and ("pix_fmt" in meta or "layout" in meta)


def _of_item(source: Buffer) -> Mapping[str, Any]:
    """Returns the meta that belong to the item, not to its array."""
    if not _is_image(source):
        return source._meta or {}
    return {key: value for key, value in source.meta.items() if key not in _OF_IMAGES}


def _intersect(parts: Sequence[Buffer]) -> Mapping[str, Any]:
    if not parts:
        return {}
    agreed = dict(_of_item(parts[0]))
    for part in parts[1:]:
        theirs = part._meta or {}
        for key in [key for key in agreed if not _is_equal(agreed[key], theirs.get(key, parts))]:
            del agreed[key]
    return agreed


def _is_equal(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and type(one) in _PLAIN and one == other)


def _images(sources: Iterable[Buffer]) -> Iterator[tuple[Any, Format, Size | None]]:
    for source in sources:
        if not _is_image(source):
            yield source.data, NO_FORMAT, None
            continue
        # The types are checked, because units may store any value under these keys.
        pix_fmt, layout = (v if type(v) is str else None for v in source.get_many(*FORMAT_KEYS))
        width, height, channel = source.get_many("width", "height", "channel")
        is_known = all(type(extent) is int for extent in (width, height, channel))
        yield source.data, (pix_fmt, layout), (width, height, channel) if is_known else None
