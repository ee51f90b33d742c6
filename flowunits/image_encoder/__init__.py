"""``image_encoder``: encodes images."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class ImageEncoderOptions:
    """The options of ``image_encoder``."""

    format: Literal["jpeg", "jpg", "png", "webp", "bmp", "tiff"] = option(
        "jpeg", help="The format to encode to."
    )
    quality: int = option(95, help="The quality of JPEG and WebP, 1..100.", minimum=1, maximum=100)


SPEC = FlowUnitSpec(
    name="image_encoder",
    devices={"cpu": "flowunits.image_encoder.cpu:ImageEncoder"},
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C) or planar (C, H, W), bgr, rgb, gray or nv12",
            dtype="uint8",
        ),
    ),
    outputs=(
        Port(
            "out_encoded_image",
            "bytes, equal to the output of cv2.imencode. The meta 'format' has the format",
        ),
    ),
    options=ImageEncoderOptions,
    description="Encodes images as JPEG, PNG, WebP, BMP or TIFF.",
    group="Image",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
