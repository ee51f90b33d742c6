"""``httpserver_mjpeg`` on the CPU."""

from collections.abc import Mapping
from typing import Any

from flowunits.httpserver_mjpeg import HttpserverMjpegOptions
from flowunits.httpserver_mjpeg.viewers import Viewers
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import encode_image, read_image

_LONGEST = 65_500  # pixels, by libjpeg
_JPEG = b"\xff\xd8\xff"


class HttpserverMjpeg(FlowUnit):
    """Encodes each image once for all viewers, and no image without a viewer."""

    def open(self, config: HttpserverMjpegOptions) -> None:
        """Begins to listen.

        Raises:
            OSError: the address is in use, or does not belong to this machine.
            ValueError: another unit serves the path, or certificate or key cannot be read.
        """
        self._quality = config.quality
        self.viewers = Viewers(config, self._encode)

    def process(self, ctx: Context) -> None:
        """Shows each image to the viewers that have room.

        Raises:
            ValueError: the data is no image, or too large for JPEG.
        """
        for buffer in ctx.input():
            if not _is_jpeg(buffer.data):
                image = read_image(buffer, allow_nv12=True)
                if max(image.width, image.height) > _LONGEST:
                    raise ValueError(
                        f"in_image: got {image.width} x {image.height} pixels; expected at most "
                        f"{_LONGEST} each way, the limit of JPEG; make the image smaller"
                    )
            self.viewers.show(buffer)

    def figures(self) -> Mapping[str, Mapping[Any, int]]:
        """Returns ``viewers``: how many came, and how many images they got and missed."""
        return {"viewers": self.viewers.read_counts()}

    def close(self) -> None:
        """Ends all viewers at once."""
        self.viewers.close()

    def _encode(self, buffer: Buffer) -> bytes:
        if _is_jpeg(buffer.data):
            return bytes(buffer.data)
        return encode_image(read_image(buffer, allow_nv12=True), "jpeg", self._quality)


def _is_jpeg(data: object) -> bool:
    return isinstance(data, bytes | bytearray | memoryview) and bytes(data[:3]) == _JPEG
