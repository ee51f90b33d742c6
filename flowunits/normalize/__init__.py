"""``normalize``: subtracts a mean from each channel and scales the channel."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class NormalizeOptions:
    """The options of ``normalize``."""

    standard_deviation_inverse: tuple[float, ...] = option(
        (1.0, 1.0, 1.0),
        help="The factor of each channel, in the data's channel order, or one factor for all "
        "channels.",
    )
    mean: tuple[float, ...] = option(
        (0.0, 0.0, 0.0),
        help="The value to subtract from each channel first, or one value for all channels.",
    )


SPEC = FlowUnitSpec(
    name="normalize",
    devices={
        "cpu": "flowunits.normalize.cpu:Normalize",
        "cuda": "flowunits.normalize.cuda:Normalize",
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
            "float32, the shape of the input: (in - mean) * standard_deviation_inverse for each "
            "channel",
            dtype="float32",
        ),
    ),
    options=NormalizeOptions,
    description="Subtracts a mean from each channel, scales it and emits float32.",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
