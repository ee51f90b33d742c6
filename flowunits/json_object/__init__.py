"""``json_object``: makes one JSON object of several values."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option

PORTS = tuple(f"in_data{number}" for number in range(1, 9))


@dataclass(frozen=True)
class JsonObjectOptions:
    """The options of ``json_object``."""

    fields: tuple[str, ...] = option(
        help="The keys of the values at in_data1, in_data2, ..., in this order. Give one key for "
        "each connected input, at most 8."
    )
    meta: tuple[str, ...] = option(
        (),
        help="Meta keys of in_data1. Their values become fields of the same names after the "
        "others.",
    )
    format: Literal["json", "mapping"] = option(
        "json", help="json: bytes of JSON (UTF-8); mapping: a mapping of JSON values."
    )

    def __post_init__(self) -> None:
        """Checks the keys.

        Raises:
            ValueError: the number of keys is wrong, or a key is empty or given twice.
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
    "any data that JSON can represent, such as numbers, texts, arrays, boxes, and lists or "
    "mappings of these. Bytes count as text"
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
            "out_data",
            "the object as bytes of JSON or as a mapping. Arrays become lists, and boxes objects",
        ),
    ),
    options=JsonObjectOptions,
    description="Makes one JSON object of its inputs.",
    group="Generic",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
