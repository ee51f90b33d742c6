"""``image_preprocess``: colour order, layout, mean and scale at once."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class ImagePreprocessOptions:
    """The options of ``image_preprocess``."""

    output_layout: Literal["hwc", "chw"] = option(
        "hwc", help="The layout of the output: packed (H, W, C) or planar (C, H, W)."
    )
    mean: tuple[float, ...] = option(
        (0.0, 0.0, 0.0),
        help="The value to subtract from each channel, in the output's channel order, or one for "
        "all.",
    )
    standard_deviation_inverse: tuple[float, ...] = option(
        (1.0, 1.0, 1.0), help="The factor of each channel, or one for all."
    )
    out_pix_fmt: Literal["bgr", "rgb", "gray"] | None = option(
        None, help="The pixel format to convert to before; none: as it comes."
    )


SPEC = FlowUnitSpec(
    name="image_preprocess",
    devices={
        "cpu": "flowunits.image_preprocess.cpu:ImagePreprocess",
        "cuda": "flowunits.image_preprocess.cuda:ImagePreprocess",
    },
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C) or planar (C, H, W), bgr, rgb or gray; nv12 with out_pix_fmt",
            dtype="uint8",
            shape="(H, W, C)",
        ),
    ),
    outputs=(
        Port(
            "out_data",
            "float32, (H, W, C) or (C, H, W): (in - mean) * standard_deviation_inverse a channel",
            dtype="float32",
        ),
    ),
    options=ImagePreprocessOptions,
    description="Makes images a model's input: colour order, layout, mean and scale in one pass.",
    group="Image",
    is_compute_bound=True,
    is_one_by_one=True,
)
