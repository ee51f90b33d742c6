"""Reads format, size and orientation from the first bytes of an image, without decoding.

The data comes from clients: every loop is bounded and every offset checked.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from flowunits.image_decoder.other import advise_other

__all__ = ["Header", "read_header"]

_FORMATS = (
    "JPEG, PNG, WebP, BMP or TIFF; or, with Pillow, GIF, AVIF, HEIF, JPEG 2000, ICO, PPM or QOI"
)
_HEAD = 132  # bytes; the mark of DICOM is at 128
_MAX_SEGMENTS = 4096
_MAX_CHUNKS = 1 << 17
# A progressive JPEG has about ten scans. Each scan costs a pass over the whole image.
_MAX_SCANS = 100
_MAX_TAGS = 1024
_ORIENTATION, _TIFF_WIDTH, _TIFF_HEIGHT = 0x0112, 0x0100, 0x0101
_PHOTOMETRIC, _EXTRA_SAMPLES, _SAMPLES = 0x0106, 0x0152, 0x0115
# OpenCV multiplies colours by alpha even if TIFF does not declare this, and cannot read CIE Lab.
_LAB = 8
# Tags that decoders do not check in a truncated file: the colour map and the positions of pixels.
_COLOUR_MAP, _OFFSETS = 0x0140, (0x0111, 0x0117, 0x0144, 0x0145)
_TYPE_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 16: 8}
# BMP that OpenCV reads right. It widens 16 bits a pixel with zeros or refuses them, and it reads
# run lengths wrong.
_BMP_PLAIN, _BMP_MASKS = 0, 3
# First bytes of formats that only Pillow reads.
_SIGNATURES = (
    (b"GIF8", "gif"),
    (b"\0\0\1\0", "ico"),
    (b"\0\0\0\x0cjP  ", "jpeg2000"),
    (b"\xff\x4f\xff\x51", "jpeg2000"),
    (b"qoif", "qoi"),
    (b"II+\0", "tiff"),  # BigTIFF
    (b"MM\0+", "tiff"),
)
_PNG_HEADER = re.compile(rb"\x89PNG\r\n\x1a\n.{4}IHDR(.{8})", re.DOTALL)
# Brands of files in boxes (ISO 14496-12). The first that a file names and that is here counts, AVIF
# before HEIF: an AVIF file may have the major brand mif1, which is that of both.
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "avif"),
    **dict.fromkeys(
        (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "heif"
    ),
}
_SHORT, _LONG = 3, 4
# Markers without a length: TEM, RST0..7, SOI.
_BARE = {0x01, *range(0xD0, 0xD9)}
# Markers whose segments are skipped: DHT, DQT, DRI, COM, and the APP markers except APP1 (EXIF).
_PASSED = {0xC4, 0xDB, 0xDD, 0xFE, 0xE0, *range(0xE2, 0xF0)}
_SEGMENT = struct.Struct(">BBH")  # 0xff, the marker, the length of the segment with these 2 bytes
# Start of frame. DHT, JPG and DAC are in the same range, but are no frames.
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BASELINE, _EXTENDED, _PROGRESSIVE = 0xC0, 0xC1, 0xC2
_HUFFMAN = {0xC0, 0xC1, 0xC2}  # in these frames each block takes at least one bit
_BLOCK = 8 * 8
_PNG_CHANNELS = {2: 3, 4: 2, 6: 4}  # colour type -> values a pixel, if more than one
_DEFLATE_RATIO = 1040  # a deflate stream expands to at most this many times its size
# Usual luma sampling factors (horizontal and vertical, 4 bits each), with chroma of (1, 1):
# 444, 422, 420, 440 and 411.
_LUMA = {0x11, 0x21, 0x22, 0x12, 0x41}
_ONCE = 0x11


@dataclass(slots=True)  # not frozen: that takes twice as long, and each image makes an object
class Header:
    """Format, size and other properties that the first bytes of an image declare.

    Attributes:
        format: ``jpeg png webp bmp tiff``, or a format that only Pillow reads.
        width, height: The stored size, before any rotation; 0 if only Pillow can read it.
        orientation: The EXIF orientation, 1 to 8. Only JPEG images set it.
        is_plain_jpeg: Whether the image is a JPEG of one or three 8-bit channels with a usual
            sampling. For such images libjpeg-turbo's own interface returns the same pixels as
            OpenCV.
        least_bytes: The least number of encoded bytes for this size; 0 if unknown.
        is_for_pillow: Whether OpenCV cannot read the image, or reads it wrong.
    """

    format: str
    width: int
    height: int
    orientation: int = 1
    is_plain_jpeg: bool = False
    least_bytes: int = 0
    is_for_pillow: bool = False

    @property
    def pixels(self) -> int:
        """The width times the height."""
        return self.width * self.height


def read_header(data: memoryview) -> Header:
    """Reads the header of an encoded image.

    Raises:
        ValueError: the format is unknown, or the data ends within the header.
    """
    head = bytes(data[:_HEAD])
    try:
        if head.startswith(b"\xff\xd8"):
            return _read_jpeg(data)
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return _read_png(data, head)
        if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return Header("webp", *_webp_size(head))
        if head.startswith(b"BM"):
            return _read_bmp(head)
        if head.startswith((b"II*\0", b"MM\0*")):
            return _read_tiff(data)
    except (struct.error, IndexError):
        raise ValueError(
            f"image_decoder: got {len(data)} bytes that end within the header; expected a whole "
            "image"
        ) from None
    only_pillows = _format_of(head)
    if only_pillows is not None:
        size = _ico_size(data) if only_pillows == "ico" else (0, 0)
        return Header(only_pillows, *size, is_for_pillow=True)
    raise ValueError(
        f"image_decoder: got {len(data)} bytes that begin with {head[:8]!r}; expected {_FORMATS}; "
        f"{advise_other(head)}"
    )


def _read_png(data: memoryview, head: bytes) -> Header:
    _check_chunks(data)
    width, height, depth, colour = struct.unpack_from(">IIBB", head, 16)
    row = 1 + width * depth * _PNG_CHANNELS.get(colour, 1) // 8
    return Header("png", width, height, least_bytes=row * height // _DEFLATE_RATIO)


def _check_chunks(data: memoryview) -> None:
    """Checks the chunk lengths, because OpenCV allocates memory for the declared length."""
    at = 8
    for _ in range(_MAX_CHUNKS):
        if at + 8 > len(data):
            return
        length = int.from_bytes(data[at : at + 4], "big")
        if at + 8 + length > len(data):
            raise ValueError(
                f"image_decoder: got a PNG image of {len(data)} bytes that is cut off: the chunk "
                f"at {at} claims {length} bytes"
            )
        at += 12 + length
    raise ValueError(f"image_decoder: got a PNG image of more than {_MAX_CHUNKS} chunks")


def _webp_size(head: bytes) -> tuple[int, int]:
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(_take(head, 24, 3), "little"), 1 + int.from_bytes(
            _take(head, 27, 3), "little"
        )
    if kind == b"VP8L":
        bits = int.from_bytes(_take(head, 21, 4), "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise ValueError(
        f"image_decoder: got a WebP image with the chunk {kind!r}; expected VP8, VP8L or VP8X"
    )


def _read_bmp(head: bytes) -> Header:
    (size,) = struct.unpack_from("<I", head, 14)
    if size == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", head, 18)
        compression = _BMP_PLAIN
    else:
        width, height, _, bits = struct.unpack_from("<iiHH", head, 18)
        (compression,) = struct.unpack("<H", _take(head, 30, 2))
    is_usual = compression in (_BMP_PLAIN, _BMP_MASKS) and bits != 16
    return Header("bmp", abs(width), abs(height), is_for_pillow=not is_usual)


def _format_of(head: bytes) -> str | None:
    """Returns the format of a file that only Pillow reads, or None for other files."""
    for signature, name in _SIGNATURES:
        if head.startswith(signature):
            return name
    if head[4:8] == b"ftyp":
        end = min(int.from_bytes(head[:4], "big"), len(head))
        brands = [head[at : at + 4] for at in (8, *range(16, end, 4))]
        return next((name for brand, name in _BRANDS.items() if brand in brands), None)
    # The plain-text forms P1 to P3 are left out, because Pillow takes long for them.
    return "ppm" if head[:1] == b"P" and head[1:2] in b"456" and head[2:3].isspace() else None


def _ico_size(data: memoryview) -> tuple[int, int]:
    """Returns the size of the largest PNG in an icon, which Pillow decodes at once, or (0, 0)."""
    sizes = [struct.unpack(">II", found[1]) for found in _PNG_HEADER.finditer(data)]
    return max(sizes, key=lambda size: size[0] * size[1], default=(0, 0))


def _take(data: bytes, start: int, size: int) -> bytes:
    part = data[start : start + size]
    if len(part) < size:
        raise IndexError(start)
    return part


def _read_tiff(data: memoryview) -> Header:
    tags: dict[int, _Entry] = {}
    for tag, entry in _tags(data):
        tags.setdefault(tag, entry)  # the first of several entries counts, as in decoders
    found = {tag: _number(data, *entry) for tag, entry in tags.items()}
    width, height = found.get(_TIFF_WIDTH), found.get(_TIFF_HEIGHT)
    if width is None or height is None:
        raise ValueError("image_decoder: got a TIFF image without a width or height")
    for tag in (_COLOUR_MAP, *_OFFSETS):
        if tag in tags:
            _check_is_there(data, tag, *tags[tag])
    has_alpha = _EXTRA_SAMPLES in tags and (found.get(_SAMPLES) or 1) > 2
    is_odd = has_alpha or found.get(_PHOTOMETRIC) == _LAB
    return Header("tiff", width, height, is_for_pillow=is_odd)


# Position, type and number of values of a directory entry.
_Entry = tuple[int, int, int]


def _tags(data: memoryview) -> Iterator[tuple[int, _Entry]]:
    """Yields the entries of the first directory of TIFF data. EXIF is TIFF data, too."""
    order = _order(data)
    (start,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, start)
    for index in range(min(count, _MAX_TAGS)):
        at = start + 2 + 12 * index
        tag, kind, values = struct.unpack_from(order + "HHI", data, at)
        yield tag, (at, kind, values)


def _order(data: memoryview) -> str:
    return ">" if bytes(data[:2]) == b"MM" else "<"


def _number(data: memoryview, at: int, kind: int, _values: int) -> int | None:
    """Returns the value of an entry, or None if its type is no whole number."""
    code = {_SHORT: "H", _LONG: "I"}.get(kind)
    if code is None:
        return None
    (found,) = struct.unpack_from(_order(data) + code, data, at + 8)
    return int(found)


def _check_is_there(data: memoryview, tag: int, at: int, kind: int, values: int) -> None:
    size = _TYPE_SIZES.get(kind, 1) * values
    (start,) = struct.unpack_from(_order(data) + "I", data, at + 8)
    if size > 4 and start + size > len(data):
        raise ValueError(
            f"image_decoder: got a TIFF image of {len(data)} bytes that is cut off: its tag {tag} "
            f"stands at {start} to {start + size}"
        )


def _read_jpeg(data: memoryview) -> Header:
    orientation, frame, is_huffman, is_progressive = 0, None, False, False
    at = 2
    for _ in range(_MAX_SEGMENTS):
        lead, marker, length = _SEGMENT.unpack_from(data, at)
        if lead == 0xFF and marker in _PASSED:
            at += 2 + length
            continue
        while lead == marker == 0xFF:  # fill bytes
            at += 1
            marker = data[at + 1]
        if lead != 0xFF:
            raise ValueError(
                f"image_decoder: got a JPEG image with {lead:#04x} at byte {at}; expected a marker "
                "(0xff)"
            )
        at += 2
        if marker in _BARE:
            continue
        length = data[at] << 8 | data[at + 1]
        if marker in _FRAMES:
            frame = _read_frame(marker, data[at + 2 : at + length])
            is_huffman = marker in _HUFFMAN
            is_progressive = marker == _PROGRESSIVE
        elif marker == 0xE1 and not orientation and bytes(data[at + 2 : at + 8]) == b"Exif\0\0":
            orientation = _exif_orientation(data[at + 8 : at + length])
        elif marker == 0xDA and frame is not None:
            width, height, is_plain = frame
            least = width * height // _BLOCK // 8 if is_huffman else 0
            _check_scans(data, is_progressive)
            return Header("jpeg", width, height, orientation or 1, is_plain, least)
        elif marker in (0xD9, 0xDA):
            break
        at += length
    raise ValueError("image_decoder: got a JPEG image without a frame before its first scan")


def _check_scans(data: memoryview, is_progressive: bool) -> None:
    scans = bytes(data).count(b"\xff\xda") if is_progressive else 1
    if scans > _MAX_SCANS:
        raise ValueError(
            f"image_decoder: got a JPEG image of {scans} scans; expected at most {_MAX_SCANS}"
        )


def _read_frame(marker: int, segment: memoryview) -> tuple[int, int, bool]:
    precision, height, width, channels = struct.unpack_from(">BHHB", segment, 0)
    if len(segment) < 5 + 3 * channels:
        raise IndexError(channels)  # the error that `_take` raises
    if channels == 3:
        is_usual = segment[7] in _LUMA and segment[10] == segment[13] == _ONCE
    else:
        is_usual = channels == 1
    is_plain = marker in (_BASELINE, _EXTENDED, _PROGRESSIVE) and precision == 8 and is_usual
    return width, height, is_plain


def _exif_orientation(tiff: memoryview) -> int:
    """Returns the orientation, or 1 for broken EXIF data: the pixels may still be good."""
    try:
        entry = dict(_tags(tiff)).get(_ORIENTATION)
        found = (entry and _number(tiff, *entry)) or 1
    except (struct.error, IndexError):
        return 1
    return found if 1 <= found <= 8 else 1
