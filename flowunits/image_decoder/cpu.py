"""``image_decoder`` on the CPU."""

import os
from typing import Any

import numpy as np
import numpy.typing as npt
import simplejpeg

from flowunits.image_decoder import ImageDecoderOptions
from flowunits.image_decoder.by_pillow import BY_PILLOW, open_image
from flowunits.image_decoder.encoded import (
    TURNS,
    PixelCount,
    check_header,
    damaged,
    decoded_format,
    encoded_bytes,
)
from flowunits.image_decoder.header import Header, read_header
from flowunits.image_decoder.jpeg_end import append_end_marker
from modelflow import Buffer, Context, FlowUnit
from modelflow.device import empty
from modelflow.image import (
    Image,
    convert_color,
    empty_image,
    image_of_pillow,
    is_pillow,
    opencv,
)

Pixels = npt.NDArray[np.uint8]

_COLORSPACES = {"bgr": "BGR", "rgb": "RGB", "gray": "GRAY"}
# libjpeg-turbo's own interface does not read these JPEG images, but OpenCV may.
_NOT_JUDGED = ("Could not determine subsampling level", "Unsupported")
# libjpeg-turbo writes rows at multiples of 32 bytes past the cache, to main memory. A resize that
# reads them takes twice as long. From an odd address with an even width no row is at such a place.
_ODD = 1
_PILLOW = "Pillow"  # the format of a Pillow image, which has no file


