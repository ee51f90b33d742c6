"""``base64_decoder``: base64 text to bytes."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class Base64DecoderOptions:
    """The options of ``base64_decoder``."""

    data_format: Literal["raw", "json"] = option(
        "raw",
        help="raw: the data is base64 text; json: a JSON object with base64 text in one field.",
    )
    key: str = option("", help="The name of that field, for data_format=json.")

    def __post_init__(self) -> None:
        """Checks that data_format=json has a key.

        Raises:
            ValueError: the key is missing.
        """
        if self.data_format == "json" and not self.key:
            raise ValueError(
                "data_format 'json' needs the option 'key': the field that holds the base64"
            )


SPEC = FlowUnitSpec(
    name="base64_decoder",
    devices={"cpu": "flowunits.base64_decoder.cpu:Base64Decoder"},
    inputs=(
        Port("in_data", "base64 (RFC 4648), or a JSON object: str, bytes or a uint8 array (N,)"),
    ),
    outputs=(Port("out_data", "bytes"),),
    options=Base64DecoderOptions,
    description="Decodes base64 text, or a base64 field of a JSON object.",
    group="Generic",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
