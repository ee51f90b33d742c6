"""``crop_boxes``: cuts each box out of an image, as a stream of crops."""

from dataclasses import dataclass

from modelflow import Expand, FlowUnitSpec, Port, option
from modelflow.image import INTERPOLATION_HELP, Box, Interpolation
from modelflow.image.fit import Place


@dataclass(frozen=True)
class CropBoxesOptions:
    """The options of ``crop_boxes``."""

    margin: float = option(
        0.0,
        help="The part of a box's width and height to add on each side. With 0.1 a crop is 1.2 "
        "times as wide and high as its box.",
        minimum=0,
        maximum=10,
    )
    image_width: int = option(
        0,
        help="The width to resize each crop to, in pixels. With 0 crops keep their own size.",
        aliases=("width",),
        minimum=0,
        maximum=65535,
    )
    image_height: int = option(
        0,
        help="The height to resize each crop to. Give both or none.",
        aliases=("height",),
        minimum=0,
        maximum=65535,
    )
    interpolation: Interpolation = option(  # noqa: RUF009 - a field, as the others
        "inter_linear", help=INTERPOLATION_HELP
    )
    min_size: int = option(
        1,
        help="The least width and height of a crop in the image, in pixels. Smaller crops are left "
        "out.",
        minimum=1,
    )
    max_boxes: int = option(
        300,
        help="The most boxes of an image. An image with more is an error, because its crops could "
        "fill the memory.",
        minimum=1,
    )

    def __post_init__(self) -> None:
        """Checks the size.

        Raises:
            ValueError: only one of width and height is given.
        """
        if bool(self.image_width) != bool(self.image_height):
            raise ValueError(
                f"options 'image_width' and 'image_height': got {self.image_width} and "
                f"{self.image_height}; expected both or none"
            )

    @property
    def size(self) -> tuple[int, int] | None:
        """The width and height of every crop, or None for their own sizes."""
        return (self.image_width, self.image_height) if self.image_width else None

    def place(self, box: Box, width: int, height: int) -> Place | None:
        """Returns the pixels of a crop in an image of that size, or None to leave the crop out.

        Edges are rounded to the nearest pixel and clipped to the image.
        """
        x, right = _clip(box.x, box.w, self.margin, width)
        y, bottom = _clip(box.y, box.h, self.margin, height)
        if min(right - x, bottom - y) < self.min_size:
            return None
        return x, y, right - x, bottom - y


def _clip(start: float, length: float, margin: float, most: int) -> tuple[int, int]:
    edges = (start - margin * length, start + length + margin * length)
    first, last = (round(min(max(edge, 0), most)) for edge in edges)
    return first, last


SPEC = FlowUnitSpec(
    name="crop_boxes",
    devices={"cpu": "flowunits.crop_boxes.cpu:CropBoxes"},
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C) or planar (C, H, W), bgr, rgb or gray",
            dtype="uint8",
            shape="(H, W, C)",
        ),
        Port(
            "in_region",
            "the boxes of the image, in its pixels. A list of boxes, or an array (N, 4), (N, 5) or "
            "(N, 6) of x y w h, score, class",
        ),
    ),
    outputs=(
        Port(
            "out_image",
            "uint8, (h, w, C) or (image_height, image_width, C), format and layout of the input. A "
            "crop's meta are box (x, y, w, h, "
            "without margin), score, class_id, label and box_index",
            dtype="uint8",
            shape="(h, w, C)",
        ),
    ),
    options=CropBoxesOptions,
    kind=Expand(),
    description="Cuts each box out of its image: a stream of crops, empty without boxes.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    refuses_with=ValueError,
)
