"""``color_convert``: converts images to another pixel format."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class ColorConvertOptions:
    """The options of ``color_convert``."""

    out_pix_fmt: Literal["bgr", "rgb", "gray", "nv12", "bgrp", "rgbp"] = option(
        help="The pixel format to convert to. The formats bgrp and rgbp are planar. The others "
        "keep the layout of the input."
    )


SPEC = FlowUnitSpec(
    name="color_convert",
    aliases=("color_transpose",),
    devices={
        "cpu": "flowunits.color_convert.cpu:ColorConvert",
        "cuda": "flowunits.color_convert.cuda:ColorConvert",
    },
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C) or planar (C, H, W), bgr, rgb or gray; or nv12 (H * 3 / 2, W)",
            dtype="uint8",
        ),
    ),
    outputs=(
        Port(
            "out_image",
            "uint8, the same H and W in out_pix_fmt; the pixels are equal to those of cv2.cvtColor",
            dtype="uint8",
        ),
    ),
    options=ColorConvertOptions,
    description="Converts images between pixel formats, as cv2.cvtColor does.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
