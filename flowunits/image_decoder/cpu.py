"""``image_decoder`` on the CPU."""

from typing import Any

import numpy as np
import numpy.typing as npt
import simplejpeg

from flowunits.image_decoder import ImageDecoderOptions
from flowunits.image_decoder.header import Header, read_header
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Image, convert_color, empty_image, opencv

Pixels = npt.NDArray[np.uint8]

_COLORSPACES = {"bgr": "BGR", "rgb": "RGB", "gray": "GRAY"}
# Orientation -> whether to transpose, and then what to flip (OpenCV's code: 0 up-down, 1
# left-right, -1 both).
_TURNS: dict[int, tuple[bool, int | None]] = {
    2: (False, 1),
    3: (False, -1),
    4: (False, 0),
    5: (True, None),
    6: (True, 1),
    7: (True, -1),
    8: (True, 0),
}


class ImageDecoder(FlowUnit):
    """JPEG through libjpeg-turbo into reused memory, the rest through OpenCV."""

    def open(self, config: ImageDecoderOptions) -> None:
        """Takes the options."""
        self._options = config
        self._pix_fmt = _decoded_format(config.pix_fmt)
        opencv()

    def process(self, ctx: Context) -> None:
        """Decodes each buffer by itself."""
        ctx.emit_each(self._decode)

    def _decode(self, buffer: Buffer) -> Buffer:
        data = _encoded(buffer.data)
        header = read_header(data)
        self._check_pixels(header)
        factor = self._factor(header)
        if header.is_plain_jpeg:
            pixels = self._decode_jpeg(data, header, factor)
        else:
            pixels = self._decode_any(data, header, factor)
        image = Image(pixels, self._pix_fmt)
        return convert_color(image, self._options.pix_fmt).to_buffer()

    def _check_pixels(self, header: Header) -> None:
        pixels, most = header.width * header.height, self._options.max_pixels
        if not 0 < pixels <= most:
            message = (
                f"image_decoder: got a {header.format} image of {header.width} x {header.height} = "
                f"{pixels} pixels; expected 1 to {most}; set max_pixels to allow more"
            )
            raise ValueError(message)

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
        out = empty_image(width, height, 1 if self._pix_fmt == "gray" else 3)
        try:
            # fastdct and fastupsample would change pixels: without them they are OpenCV's.
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
            raise _damaged(data, header, str(error)) from error
        if decoded.shape != out.shape:
            raise _damaged(data, header, f"decoded {decoded.shape}, the header says {out.shape}")
        if header.orientation == 1 or self._options.ignore_orientation:
            return out
        return _turned(out, header.orientation)

    def _decode_any(self, data: memoryview, header: Header, factor: int) -> Pixels:
        cv2 = opencv()
        is_gray = self._pix_fmt == "gray"
        flags = cv2.IMREAD_GRAYSCALE if is_gray else cv2.IMREAD_COLOR
        if self._pix_fmt == "rgb":
            flags = cv2.IMREAD_COLOR_RGB
        if factor > 1:
            flags |= getattr(cv2, f"IMREAD_REDUCED_{'GRAYSCALE' if is_gray else 'COLOR'}_{factor}")
        if self._options.ignore_orientation:
            flags |= cv2.IMREAD_IGNORE_ORIENTATION
        try:
            pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error as error:
            raise _damaged(data, header, str(error.err)) from error
        if pixels is None:
            raise _damaged(data, header, "OpenCV gives no reason")
        found: Pixels = pixels[:, :, None] if is_gray else pixels
        return found


def _decoded_format(pix_fmt: str) -> str:
    """Gives the packed format to decode to, from which ``pix_fmt`` is made."""
    return "bgr" if pix_fmt == "nv12" else pix_fmt.removesuffix("p")


def _encoded(data: Any) -> memoryview:
    is_array = isinstance(data, np.ndarray)
    if is_array and (data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous):
        message = (
            f"image_decoder: got a {data.dtype} array of shape {data.shape}; "
            "expected an encoded image as bytes or a uint8 array (N,)"
        )
        raise ValueError(message)
    if not is_array and not isinstance(data, bytes | bytearray | memoryview):
        message = f"image_decoder: got {type(data).__name__}; expected an encoded image as bytes"
        raise ValueError(message)
    view = memoryview(data).cast("B")
    if not len(view):
        message = "image_decoder: got 0 bytes; expected an encoded image"
        raise ValueError(message)
    return view


def _damaged(data: memoryview, header: Header, reason: str) -> ValueError:
    return ValueError(
        f"image_decoder: got a {header.format} image of {header.width} x {header.height} pixels in "
        f"{len(data)} bytes that does not decode ({reason}); expected a whole, undamaged image"
    )


def _turned(pixels: Pixels, orientation: int) -> Pixels:
    cv2 = opencv()
    is_transposed, flip = _TURNS[orientation]
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
