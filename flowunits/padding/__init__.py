"""``padding``: fits images into one size with bars around them (letterbox)."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option
from modelflow.image import INTERPOLATION_HELP, Interpolation, fit_size

_SHARE = {"top": 0, "left": 0, "center": 1, "bottom": 2, "right": 2}


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
        "top", help="The position of the image in a higher output."
    )
    horizontal_align: Literal["left", "center", "right"] = option(
        "left", help="The position of the image in a wider output."
    )
    padding_data: tuple[int, ...] = option(
        (0, 0, 0),
        help="The colour of the bars, 0..255. Give one value for each channel in the image's own "
        "order, or one value for all channels.",
        minimum=0,
        maximum=255,
    )
    need_scale: bool = option(
        True,
        help="Resize the image to the largest size that fits, to the nearest pixel. If false, the "
        "image must fit without resizing.",
    )
    interpolation: Interpolation = option(  # noqa: RUF009 - a field, as the others
        "inter_linear", help=INTERPOLATION_HELP
    )

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Returns the width and height that an image of the given size takes in the output.

        Raises:
            ValueError: need_scale is false and the image is too large.
        """
        if not self.need_scale:
            if width > self.image_width or height > self.image_height:
                raise ValueError(
                    f"in_image: got {width} x {height} pixels; expected at most "
                    f"{self.image_width} x {self.image_height}; set need_scale=true to shrink it"
                )
            return width, height
        return fit_size(width, height, (self.image_width, self.image_height))

    def corner(self, width: int, height: int) -> tuple[int, int]:
        """Returns x and y of the corner at which an image of that size begins in the output."""
        return (
            (self.image_width - width) * _SHARE[self.horizontal_align] // 2,
            (self.image_height - height) * _SHARE[self.vertical_align] // 2,
        )


SPEC = FlowUnitSpec(
    name="padding",
    devices={
        "cpu": "flowunits.padding.cpu:Padding",
        "cuda": "flowunits.padding.cuda:Padding",
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
            "uint8, (image_height, image_width, C), format and layout of the input",
            dtype="uint8",
            shape="(image_height, image_width, C)",
        ),
    ),
    options=PaddingOptions,
    description="Fits each image into one size, keeps its ratio, and adds bars around it.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
