"""``letterbox``: fits images into the input of a detector, and records their places."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option
from modelflow.image import INTERPOLATION_HELP, Interpolation, fit_size
from modelflow.image.fit import Place

_GRAY = 114  # the colour of the bars in the training of YOLO


@dataclass(frozen=True)
class LetterboxOptions:
    """The options of ``letterbox``."""

    image_width: int = option(
        help="The width of the output, in pixels.", aliases=("width",), minimum=1, maximum=65535
    )
    image_height: int = option(
        help="The height of the output, in pixels.", aliases=("height",), minimum=1, maximum=65535
    )
    align: Literal["center", "top_left"] = option(
        "center", help="The position of the image in the output. YOLOX expects top_left."
    )
    padding_data: tuple[int, ...] = option(
        (_GRAY,),
        help="The colour of the bars, 0..255. Give one value for each channel in the image's own "
        "order, or one value for all channels.",
        minimum=0,
        maximum=255,
    )
    keep_ratio: bool = option(
        True,
        help="Keep the ratio of width and height. If false, stretch the image to the whole output, "
        "as RT-DETR and SSD expect.",
    )
    interpolation: Interpolation = option(  # noqa: RUF009 - a field, as the others
        "inter_linear", help=INTERPOLATION_HELP
    )

    def place(self, width: int, height: int) -> Place:
        """Returns the part of the output that an image of the given size takes."""
        most = (self.image_width, self.image_height)
        w, h = fit_size(width, height, most) if self.keep_ratio else most
        share = 2 if self.align == "center" else most[0] + most[1]
        return (most[0] - w) // share, (most[1] - h) // share, w, h


SPEC = FlowUnitSpec(
    name="letterbox",
    devices={
        "cpu": "flowunits.letterbox.cpu:Letterbox",
        "cuda": "flowunits.letterbox.cuda:Letterbox",
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
            "uint8, (image_height, image_width, C), format and layout of the input. Its meta "
            "'letterbox' is (x, y, w, h, width, height): the place of the image in the output and "
            "the image's own size, in pixels",
            dtype="uint8",
            shape="(image_height, image_width, C)",
        ),
    ),
    options=LetterboxOptions,
    description="Fits each image into the input of a detector, for boxes_to_original to undo.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
