"""What was typed into a field, as a graph file writes it. Pure."""

from typing import Any

from modelflow.config.edit import GraphText
from modelflow.errors import ConfigError, ModelflowError
from modelflow.registry.registry import Registry
from modelflow.studio.edit.catalog import SETTINGS
from modelflow.unit.option import Option

__all__ = ["typed"]


def typed(text: GraphText, unit: str, key: str, value: str, registry: Registry) -> Any:
    """Returns a value for `GraphText.set`.

    DOT holds text. Tables of TOML hold what the option is; what is none stays text, and the check
    says what is wrong with it.

    Args:
        text: The text that it is for.
        unit: The unit of the node that it is set on; "" of the graph's own ports.
        key: The attribute.
        value: What was typed.
        registry: Where the unit is looked up.
    """
    if not text.is_typed or "$" in value:  # a variable, or an argument
        return value
    option = next((one for one in _options(unit, registry) if one.name == key), None)
    if option is None:
        return value
    try:
        converted = option.convert(value)
    except ConfigError:
        return value
    if isinstance(converted, tuple | list):
        return list(converted)
    return converted if isinstance(converted, bool | int | float) else value


def _options(unit: str, registry: Registry) -> tuple[Option, ...]:
    try:
        return (*registry.find(unit).option_list, *SETTINGS)
    except ModelflowError:  # the check says what is wrong with the unit
        return tuple(SETTINGS)
