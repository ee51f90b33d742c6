"""The edits that a page can request, each translated to edits of `GraphText`. Pure."""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from modelflow.config.dot.read import read_dot
from modelflow.config.dot.tokens import dot_text, dot_word
from modelflow.config.edit.graph_text import GraphText
from modelflow.config.flow_config import PortRef
from modelflow.errors import ConfigError, ModelflowError, did_you_mean
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
        names[node.name] = new = _free(node.name, [*text.nodes, *names.values()])
        given = {key: value for key, value in node.attributes.items() if key != "pos"}
        if given.get("type", "flowunit") == "flowunit" and new != node.name:
            given.setdefault("flowunit", node.name)
        unit = given.get("flowunit", node.name)
        values = {
            key: parse_value(text, unit, key, value, registry) for key, value in given.items()
        }
        text = text.add_node(new, values)
    for edge in graph.edges:
        ends = (PortRef(names[end.node], end.port) for end in (edge.source, edge.target))
        text = text.connect(*ends)
    return text


def _free(name: str, taken: Iterable[str]) -> str:
    used = set(taken)
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(one for one in names if one not in used)


MOST_OPERATIONS = 1000
_FARTHEST = 1e6
Operation = Mapping[str, Any]


def apply_operations(
    text: GraphText, operations: Sequence[Operation], registry: Registry
) -> GraphText:
    """Returns a text after operations, each of which is ``{"do": NAME, ...}``.

    The operations and their keys:

    - ``set`` (node, key, value), ``unset`` (node, key)
    - ``add`` (name, attributes), ``remove`` (nodes), ``rename`` (node, name)
    - ``connect``, ``disconnect`` (source, target: ``{node, port}``)
    - ``move`` (places: node -> ``[x, y]``), ``tidy``
    - ``paste`` (text)

    Args:
        text: The text.
        operations: The operations, in order.
        registry: The registry, which knows the types of the units' options.

    Raises:
        ConfigError: An operation is not possible. Then no operation is applied.
    """
    if len(operations) > MOST_OPERATIONS:
        raise ConfigError(f"got {len(operations)} operations; expected at most {MOST_OPERATIONS}")
    for operation in operations:
        name = operation.get("do")
        do = _KNOWN.get(name) if isinstance(name, str) else None
        if do is None:
            near = did_you_mean(str(name), _KNOWN)
            raise ConfigError(f"operation {name!r}: expected one of {', '.join(_KNOWN)}{near}")
        text = do(text, operation, registry)
    return text


def _set(text: GraphText, given: Operation, registry: Registry) -> GraphText:
    node, key, value = _text(given, "node"), _text(given, "key"), _text(given, "value")
    unit = text.nodes.get(node, {}).get("flowunit") or node
    return text.set(node, key, parse_value(text, str(unit), key, value, registry))


def _add(text: GraphText, given: Operation, _: Registry) -> GraphText:
    attributes = given.get("attributes", {})
    if not isinstance(attributes, Mapping):
        raise _wrong(given, "attributes", "texts by name")
    return text.add_node(_text(given, "name"), {key: str(attributes[key]) for key in attributes})


def _remove(text: GraphText, given: Operation, _: Registry) -> GraphText:
    nodes = given.get("nodes")
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        raise _wrong(given, "nodes", "a list of names")
    for node in nodes:
        if node in text.nodes:
            text = text.remove_node(node)
            continue
        for ends in text.edges:  # the node exists only in edges
            if node in (ends[0].node, ends[1].node) and ends in text.edges:
                text = text.disconnect(*ends)
    return text


def _rename(text: GraphText, given: Operation, _: Registry) -> GraphText:
    old, new = _text(given, "node"), _text(given, "name")
    attributes = text.nodes.get(old, {})
    is_unit = attributes.get("type", "flowunit") == "flowunit"
    if is_unit and "flowunit" not in attributes:  # so far the node's name selects the unit
        text = text.set(old, "flowunit", old)
    return text.rename(old, new)


def _move(text: GraphText, given: Operation, _: Registry) -> GraphText:
    places = given.get("places")
    if not isinstance(places, Mapping) or not all(map(_is_place, places.values())):
        raise _wrong(given, "places", "[x, y] by node")
    return text.move_all({node: (float(x), float(y)) for node, (x, y) in places.items()})


def _tidy(text: GraphText, _: Operation, __: Registry) -> GraphText:
    return text.move_all({node: None for node, given in text.nodes.items() if "pos" in given})


_KNOWN: Mapping[str, Callable[[GraphText, Operation, Registry], GraphText]] = MappingProxyType(
    {
        "set": _set,
        "unset": lambda text, given, _: text.unset(_text(given, "node"), _text(given, "key")),
        "add": _add,
        "remove": _remove,
        "rename": _rename,
        "connect": lambda text, given, _: text.connect(*_ends(given)),
        "disconnect": lambda text, given, _: text.disconnect(*_ends(given)),
        "move": _move,
        "tidy": _tidy,
        "paste": lambda text, given, registry: paste(text, _text(given, "text"), registry),
    }
)


def _text(given: Operation, key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str):
        raise _wrong(given, key, "a text")
    return value


def _ends(given: Operation) -> tuple[PortRef, PortRef]:
    return _end(given, "source"), _end(given, "target")


def _end(given: Operation, key: str) -> PortRef:
    end = given.get(key)
    node = end.get("node") if isinstance(end, Mapping) else None
    port = end.get("port") if isinstance(end, Mapping) else None
    if not isinstance(node, str) or not (port is None or isinstance(port, str)):
        raise _wrong(given, key, "a node and its port")
    return PortRef(node, port)


def _is_place(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(part, int | float) and abs(part) < _FARTHEST for part in value)
    )


def _wrong(given: Operation, key: str, expected: str) -> ConfigError:
    return ConfigError(f"{given['do']}: {key}: got {given.get(key)!r:.100}; expected {expected}")
