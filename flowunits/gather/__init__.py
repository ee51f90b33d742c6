"""``gather``: joins the results of one item in a list, behind an expand."""

from dataclasses import dataclass

from modelflow import Collapse, FlowUnitSpec, Port, option


@dataclass(frozen=True)
class GatherOptions:
    """The options of ``gather``."""

    meta: tuple[str, ...] = option(
        (),
        help="Meta keys to add to each result. With keys, each result becomes a mapping of them "
        "and its value. A key that a result lacks becomes None.",
    )
    key: str = option("value", help="The key of the value in the mapping that 'meta' makes.")

    def __post_init__(self) -> None:
        """Checks the keys.

        Raises:
            ValueError: a key is empty or given twice.
        """
        keys = (*self.meta, self.key)
        for key in keys:
            if not key or keys.count(key) > 1:
                found = f"the key {key!r} twice" if key else "an empty key"
                raise ValueError(f"options 'meta' and 'key': got {found}; expected different keys")


SPEC = FlowUnitSpec(
    name="gather",
    devices={"cpu": "flowunits.gather.cpu:Gather"},
    inputs=(Port("in_data", "one of the results of an item: any data"),),
    outputs=(
        Port(
            "out_data",
            "the list of the item's results in their order, empty without results. With 'meta', a "
            "list of mappings. With is_exception_visible=true on the node, a failed result is a "
            "mapping with 'error' in place of its value",
        ),
    ),
    options=GatherOptions,
    kind=Collapse(),
    description="Joins all results of one item in a list, such as the objects of an image.",
    group="Generic",
    is_compute_bound=True,
    is_exception_visible=True,
)
