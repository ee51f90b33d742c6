"""``padding``: images of one size, their ratio kept, bars around them (letterbox)."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option
from modelflow.image import Interpolation


@dataclass(frozen=True)
class PaddingOptions:
    """The options of ``padding``."""

    image_width: int = option(
        help="The width of the output, in pixels.", aliases=("width",), minimum=1, maximum=65535
    )
    image_height: int = option(
        help="The height of the output, in pixels.", aliases=("height",), minimum=1, maximum=65535
    )
    vertical_align: Literal["top", "center", "bottom"] = option(
        "top", help="Where the image stands in a higher output."
    )
    horizontal_align: Literal["left", "center", "right"] = option(
        "left", help="Where the image stands in a wider output."
    )
    padding_data: tuple[int, ...] = option(
        (0, 0, 0),
        help="The colour of the bars, 0..255, one value a channel in the image's own order, or "
        "one for all.",
        minimum=0,
        maximum=255,
    )
    need_scale: bool = option(
        True,
        help="Resize the image to the largest size that fits; false: it must fit as it is.",
    )
    interpolation: Interpolation = option(  # noqa: RUF009 - a field, as the others
        "inter_linear", help="OpenCV's interpolation."
    )


SPEC = FlowUnitSpec(
    name="padding",
    devices={"cpu": "flowunits.padding.cpu:Padding"},
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
            "uint8, (image_height, image_width, C), format and layout of the input",
            dtype="uint8",
            shape="(image_height, image_width, C)",
        ),
    ),
    options=PaddingOptions,
    description="Fits each image into one size, keeping its ratio, with bars around it.",
    group="Image",
)
