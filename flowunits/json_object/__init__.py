"""``json_object``: one JSON object of several values."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option

PORTS = tuple(f"in_data{number}" for number in range(1, 9))


@dataclass(frozen=True)
class JsonObjectOptions:
    """The options of ``json_object``."""

    fields: tuple[str, ...] = option(
        help="The keys of what comes at in_data1, in_data2, ..., in this order: one for each input "
        "that is connected, 8 at most."
    )
    meta: tuple[str, ...] = option(
        (), help="Meta keys of in_data1 whose values become fields of the same names, behind those."
    )
    format: Literal["json", "mapping"] = option(
        "json", help="json: bytes of JSON (UTF-8); mapping: a mapping of what JSON can hold."
    )

    def __post_init__(self) -> None:
        """Checks the keys.

        Raises:
            ValueError: there are none or too many, or one is empty or comes twice.
        """
        if not 1 <= len(self.fields) <= len(PORTS):
            raise ValueError(
                f"option 'fields': got {len(self.fields)} keys; expected 1 to {len(PORTS)}"
            )
        keys = (*self.fields, *self.meta)
        for key in keys:
            if not key or keys.count(key) > 1:
                found = f"the key {key!r} twice" if key else "an empty key"
                raise ValueError(
                    f"options 'fields' and 'meta': got {found}; expected different keys"
                )


_VALUE = (
    "any data that JSON can hold: numbers, texts, arrays, boxes, lists and mappings of such; bytes "
    "count as text"
)

SPEC = FlowUnitSpec(
    name="json_object",
    devices={"cpu": "flowunits.json_object.cpu:JsonObject"},
    inputs=(
        Port(PORTS[0], f"the value of the first key: {_VALUE}"),
        *(
            Port(port, f"the value of key {number}", is_optional=True)
            for number, port in enumerate(PORTS[1:], start=2)
        ),
    ),
    outputs=(
        Port(
            "out_data", "the object: bytes of JSON, or a mapping; arrays are lists, boxes objects"
        ),
    ),
    options=JsonObjectOptions,
    description="Makes one JSON object of its inputs.",
    group="Generic",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
