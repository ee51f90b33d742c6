"""``mean``: subtracts a mean from each channel."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class MeanOptions:
    """The options of ``mean``."""

    mean: tuple[float, ...] = option(
        (123.68, 116.78, 103.94),
        help="The value to subtract from each channel, in the data's channel order, or one value "
        "for all channels.",
    )


SPEC = FlowUnitSpec(
    name="mean",
    devices={
        "cpu": "flowunits.mean.cpu:Mean",
        "cuda": "flowunits.mean.cuda:Mean",
    },
    inputs=(
        Port(
            "in_data",
            "uint8 or another numeric type, (H, W, C), or (C, H, W) if the meta 'layout' is chw",
        ),
    ),
    outputs=(
        Port(
            "out_data",
            "float32, the shape of the input: in - mean for each channel",
            dtype="float32",
        ),
    ),
    options=MeanOptions,
    description="Subtracts a mean from each channel and emits float32.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
