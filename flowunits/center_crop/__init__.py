"""``center_crop``: the middle of each image."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class CenterCropOptions:
    """The options of ``center_crop``."""

    image_width: int = option(
        help="The width to cut out, in pixels.", aliases=("width",), minimum=1
    )
    image_height: int = option(
        help="The height to cut out, in pixels.", aliases=("height",), minimum=1
    )

    def corner(self, width: int, height: int) -> tuple[int, int]:
        """Returns x and y of the corner at which the middle of an image begins.

        Raises:
            ValueError: the image is smaller than the crop.
        """
        if width < self.image_width or height < self.image_height:
            raise ValueError(
                f"in_image: got {width} x {height} pixels; expected at least "
                f"{self.image_width} x {self.image_height}; resize it or pad it before"
            )
        return (width - self.image_width) // 2, (height - self.image_height) // 2


SPEC = FlowUnitSpec(
    name="center_crop",
    devices={
        "cpu": "flowunits.center_crop.cpu:CenterCrop",
        "cuda": "flowunits.center_crop.cuda:CenterCrop",
    },
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C) or planar (C, H, W), bgr, rgb or gray; H and W at least image_height "
            "and image_width",
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
    options=CenterCropOptions,
    description="Cuts the middle out of each image. An odd remainder is cut off at the right and "
    "at the bottom.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
