"""``json_field``: reads one value of a JSON document."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class JsonFieldOptions:
    """The options of ``json_field``."""

    field: str = option(
        help="The path of the value: keys, and list positions from 0, separated by dots "
        "(user.tags.0).",
    )
    default: str | None = option(
        None,
        help="The value for documents without the field, as JSON ([], 0, null). Text that is no "
        "JSON is used as text. By default a missing field is an error.",
    )
    dtype: (
        Literal["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"] | None
    ) = option(
        None,
        help="The element type of an array that is made of the value, a number or lists of "
        "numbers. By default the value stays as it is.",
    )

    def __post_init__(self) -> None:
        """Checks the form of the path.

        Raises:
            ValueError: a part of the path is empty.
        """
        if not all(self.field.split(".")):
            raise ValueError(
                f"option 'field': got {self.field!r}; expected keys and numbers with dots between"
            )


SPEC = FlowUnitSpec(
    name="json_field",
    devices={"cpu": "flowunits.json_field.cpu:JsonField"},
    inputs=(
        Port(
            "in_data",
            "a JSON document of at most 64 MiB: str, bytes or a uint8 array (N,). A parsed "
            "document, a mapping or a list, is possible, too",
        ),
    ),
    outputs=(
        Port(
            "out_data",
            "the value: text, a number, true or false, None, a list or a mapping. With dtype it is "
            "an array",
        ),
    ),
    options=JsonFieldOptions,
    description="Emits one value of a JSON document, by its path.",
    group="Generic",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
