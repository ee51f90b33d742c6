"""``buff_meta_mapping`` on the CPU."""

from typing import Any

from flowunits.buff_meta_mapping import BuffMetaMappingOptions
from modelflow import Buffer, Context, FlowUnit

_BOOLS = {"true": True, "1": True, "false": False, "0": False}


class BuffMetaMapping(FlowUnit):
    """Compares the text of a meta value with the texts in the rules."""

    def open(self, config: BuffMetaMappingOptions) -> None:
        """Reads the rules."""
        self._source, self._target = config.src_meta, config.dest_meta
        pairs = (rule.partition("=") for rule in config.rules)
        self._rules = {source.strip(): target.strip() for source, _, target in pairs}

    def process(self, ctx: Context) -> None:
        """Processes each buffer separately."""
        ctx.emit_each(self._map)

    def _map(self, buffer: Buffer) -> Buffer:
        value = buffer.get(self._source)
        if not isinstance(value, str | bool | int | float):
            found = (
                f"a {type(value).__name__} in the meta {self._source!r}"
                if value is not None
                else f"no meta {self._source!r} (there are: {', '.join(buffer.meta) or 'none'})"
            )
            raise ValueError(f"in_data: got {found}; expected text, a number, true or false")
        return Buffer(buffer.data, {self._target: self._mapped(value)})

    def _mapped(self, value: str | bool | float) -> Any:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        target = self._rules.get(text)
        return value if target is None else _as_type_of(value, target)


def _as_type_of(value: str | bool | float, text: str) -> str | bool | float:
    if isinstance(value, bool):
        return _BOOLS.get(text.lower(), text)
    try:
        return type(value)(text)
    except ValueError:  # the rule "1=cat" replaces a number by a name
        return text
