"""Repairs JPEG data that lacks only its end marker, as after a truncated stream."""

import re

__all__ = ["append_end_marker"]

_END = b"\xff\xd9"
_START_OF_SCAN = 0xDA
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_COEFFICIENTS = 64
# A marker in the data of a scan. The bytes 0xff 0x00 and the restart markers are none. In a run of
# 0xff only the last byte can match, which keeps the time linear in the data.
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")


def append_end_marker(data: memoryview) -> bytes | None:
    """Returns JPEG data with the missing end marker, or None if the data has another fault.

    All scans must be present. In a progressive image each scan adds bits to some coefficients
    (ITU-T T.81, annex G), and a decoder does not report missing last scans. A decoder does report
    whether the last scan is complete.
    """
    encoded = bytes(data)
    try:
        is_only_end_missing = _is_complete_but_end(encoded)
    except IndexError:  # the data ends within a segment
        return None
    return encoded.rstrip(b"\xff") + _END if is_only_end_missing else None


def _is_complete_but_end(data: bytes) -> bool:
    bits_left: dict[int, list[int]] = {}  # component -> the lowest missing bit of each coefficient
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
