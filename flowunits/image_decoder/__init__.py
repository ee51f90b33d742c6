"""``image_decoder``: encoded images to pixels."""

from dataclasses import dataclass
from typing import Literal

from flowunits.image_decoder.advice import advise_scaled_decode
from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class ImageDecoderOptions:
    """The options of ``image_decoder``."""

    pix_fmt: Literal["bgr", "rgb", "gray", "nv12", "bgrp", "rgbp"] = option(
        "bgr", help="The pixel format to decode to; bgrp and rgbp are planar."
    )
    max_pixels: int = option(
        40_000_000,
        help="The most pixels (width x height) that an image may say it has, checked before "
        "anything is decoded.",
        minimum=1,
    )
    max_batch_pixels: int = option(
        320_000_000,
        help="The most pixels that the images of one batch may have together, each of which takes "
        "up to 3 bytes; an image beyond it is in error.",
        minimum=1,
    )
    scaled_decode: bool = option(
        False,
        help="Decode JPEG at 1/2, 1/4 or 1/8 of its size where that is still at least min_width "
        "x min_height. Much faster; the pixels differ from those of a full decode and a resize. On "
        "cuda only what nvJPEG does not decode.",
    )
    min_width: int = option(
        0, help="The least width in pixels of a scaled decode; 0: any.", minimum=0
    )
    min_height: int = option(
        0, help="The least height in pixels of a scaled decode; 0: any.", minimum=0
    )
    ignore_orientation: bool = option(
        False, help="Leave the pixels as they are stored, whatever the EXIF orientation says."
    )
    strict: bool = option(
        True,
        help="Refuse JPEG data with errors that the decoder could gloss over; false: take what "
        "can be decoded.",
    )

    def __post_init__(self) -> None:
        """Checks that a scaled decode has a size to stay above.

        Raises:
            ValueError: neither ``min_width`` nor ``min_height`` is given.
        """
        if self.scaled_decode and not (self.min_width or self.min_height):
            raise ValueError("scaled_decode needs min_width or min_height; got neither")


SPEC = FlowUnitSpec(
    name="image_decoder",
    devices={
        "cpu": "flowunits.image_decoder.cpu:ImageDecoder",
        "cuda": "flowunits.image_decoder.cuda:ImageDecoder",
    },
    inputs=(
        Port(
            "in_encoded_image",
            "JPEG, PNG, WebP, BMP or TIFF (with Pillow installed also GIF, AVIF, JPEG 2000, ICO, "
            "PPM and QOI, with the extra heif HEIF): bytes, bytearray, memoryview or a uint8 array "
            "(N,); or the file, as pathlib.Path or opened as 'rb'; or an image of Pillow's",
            device="cpu",
        ),
    ),
    outputs=(
        Port(
            "out_image",
            "uint8, 0..255, (H, W, 3) BGR unless pix_fmt says otherwise: gray (H, W, 1), planar "
            "(3, H, W), nv12 (H * 3 / 2, W); sizes differ within a batch; pixels are OpenCV's, of "
            "what it does not read Pillow's; on cuda JPEG pixels are nvJPEG's",
            dtype="uint8",
            shape="(H, W, C)",
        ),
    ),
    options=ImageDecoderOptions,
    description="Decodes images, turned upright as their EXIF orientation says.",
    group="Image",
    is_compute_bound=True,
    is_one_by_one=True,
    advise=advise_scaled_decode,
    refuses_with=ValueError,
)
