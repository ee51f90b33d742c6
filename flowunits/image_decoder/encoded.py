"""Checks encoded images and formats their errors, for the decoders of all devices."""

import io
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from flowunits.image_decoder.header import Header

__all__ = ["TURNS", "PixelCount", "check_header", "damaged", "decoded_format", "encoded_bytes"]

# EXIF orientation -> whether to transpose, and then the flip (OpenCV's code: 0 up-down, 1
# left-right, -1 both). 1 is upright.
TURNS: dict[int, tuple[bool, int | None]] = {
    2: (False, 1),
    3: (False, -1),
    4: (False, 0),
    5: (True, None),
    6: (True, 1),
    7: (True, -1),
    8: (True, 0),
}
# Most bytes of a file.
MOST_BYTES = 1 << 30


def encoded_bytes(data: Any) -> memoryview:
    """Returns a view of the bytes of an encoded image, and reads files.

    Raises:
        ValueError: the data is no image or empty, or its file cannot be read.
    """
    if type(data) is bytes and data:  # the common case
        return memoryview(data)
    is_array = isinstance(data, np.ndarray)
    if is_array and data.ndim == 2 and 1 in data.shape:  # as OpenCV and other frameworks return it
        data = data.reshape(-1)
    if is_array and (data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous):
        article = "an" if str(data.dtype).startswith(("i", "o")) else "a"
        several = "; a tensor of images has the shape (n,)" if data.dtype.hasobject else ""
        raise ValueError(
            f"image_decoder: got {article} {data.dtype} array of shape {data.shape}; "
            f"expected an encoded image as bytes or a uint8 array (N,){several}"
        )
    if isinstance(data, os.PathLike):
        data = _of_file(Path(data))
    elif isinstance(data, io.IOBase):
        data = _of_open_file(data)
    elif not is_array and not isinstance(data, bytes | bytearray | memoryview):
        hint = f"; of a file pathlib.Path({data[:80]!r})" if isinstance(data, str) else ""
        raise ValueError(
            f"image_decoder: got {type(data).__name__}; expected an encoded image as bytes{hint}"
        )
    view = memoryview(data).cast("B")
    if not len(view):
        raise ValueError("image_decoder: got 0 bytes; expected an encoded image")
    return view


def _of_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
                raise ValueError(
                    f"image_decoder: {path}: got {found.st_size} bytes; expected a file of at most "
                    f"{MOST_BYTES}"
                )
            return file.read()
    except OSError as error:
        raise ValueError(f"image_decoder: {path}: cannot be read: {error.strerror}") from error


def _of_open_file(file: io.IOBase) -> bytes:
    try:
        found = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # closed, or opened for writing
        raise ValueError(f"image_decoder: got an open file that cannot be read: {error}") from error
    if not isinstance(found, bytes) or len(found) > MOST_BYTES:
        got = f"more than {MOST_BYTES} bytes" if isinstance(found, bytes) else "text"
        raise ValueError(
            f"image_decoder: got {got} of an open file; expected an encoded image, of a file "
            "opened as 'rb'"
        )
    return found


def check_header(header: Header, size: int, most: int) -> None:
    """Checks the declared size of an image before memory is allocated for its pixels.

    Args:
        header: The header.
        size: The number of encoded bytes.
        most: The most pixels that the image may have.

    Raises:
        ValueError: the header declares no pixels, more than ``most``, or more than fit its bytes.
    """
    pixels = header.pixels
    if not 0 < pixels <= most:
        raise ValueError(f"{_told(header)}; expected 1 to {most}; set max_pixels to allow more")
    if size < header.least_bytes:
        raise ValueError(
            f"{_told(header)} in {size} bytes; so many take {header.least_bytes} bytes at least: "
            "the image is cut off, or its size is made up"
        )


class PixelCount:
    """Counts the pixels of one batch."""

    def __init__(self, most: int) -> None:
        """Sets the most pixels of a batch."""
        self._most = most
        self._count = 0

    def add(self, header: Header) -> None:
        """Adds the pixels of an image.

        Raises:
            ValueError: the batch would have too many pixels. The image is then not counted.
        """
        count = self._count + header.pixels
        if count > self._most:
            raise ValueError(
                f"{_told(header)}, with the images before it in its batch {count}; expected at "
                f"most {self._most}; set a smaller batch_size, or max_batch_pixels to allow more"
            )
        self._count = count


def _told(header: Header) -> str:
    return (
        f"image_decoder: got a {header.format} image of {header.width} x {header.height} = "
        f"{header.pixels} pixels"
    )


def decoded_format(pix_fmt: str) -> str:
    """Returns the packed format from which an image in ``pix_fmt`` is made."""
    return "bgr" if pix_fmt == "nv12" else pix_fmt.removesuffix("p")


def damaged(data: memoryview, header: Header, reason: str) -> ValueError:
    """Returns the error about an image that does not decode."""
    return ValueError(
        f"image_decoder: got a {header.format} image of {header.width} x {header.height} pixels in "
        f"{len(data)} bytes that does not decode ({reason}); expected a whole, undamaged image"
    )
