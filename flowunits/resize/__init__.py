"""``resize``: resizes images to one size."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option
from modelflow.image import FILTERS, INTERPOLATION_HELP, Interpolation, fit_size, own_name


@dataclass(frozen=True)
class ResizeOptions:
    """The options of ``resize``."""

    image_width: int = option(
        help="The width to resize to, in pixels.", aliases=("width",), minimum=1, maximum=65535
    )
    image_height: int = option(
        help="The height to resize to, in pixels.", aliases=("height",), minimum=1, maximum=65535
    )
    interpolation: Interpolation = option(  # noqa: RUF009 - a field, as the others
        "inter_linear", help=INTERPOLATION_HELP
    )
    keep_ratio: bool = option(
        False,
        help="Keep the ratio of width to height. The result is the largest size that fits into "
        "image_width x image_height, to the nearest pixel.",
    )

    antialias: bool = option(
        False,
        help="Smooth images that become smaller, as Pillow does. Its filters BILINEAR, BICUBIC, "
        "BOX and LANCZOS belong to inter_linear, inter_cubic, inter_area and inter_lanczos4. Use "
        "it for models that were trained on images from torchvision's transforms. It needs Pillow "
        "and takes longer.",
    )

    def __post_init__(self) -> None:
        """Checks that Pillow has a filter for the interpolation.

        Raises:
            ValueError: ``antialias`` is set, and Pillow has no such filter.
        """
        if self.antialias and own_name(self.interpolation) not in FILTERS:
            raise ValueError(
                f"option 'interpolation': got {self.interpolation!r} with antialias=true; expected "
                f"one of {', '.join(FILTERS)}"
            )

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Returns the width and height of the output for an image of the given size."""
        if not self.keep_ratio:
            return self.image_width, self.image_height
        return fit_size(width, height, (self.image_width, self.image_height))


def _required_modules(options: ResizeOptions) -> dict[str, str]:
    return {"PIL": "pillow"} if options.antialias else {}


SPEC = FlowUnitSpec(
    name="resize",
    aliases=("cv_resize",),
    devices={
        "cpu": "flowunits.resize.cpu:Resize",
        "cuda": "flowunits.resize.cuda:Resize",
    },
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C) or planar (C, H, W), bgr, rgb or gray; sizes may differ within a "
            "batch",
            dtype="uint8",
            shape="(H, W, C)",
        ),
    ),
    outputs=(
        Port(
            "out_image",
            "uint8, (image_height, image_width, C), format and layout of the input. The pixels "
            "equal those of cv2.resize, or Pillow's with antialias. On cuda they differ by at most "
            "1",
            dtype="uint8",
            shape="(image_height, image_width, C)",
        ),
    ),
    options=ResizeOptions,
    description="Resizes images, as cv2.resize or Pillow does.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
    requires=_required_modules,
)
