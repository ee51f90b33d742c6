"""``nms``: removes overlapping boxes (non-maximum suppression)."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class NmsOptions:
    """The options of ``nms``."""

    conf_threshold: float = option(
        0.25, help="The least score of a box.", aliases=("score_threshold",), minimum=0, maximum=1
    )
    nms_threshold: float = option(
        0.45,
        help="The greatest overlap (intersection over union) of two boxes of the same class.",
        minimum=0,
        maximum=1,
    )
    max_boxes: int = option(300, help="The most boxes of an output buffer.", minimum=1)
    labels: str | None = option(None, help="A text file of class names, one a line.")


SPEC = FlowUnitSpec(
    name="nms",
    devices={"cpu": "flowunits.nms.cpu:Nms"},
    inputs=(
        Port(
            "in_region",
            "boxes of one image: a list of boxes, or an array. An array is (N, 4) x y w h, (N, 5) "
            "with score, or (N, 6) with score and class",
        ),
        Port(
            "in_scores",
            "scores of the boxes of in_region, which replace the boxes' own scores: (N,), or (N, "
            "classes), of which the best counts",
            is_optional=True,
        ),
    ),
    outputs=(Port("out_region", "a list of Box, the best first"),),
    options=NmsOptions,
    description="Keeps the best of overlapping boxes, class by class.",
    group="Inference",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
