"""``image_preprocess``: colour order, layout, mean and scale in one pass."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option
from modelflow.image import PRESETS, Preset, PresetName


@dataclass(frozen=True)
class ImagePreprocessOptions:
    """The options of ``image_preprocess``."""

    output_layout: Literal["hwc", "chw"] = option(
        "hwc", help="The layout of the output: packed (H, W, C) or planar (C, H, W)."
    )
    mean: tuple[float, ...] = option(
        (0.0, 0.0, 0.0),
        help="The value to subtract from each channel, in the output's channel order, or one value "
        "for all channels.",
    )
    standard_deviation_inverse: tuple[float, ...] = option(
        (1.0, 1.0, 1.0), help="The factor of each channel, or one factor for all channels."
    )
    out_pix_fmt: Literal["bgr", "rgb", "gray"] | None = option(
        None, help="The pixel format to convert to first. By default the format stays."
    )
    preset: PresetName | None = option(  # noqa: RUF009 - a field, as the others
        None,
        help="The preprocessing of a family of models. It replaces mean, "
        "standard_deviation_inverse and out_pix_fmt. Presets are imagenet_torch (PyTorch, timm), "
        "imagenet_tf and imagenet_caffe (modes of Keras), and the names of Keras's modules "
        "(mobilenet_v2, resnet50, ...). See docs/how-to/images_for_models.md.",
    )

    def __post_init__(self) -> None:
        """Checks that a preset is given without mean, factor and pixel format.

        Raises:
            ValueError: a preset and another option are given.
        """
        if self.preset is None:
            return
        for name in ("mean", "standard_deviation_inverse", "out_pix_fmt"):
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise ValueError(
                    f"got the preset {self.preset!r} and {name!r}; give one of the two"
                )

    @property
    def steps(self) -> Preset:
        """The preset, or the format, mean and scale of the other options."""
        if self.preset is not None:
            return PRESETS[self.preset]
        return Preset(self.out_pix_fmt, self.mean, self.standard_deviation_inverse)


SPEC = FlowUnitSpec(
    name="image_preprocess",
    devices={
        "cpu": "flowunits.image_preprocess.cpu:ImagePreprocess",
        "cuda": "flowunits.image_preprocess.cuda:ImagePreprocess",
    },
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C) or planar (C, H, W), bgr, rgb or gray; nv12 with a "
            "format to convert to",
            dtype="uint8",
            shape="(H, W, C)",
        ),
    ),
    outputs=(
        Port(
            "out_data",
            "float32, (H, W, C) or (C, H, W): (in - mean) * standard_deviation_inverse for each "
            "channel",
            dtype="float32",
        ),
    ),
    options=ImagePreprocessOptions,
    description="Makes model input of images: colour order, layout, mean and scale in one pass.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
