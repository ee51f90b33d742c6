"""``draw_bbox``: draws boxes with class and score into images."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class DrawBboxOptions:
    """The options of ``draw_bbox``."""

    colors: tuple[int, ...] = option(
        (255, 0, 0),
        help="Colours of three values 0..255 each, in the image's own channel order. Class number "
        "n takes colour n modulo the number of colours.",
        aliases=("colours",),
        minimum=0,
        maximum=255,
    )
    labels: str | None = option(
        None,
        help="A text file of class names, one a line. By default the label of the box is drawn, or "
        "its class number.",
        is_path=True,
    )
    thickness: int = option(5, help="The thickness of lines, in pixels.", minimum=1, maximum=100)
    font_scale: float = option(
        0.8, help="The size of the text, in OpenCV's font scale; 0: no text.", minimum=0, maximum=50
    )

    def __post_init__(self) -> None:
        """Checks that each colour has three values.

        Raises:
            ValueError: the number of values is not a multiple of three.
        """
        if not self.colors or len(self.colors) % 3:
            raise ValueError(
                f"option 'colors': got {len(self.colors)} values; expected three a colour"
            )


SPEC = FlowUnitSpec(
    name="draw_bbox",
    devices={"cpu": "flowunits.draw_bbox.cpu:DrawBbox"},
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C), bgr, rgb or gray; drawn into in place",
            dtype="uint8",
            shape="(H, W, C)",
            is_in_place=True,
        ),
        Port(
            "in_region",
            "for each image a list of boxes in pixels: Box, mappings (x y w h score class), or "
            "rows x, y, w, h, score, class_id. An array (N, 4..6) is possible, too",
        ),
    ),
    outputs=(
        Port("out_image", "uint8, the image with its boxes", dtype="uint8", shape="(H, W, C)"),
    ),
    options=DrawBboxOptions,
    description="Draws boxes with class and score into images.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
