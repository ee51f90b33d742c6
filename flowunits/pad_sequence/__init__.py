"""``pad_sequence``: sequences of one length."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class PadSequenceOptions:
    """The options of ``pad_sequence``."""

    length: int = option(
        help="The length of the output, its axis 0.",
        minimum=1,
        maximum=10_000_000,
        aliases=("maxlen",),
    )
    value: float = option(0.0, help="What fills up; one that the array's type can hold.")
    side: Literal["left", "right"] = option("right", help="Where it is filled up, and cut.")
    cut_side: Literal["left", "right"] | None = option(
        None, help="Where it is cut, if elsewhere; none: as side."
    )


SPEC = FlowUnitSpec(
    name="pad_sequence",
    devices={"cpu": "flowunits.pad_sequence.cpu:PadSequence"},
    inputs=(Port("in_data", "numbers, (n, ...): an array, or lists of equal lengths"),),
    outputs=(Port("out_data", "(length, ...), of the input's type; at most 2 GiB"),),
    options=PadSequenceOptions,
    description="Fills up or cuts sequences to one length.",
    group="Text",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
