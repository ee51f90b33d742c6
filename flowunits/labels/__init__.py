"""``labels``: class numbers, or scores, to names."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class LabelsOptions:
    """The options of ``labels``."""

    path: str = option(
        help="A text file of class names, one a line, the first that of class 0.",
        aliases=("labels",),
        is_path=True,
    )
    of: Literal["index", "scores"] = option(
        "index",
        help="What comes: index: numbers of classes; scores: scores with the classes along the "
        "last axis, of which the best is named.",
    )


SPEC = FlowUnitSpec(
    name="labels",
    devices={"cpu": "flowunits.labels.cpu:Labels"},
    inputs=(
        Port(
            "in_data",
            "a whole number, or an array or lists of them; with of=scores numbers (..., classes)",
        ),
    ),
    outputs=(
        Port("out_data", "the name of one; of an array (n,) a list of n names, of (n, m) n lists"),
    ),
    options=LabelsOptions,
    description="Names classes by a file of labels.",
    group="Inference",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
