"""``top_k``: the best classes of a vector of scores."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class TopKOptions:
    """The options of ``top_k``."""

    k: int = option(5, help="The number of classes to emit, the best first.", minimum=1)
    labels: str | None = option(
        None,
        help="A text file of class names, one a line, in the order of the scores.",
        is_path=True,
    )
    softmax: bool = option(False, help="Convert the scores to probabilities by softmax first.")


SPEC = FlowUnitSpec(
    name="top_k",
    devices={"cpu": "flowunits.top_k.cpu:TopK"},
    inputs=(
        Port("in_data", "scores of one item: numbers, (classes,) or with further axes of length 1"),
    ),
    outputs=(
        Port(
            "out_data",
            "a list of at most k mappings, the best first: class (its name, or its number without "
            "labels), index, score",
        ),
    ),
    options=TopKOptions,
    description="Names the best classes of a classifier's scores.",
    group="Inference",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
