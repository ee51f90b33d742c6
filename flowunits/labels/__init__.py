"""``labels``: names classes, given as numbers or scores."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class LabelsOptions:
    """The options of ``labels``."""

    path: str = option(
        help="A text file of class names, one a line. The first line is the name of class 0.",
        aliases=("labels",),
        is_path=True,
    )
    of: Literal["index", "scores"] = option(
        "index",
        help="The form of the input. index: class numbers; scores: scores with the classes along "
        "the last axis, of which the best is named.",
    )


SPEC = FlowUnitSpec(
    name="labels",
    devices={"cpu": "flowunits.labels.cpu:Labels"},
    inputs=(
        Port(
            "in_data",
            "a whole number, or an array or lists of whole numbers. With of=scores: numbers (..., "
            "classes)",
        ),
    ),
    outputs=(
        Port(
            "out_data",
            "a name for one number, n names for an array (n,), n lists for an array (n, m)",
        ),
    ),
    options=LabelsOptions,
    description="Looks up the names of classes in a file of labels.",
    group="Inference",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
