"""``normalize``: scales each channel."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class NormalizeOptions:
    """The options of ``normalize``."""

    standard_deviation_inverse: tuple[float, ...] = option(
        (1.0, 1.0, 1.0),
        help="The factor of each channel, in the data's channel order, or one for all.",
    )
    mean: tuple[float, ...] = option(
        (0.0, 0.0, 0.0), help="The value to subtract from each channel before, or one for all."
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
            "uint8 or another type of numbers, (H, W, C), or (C, H, W) where the meta 'layout' is "
            "chw",
        ),
    ),
    outputs=(
        Port(
            "out_data",
            "float32, the shape of the input: (in - mean) * standard_deviation_inverse a channel",
            dtype="float32",
        ),
    ),
    options=NormalizeOptions,
    description="Subtracts a mean from each channel and scales it; gives float32.",
    group="Image",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
