"""``crop``: a region of each image."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class CropOptions:
    """The options of ``crop``: a fixed region for a node whose ``in_region`` is not connected."""

    x: int = option(0, help="The region's left edge, in pixels.", minimum=0)
    y: int = option(0, help="The region's top edge, in pixels.", minimum=0)
    w: int = option(
        0, help="The region's width in pixels; 0: use in_region.", aliases=("width",), minimum=0
    )
    h: int = option(
        0, help="The region's height in pixels; 0: use in_region.", aliases=("height",), minimum=0
    )


SPEC = FlowUnitSpec(
    name="crop",
    devices={"cpu": "flowunits.crop.cpu:Crop", "cuda": "flowunits.crop.cuda:Crop"},
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C) or planar (C, H, W), bgr, rgb or gray",
            dtype="uint8",
            shape="(H, W, C)",
        ),
        Port(
            "in_region",
            "one region for each image, in pixels: a Box, a mapping with x y w h, or four numbers "
            "x, y, w, h. Fractions are truncated",
            is_optional=True,
            device="cpu",
        ),
    ),
    outputs=(
        Port(
            "out_image",
            "uint8, (h, w, C), format and layout of the input",
            dtype="uint8",
            shape="(h, w, C)",
        ),
    ),
    options=CropOptions,
    description="Cuts a region out of each image. A region that leaves the image is an error.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
