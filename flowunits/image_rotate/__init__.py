"""``image_rotate``: turns images by multiples of 90 degrees."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class ImageRotateOptions:
    """The options of ``image_rotate``."""

    rotate_angle: Literal[0, 90, 180, 270] | None = option(
        None,
        help="The angle in degrees, clockwise. By default the meta 'rotate_angle' of each buffer.",
    )


SPEC = FlowUnitSpec(
    name="image_rotate",
    devices={
        "cpu": "flowunits.image_rotate.cpu:ImageRotate",
        "cuda": "flowunits.image_rotate.cuda:ImageRotate",
    },
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C) or planar (C, H, W), bgr, rgb or gray",
            dtype="uint8",
            shape="(H, W, C)",
        ),
    ),
    outputs=(
        Port(
            "out_image",
            "uint8, (H, W, C) or (W, H, C), format and layout of the input; meta rotate_angle is 0",
            dtype="uint8",
        ),
    ),
    options=ImageRotateOptions,
    description="Turns images clockwise by 0, 90, 180 or 270 degrees.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
