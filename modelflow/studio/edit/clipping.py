"""Copies nodes of a graph as DOT text, and inserts such text into a graph. Pure."""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from modelflow.config.dot.read import read_dot
from modelflow.config.dot.tokens import dot_text, dot_word
from modelflow.config.edit.graph_text import GraphText
from modelflow.config.flow_config import PortRef
from modelflow.errors import ConfigError, ModelflowError
from modelflow.registry.registry import Registry
from modelflow.studio.edit.catalog import SETTINGS
from modelflow.unit.option import Option


def parse_value(text: GraphText, unit: str, key: str, value: str, registry: Registry) -> Any:
    """Converts a typed text to a value for `GraphText.set`.

    In DOT every value is text. In TOML tables the value gets the option's type. A text that does
    not fit the type stays text, and the check reports it.

    Args:
        text: The text of the graph.
        unit: The unit of the changed node. "" for the graph's own ports.
        key: The attribute.
        value: The typed text.
        registry: The registry to look up the unit.
    """
    if not text.is_typed or "$" in value:  # "$" marks a variable or an argument
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
    except ModelflowError:  # the check reports the problem of the unit
        return tuple(SETTINGS)


_WHOLE = re.compile(r"\s*(strict\s+)?(di)?graph\b[^{;=\[]*\{", re.IGNORECASE)


def copy(text: GraphText, names: Collection[str]) -> str:
    """Returns nodes and the edges among them as DOT, without positions.

    Raises:
        ConfigError: DOT cannot express a name or a value.
    """
    lines = []
    for name in (name for name in text.nodes if name in names):
        given = {key: value for key, value in text.nodes[name].items() if key != "pos"}
        words = [f"{dot_word(key)}={dot_word(dot_text(value))}" for key, value in given.items()]
        lines.append(f"    {dot_word(name)}" + (f"[{', '.join(words)}]" if words else ""))
    for source, target in text.edges:
        if source.node in names and target.node in names:
            lines.append(f"    {_write_end(source)} -> {_write_end(target)}")
    return "\n".join(["digraph {", *lines, "}", ""])


def _write_end(end: PortRef) -> str:
    return dot_word(end.node) + ("" if end.port is None else f":{dot_word(end.port)}")


def paste(text: GraphText, clipping: str, registry: Registry) -> GraphText:
    """Inserts a result of `copy`, or statements of DOT, into a text.

    Nodes get new names if their names are in use.

    Raises:
        ConfigError: The clipping is no DOT, or cannot be inserted.
    """
    is_whole = _WHOLE.match(clipping) is not None
    graph = read_dot(clipping if is_whole else f"digraph {{{clipping}\n}}", "<clipboard>")
    names: dict[str, str] = {}
    for node in graph.nodes:
        names[node.name] = new = free_name(node.name, [*text.nodes, *names.values()])
        given = {key: value for key, value in node.attributes.items() if key != "pos"}
        given = keep_unit(given, node.name, new)
        unit = given.get("flowunit", node.name)
        values = {
            key: parse_value(text, unit, key, value, registry) for key, value in given.items()
        }
        text = text.add_node(new, values)
    for edge in graph.edges:
        ends = (PortRef(names[end.node], end.port) for end in (edge.source, edge.target))
        text = text.connect(*ends)
    return text


def keep_unit(given: Mapping[str, str], wanted: str, name: str) -> dict[str, str]:
    """Returns the attributes of a node whose name may differ from the wanted name."""
    is_unit = given.get("type", "flowunit") == "flowunit"
    return {**({"flowunit": wanted} if is_unit and name != wanted else {}), **given}


def free_name(name: str, taken: Iterable[str]) -> str:
    """Returns a name that is not in use: the name itself, or with a number."""
    used = set(taken)
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(one for one in names if one not in used)
