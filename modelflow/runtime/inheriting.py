"""What the result of a call takes over from the inputs that it was made of.

The meta of the item (``path``, ``index``) go along: what the result has not, from the first input
that has it. The format of an image belongs to its array, and goes along only as
`modelflow.pixel_format` says.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.pixel_format import (
    FORMAT_KEYS,
    NO_FORMAT,
    SIZE_KEYS,
    Format,
    Size,
    format_of,
    is_of_array,
)

__all__ = ["inherit", "inherit_agreed", "inherit_from_call", "strip_data"]

_OF_IMAGES = frozenset((*FORMAT_KEYS, *SIZE_KEYS))
# Values that can be compared: others may compare in any way, or not at all.
_PLAIN = (str, int, float, bool, bytes, type(None))


def inherit(buffer: Buffer, sources: Sequence[Buffer]) -> None:
    """Gives a result the meta of what it was made of: a buffer an input."""
    for source in sources:
        theirs = source._meta
        if theirs and ("pix_fmt" in theirs or "layout" in theirs):
            _merge(buffer, map(_of_item, sources), sources)
            return
    for source in sources:
        if source._meta:
            buffer.inherit_meta(source)


def inherit_agreed(buffer: Buffer, columns: Sequence[Sequence[Buffer]]) -> None:
    """Gives what was made of whole streams, one an input, the meta that all their parts agree on.

    Its format is that of its parts, if it is one.
    """
    parts = [part for column in columns for part in column]
    _merge(buffer, map(_agreed, columns), parts)


def inherit_from_call(buffer: Buffer, sources: Sequence[Buffer]) -> set[str]:
    """Gives a result of a unit of any count what can be told without knowing of which it is made.

    An input's array, or a view of it, has all that the input has; another array the format of the
    inputs, where they have one.

    Returns:
        The keys of the inputs that a picture without any other meta does not get: ``timestamp``.
    """
    for source in sources:
        if is_of_array(buffer.data, source.data):
            inherit(buffer, [source])
            return set()
    _merge(buffer, (), sources)
    if not _is_image(buffer) or not _OF_IMAGES.issuperset(buffer.meta):
        return set()
    return {key for source in sources for key in source.meta} - _OF_IMAGES


def strip_data(source: Buffer) -> Buffer:
    """Returns a buffer without data, from which can be inherited as from ``source``."""
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
    if buffer._meta:
        merged.update(buffer._meta)
    buffer._meta, buffer._is_meta_shared = merged or None, False


def _is_image(buffer: Buffer) -> bool:
    meta = buffer._meta
    return meta is not None and ("pix_fmt" in meta or "layout" in meta)


def _of_item(source: Buffer) -> Mapping[str, Any]:
    """Gives the meta that are not of the array, but of the item."""
    if not _is_image(source):
        return source._meta or {}
    return {key: value for key, value in source.meta.items() if key not in _OF_IMAGES}


def _agreed(parts: Sequence[Buffer]) -> Mapping[str, Any]:
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
        # Anybody may have put anything into the meta.
        pix_fmt, layout = (v if type(v) is str else None for v in source.get_many(*FORMAT_KEYS))
        width, height, channel = source.get_many("width", "height", "channel")
        is_known = all(type(extent) is int for extent in (width, height, channel))
        yield source.data, (pix_fmt, layout), (width, height, channel) if is_known else None
