"""``image_decoder``: decodes images to pixels."""

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
        help="The most pixels (width x height) that an image may declare in its header. The unit "
        "checks it before it decodes anything.",
        minimum=1,
    )
    max_batch_pixels: int = option(
        320_000_000,
        help="The most pixels of all images of one batch together. A pixel takes up to 3 bytes. An "
        "image that exceeds the limit becomes an error.",
        minimum=1,
    )
    scaled_decode: bool = option(
        False,
        help="Decode JPEG at 1/2, 1/4 or 1/8 of its size if the result is still at least min_width "
        "x min_height. This is much faster, but the pixels differ from those of a full decode and "
        "a resize. On cuda it applies only to images that nvJPEG does not decode.",
    )
    min_width: int = option(
        0, help="The least width in pixels of a scaled decode; 0: no limit.", minimum=0
    )
    min_height: int = option(
        0, help="The least height in pixels of a scaled decode; 0: no limit.", minimum=0
    )
    ignore_orientation: bool = option(
        False, help="Leave the pixels as they are stored, and ignore the EXIF orientation."
    )
    strict: bool = option(
        True,
        help="Refuse JPEG data with errors that the decoder could hide. If false, damaged images "
        "are decoded as far as possible.",
    )

    def __post_init__(self) -> None:
        """Checks that a scaled decode has a least size.

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
            "JPEG, PNG, WebP, BMP or TIFF. Pillow adds GIF, AVIF, JPEG 2000, ICO, PPM and QOI, and "
            "the extra heif adds HEIF. Only the first image of an animation or of several pages is "
            "decoded, and 16 bits become 8. The data is bytes, bytearray, memoryview, a uint8 "
            "array (N,), a pathlib.Path, a file opened as 'rb', or a Pillow image",
            device="cpu",
        ),
    ),
    outputs=(
        Port(
            "out_image",
            "uint8, 0..255, by default (H, W, 3) BGR. By pix_fmt it is gray (H, W, 1), planar (3, "
            "H, W) or nv12 (H * 3 / 2, W). Sizes differ within a batch. The pixels are equal to "
            "OpenCV's, or to Pillow's for formats that OpenCV does not read. On cuda JPEG pixels "
            "are nvJPEG's",
            dtype="uint8",
            shape="(H, W, C)",
        ),
    ),
    options=ImageDecoderOptions,
    description="Decodes images and turns them upright by their EXIF orientation.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    advise=advise_scaled_decode,
    refuses_with=ValueError,
)
