"""``boxes_to_original``: maps boxes found in a letterboxed image back to the original image."""

from modelflow import FlowUnitSpec, Port

SPEC = FlowUnitSpec(
    name="boxes_to_original",
    devices={"cpu": "flowunits.boxes_to_original.cpu:BoxesToOriginal"},
    inputs=(
        Port(
            "in_region",
            "boxes in pixels of the output of letterbox, with its meta 'letterbox'. A list of "
            "boxes, or an array (N, 4), (N, 5) or (N, 6) of x y w h, score, class",
        ),
    ),
    outputs=(
        Port(
            "out_region",
            "a list of Box in pixels of the image that letterbox got, in the order of the input. "
            "Boxes are clipped to the image, and boxes outside of it are left out",
        ),
    ),
    description="Maps boxes back to the image before letterbox.",
    group="Inference",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