class ImageDecoder(FlowUnit):
    """Decodes JPEG with libjpeg-turbo into reused memory, other formats with OpenCV or Pillow."""

    def open(self, config: ImageDecoderOptions) -> None:
        """Stores the options."""
        self._options = config
        self._pix_fmt = decoded_format(config.pix_fmt)
        opencv()

    def process(self, ctx: Context) -> None:
        """Decodes each buffer separately."""
        count = PixelCount(self._options.max_batch_pixels)
        ctx.emit_each(lambda buffer: self._decoded(buffer.data, count))

    def _decoded(self, data: Any, count: PixelCount) -> Buffer:
        buffer = self.decode(*self.read(data, count)).to_buffer()
        if type(data) is not bytes and isinstance(data, os.PathLike):
            buffer.set("path", os.fspath(data))
        return buffer

    def read(self, data: Any, count: PixelCount) -> tuple[Any, Header]:
        """Returns the bytes or the Pillow image, and its checked header.

        Args:
            data: The image.
            count: The pixel count of its batch.

        Raises:
            ValueError: the data is no encoded image, or has too many pixels.
        """
        # A Pillow image is decoded already, or Pillow decodes it on first use.
        if type(data) is not bytes and is_pillow(data):
            header = Header(_PILLOW, *data.size)
            check_header(header, 0, self._options.max_pixels)
            count.add(header)
            return data, header
        encoded = encoded_bytes(data)
        header = read_header(encoded)
        if header.is_for_pillow:
            if header.pixels:
                check_header(header, len(encoded), self._options.max_pixels)
            return self.read(open_image(encoded, header), count)
        check_header(header, len(encoded), self._options.max_pixels)
        count.add(header)
        return encoded, header

    def decode(self, data: Any, header: Header) -> Image:
        """Returns the decoded image, upright, in the format of the options.

        Raises:
            ValueError: the image is damaged.
        """
        wanted = self._options.pix_fmt
        if header.format == _PILLOW:
            return convert_color(self._of_pillow(data), wanted)
        try:
            pixels = self._pixels(data, header)
        except ValueError:
            if header.format in BY_PILLOW:
                return convert_color(self._of_pillow(open_image(data, header)), wanted)
            found = self._pixels_before_end(data, header)
            if found is None:
                raise
            pixels = found
        image = Image(pixels, self._pix_fmt)
        return image if wanted == self._pix_fmt else convert_color(image, wanted)

    def _pixels_before_end(self, data: memoryview, header: Header) -> Pixels | None:
        """Returns the pixels of a JPEG that lacks only its end marker, or None for other damage."""
        whole = append_end_marker(data) if header.format == "jpeg" else None
        if whole is None:
            return None
        try:
            return self._pixels(memoryview(whole), header)
        except ValueError:  # its last scan is incomplete, which the first error describes
            return None

    def _of_pillow(self, data: Any) -> Image:
        return image_of_pillow(
            data, "image_decoder", is_turned=not self._options.ignore_orientation
        )

    def _pixels(self, data: memoryview, header: Header) -> Pixels:
        factor = self._factor(header)
        if header.is_plain_jpeg:
            return self._decode_jpeg(data, header, factor)
        if header.format == "jpeg" and self._options.strict:
            _check_odd_jpeg(data, header)
        return self._decode_any(data, header, factor)

    def _factor(self, header: Header) -> int:
        if not self._options.scaled_decode or header.format != "jpeg":
            return 1
        width, height = self._options.min_width, self._options.min_height
        if self._is_transposed(header):
            width, height = height, width
        for factor in (8, 4, 2):
            if -(-header.width // factor) >= width and -(-header.height // factor) >= height:
                return factor
        return 1

    def _is_transposed(self, header: Header) -> bool:
        return header.orientation >= 5 and not self._options.ignore_orientation

    def _decode_jpeg(self, data: memoryview, header: Header, factor: int) -> Pixels:
        width, height = -(-header.width // factor), -(-header.height // factor)
        shape = height, width, 1 if self._pix_fmt == "gray" else 3
        out = empty(shape, np.uint8, offset=_ODD)
        if not self._options.strict:
            out.fill(0)  # undecoded pixels would show the image that used the memory before
        try:
            # fastdct and fastupsample would change pixels. Without them the pixels equal OpenCV's.
            decoded = simplejpeg.decode_jpeg(
                data,
                _COLORSPACES[self._pix_fmt],
                fastdct=False,
                fastupsample=False,
                min_height=height if factor > 1 else 0,
                min_width=width if factor > 1 else 0,
                min_factor=factor,
                buffer=out,
                strict=self._options.strict,
            )
        except ValueError as error:
            # The caller may keep the error, and its traceback keeps the locals of this frame.
            del out
            raise damaged(data, header, str(error)) from error
        if decoded.shape != out.shape:
            raise damaged(data, header, f"decoded {decoded.shape}, the header says {out.shape}")
        if header.orientation == 1 or self._options.ignore_orientation:
            return out
        return _turned(out, header.orientation)

    def _decode_any(self, data: memoryview, header: Header, factor: int) -> Pixels:
        cv2 = opencv()
        is_gray = self._pix_fmt == "gray"
        flags = cv2.IMREAD_GRAYSCALE if is_gray else cv2.IMREAD_COLOR
        if factor > 1:
            flags |= getattr(cv2, f"IMREAD_REDUCED_{'GRAYSCALE' if is_gray else 'COLOR'}_{factor}")
        if self._options.ignore_orientation:
            flags |= cv2.IMREAD_IGNORE_ORIENTATION
        try:
            pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error as error:
            raise damaged(data, header, str(error.err)) from error
        if pixels is None:
            raise damaged(data, header, "OpenCV gives no reason")
        if self._pix_fmt == "rgb":
            cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB, dst=pixels)
        if pixels.shape[0] * pixels.shape[1] > header.pixels:
            raise damaged(data, header, f"decoded {pixels.shape[1]} x {pixels.shape[0]} pixels")
        found: Pixels = pixels[:, :, None] if is_gray else pixels
        return found


def _check_odd_jpeg(data: memoryview, header: Header) -> None:
    """Raises `ValueError` for errors in the data that OpenCV ignores."""
    try:
        simplejpeg.decode_jpeg(data, "GRAY", strict=True)
    except ValueError as error:
        if not str(error).removeprefix("tjDecompressHeader3(): ").startswith(_NOT_JUDGED):
            raise damaged(data, header, str(error)) from error


def _turned(pixels: Pixels, orientation: int) -> Pixels:
    cv2 = opencv()
    is_transposed, flip = TURNS[orientation]
    height, width, channel = pixels.shape
    if is_transposed:
        transposed = empty_image(height, width, channel)
        cv2.transpose(pixels, dst=transposed)
        pixels = transposed
    if flip is not None:
        flipped = empty_image(pixels.shape[1], pixels.shape[0], channel)
        cv2.flip(pixels, flip, dst=flipped)
        pixels = flipped
    return pixels
