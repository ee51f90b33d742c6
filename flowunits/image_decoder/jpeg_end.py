"""JPEG data whose end marker alone is missing, as cameras and streams that were cut leave it."""

import re

__all__ = ["append_end_marker"]

_END = b"\xff\xd9"
_START_OF_SCAN = 0xDA
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_COEFFICIENTS = 64
# In a scan's data: a marker, which 0xff 0x00 and the restart markers are not. Of a row of 0xff only
# the last one is looked at: the time is linear in the data.
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")


def append_end_marker(data: memoryview) -> bytes | None:
    """Returns JPEG data with the end marker that it lacks; None where something else is wrong.

    All scans must be there: of a progressive image each brings some more bits of some coefficients
    (ITU-T T.81, annex G), and a decoder does not tell that the last ones are missing. Whether the
    last scan is whole the decoder tells.
    """
    encoded = bytes(data)
    try:
        is_only_end_missing = _is_complete_but_end(encoded)
    except IndexError:  # it ends within a segment
        return None
    return encoded.rstrip(b"\xff") + _END if is_only_end_missing else None


def _is_complete_but_end(data: bytes) -> bool:
    bits_left: dict[int, list[int]] = {}  # component -> the lowest bit that each coefficient lacks
    at = 2
    while True:
        found = _MARKER.search(data, at)
        if found is None:
            return bool(bits_left) and not any(any(bits) for bits in bits_left.values())
        marker, at = data[found.end() - 1], found.end()
        if marker == 0xD9:
            return False
        length = data[at] << 8 | data[at + 1]
        segment = data[at + 2 : at + length]
        if len(segment) < length - 2:
            raise IndexError(at)
        if marker in _FRAMES:
            bits_left = {segment[6 + 3 * i]: [1] * _COEFFICIENTS for i in range(segment[5])}
        elif marker == _START_OF_SCAN:
            _note_scan(segment, bits_left)
        at += length


def _note_scan(segment: bytes, bits_left: dict[int, list[int]]) -> None:
    count = segment[0]
    first, last, approximation = segment[1 + 2 * count : 4 + 2 * count]
    for i in range(count):
        bits = bits_left.setdefault(segment[1 + 2 * i], [1] * _COEFFICIENTS)
        for place in range(first, min(last, _COEFFICIENTS - 1) + 1):
            bits[place] = approximation & 15
