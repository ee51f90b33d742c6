"""Decodes with Pillow the images that OpenCV does not read, or reads wrong."""

import io
from typing import Any

from flowunits.image_decoder.header import Header
from modelflow import MissingDependencyError
from modelflow.image import UNREADABLE, pillow_image

__all__ = ["BY_PILLOW", "open_image"]

# Format names of `Header` -> the Pillow plug-ins that may read the format. Other plug-ins stay
# disabled, because some start programs.
_PLUGINS = {
    "avif": ("AVIF",),
    "bmp": ("BMP",),
    "gif": ("GIF",),
    "heif": ("HEIF",),
    "ico": ("ICO",),
    "jpeg2000": ("JPEG2000",),
    "ppm": ("PPM",),
    "qoi": ("QOI",),
    "tiff": ("TIFF",),
}
BY_PILLOW = frozenset(_PLUGINS)
"""The formats that Pillow may decode."""


def open_image(data: memoryview, header: Header) -> Any:
    """Returns a Pillow image of which only the header is decoded.

    Raises:
        ValueError: Pillow is not installed, or cannot read the image either.
    """
    told = f"image_decoder: got a {header.format} image in {len(data)} bytes"
    try:
        images = pillow_image(f"a {header.format} image that OpenCV does not read")
        if header.format == "heif":
            _register_heif()
    except MissingDependencyError as error:
        raise ValueError(f"{told}; {error}") from error
    try:
        return images.open(io.BytesIO(data), formats=_PLUGINS[header.format])
    except images.UnidentifiedImageError as error:  # its text has only an address in memory
        raise ValueError(
            f"{told} that Pillow does not read either; expected a whole, undamaged image of 8 or "
            "16 bits for each channel"
        ) from error
    except (*UNREADABLE, images.DecompressionBombError) as error:
        reason = str(error).partition(" <_io")[0]  # without the address of the bytes
        raise ValueError(
            f"{told} that Pillow does not read ({reason}); expected a whole, undamaged image"
        ) from error


def _register_heif() -> None:
    try:
        import pillow_heif
    except ImportError as error:
        package, extra = "pillow-heif", "heif"
        raise MissingDependencyError(package, extra, "a HEIF image") from error
    pillow_heif.register_heif_opener()
