"""``pad_sequence``: pads or cuts sequences to one length."""

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
    value: float = option(0.0, help="The padding value. The type of the array must hold it.")
    side: Literal["left", "right"] = option("right", help="The side to pad and to cut.")
    cut_side: Literal["left", "right"] | None = option(
        None, help="The side to cut, if it differs from side."
    )


SPEC = FlowUnitSpec(
    name="pad_sequence",
    devices={"cpu": "flowunits.pad_sequence.cpu:PadSequence"},
    inputs=(Port("in_data", "numbers, (n, ...): an array, or lists of equal lengths"),),
    outputs=(Port("out_data", "(length, ...), of the input's type; at most 2 GiB"),),
    options=PadSequenceOptions,
    description="Pads or cuts sequences to one length.",
    group="Text",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
