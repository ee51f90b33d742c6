"""``buff_meta_mapping``: copies a meta value to another key and maps the value by rules."""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class BuffMetaMappingOptions:
    """The options of ``buff_meta_mapping``."""

    src_meta: str = option(help="The meta key to read.")
    dest_meta: str = option(help="The meta key to write.")
    rules: tuple[str, ...] = option(
        (),
        help="Rules FROM=TO, separated by commas. A value without a rule is copied unchanged.",
    )

    def __post_init__(self) -> None:
        """Checks the form of the rules.

        Raises:
            ValueError: a key is empty, or a rule is not of the form FROM=TO or names a value twice.
        """
        if not self.src_meta or not self.dest_meta:
            raise ValueError(
                "src_meta and dest_meta: got an empty text; expected the name of a meta key"
            )
        sources = [rule.partition("=")[0].strip() for rule in self.rules]
        for rule, source in zip(self.rules, sources, strict=True):
            if rule.count("=") != 1 or not source:
                raise ValueError(f"option 'rules': got {rule!r}; expected FROM=TO")
            if sources.count(source) > 1:
                raise ValueError(f"option 'rules': got two rules for {source!r}; expected one")


SPEC = FlowUnitSpec(
    name="buff_meta_mapping",
    aliases=("meta_mapping",),
    devices={"cpu": "flowunits.buff_meta_mapping.cpu:BuffMetaMapping"},
    inputs=(Port("in_data", "any data, with the meta src_meta: text, a number, true or false"),),
    outputs=(
        Port(
            "out_data",
            "the same data, with the meta dest_meta. A mapped value has the type of the source "
            "value if its text can be converted to that type. Otherwise it is text",
        ),
    ),
    options=BuffMetaMappingOptions,
    description="Copies a meta value to another key and maps it by rules.",
    group="Generic",
    is_compute_bound=True,
    hands_over_arrays=True,
    refuses_with=ValueError,
)
