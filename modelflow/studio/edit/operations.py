"""The edits that a page can request, each translated to edits of `GraphText`. Pure."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from modelflow.config.edit.graph_text import GraphText
from modelflow.config.flow_config import PortRef
from modelflow.errors import ConfigError, did_you_mean
from modelflow.registry.registry import Registry
from modelflow.studio.edit.clipping import free_name, keep_unit, parse_value, paste

MOST_OPERATIONS = 1000
_FARTHEST = 1e6
Operation = Mapping[str, Any]


class Edited(NamedTuple):
    """The result of operations.

    Attributes:
        text: The new text.
        added: The names of the nodes that were added and still exist.
        renames: The old and the new name of each renamed node, in order.
        is_tidied: Whether no node keeps its place in the picture.
    """

    text: GraphText
    added: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    is_tidied: bool = False


def apply_operations(
    text: GraphText, operations: Sequence[Operation], registry: Registry
) -> Edited:
    """Returns a text after operations, each of which is ``{"do": NAME, ...}``.

    The operations and their keys:

    - ``set`` (node, key, value), ``unset`` (node, key)
    - ``add`` (name, attributes), ``remove`` (nodes), ``rename`` (node, name)
    - ``connect``, ``disconnect`` (source, target: ``{node, port}``)
    - ``move`` (places: node -> ``[x, y]``), ``tidy``
    - ``paste`` (text)

    If the name of ``add`` is in use, the node gets a free name. Later operations that give the
    wanted name then mean the new node.

    Args:
        text: The text.
        operations: The operations, in order.
        registry: The registry, which knows the types of the units' options.

    Raises:
        ConfigError: An operation is not possible. Then no operation is applied.
    """
    if len(operations) > MOST_OPERATIONS:
        raise ConfigError(f"got {len(operations)} operations; expected at most {MOST_OPERATIONS}")
    names: dict[str, str] = {}
    added: list[str] = []
    renames: list[tuple[str, str]] = []
    for asked in operations:
        name = asked.get("do")
        do = _KNOWN.get(name) if isinstance(name, str) else None
        if do is None:
            near = did_you_mean(str(name), _KNOWN)
            raise ConfigError(f"operation {name!r}: expected one of {', '.join(_KNOWN)}{near}")
        operation, before = asked, text.nodes
        if name == "add":
            wanted = _text(asked, "name")
            names[wanted] = free_name(wanted, before)
            operation = {**asked, "name": names[wanted], "wanted": wanted}
        else:
            operation = _with_names(asked, names)
        text = do(text, operation, registry)
        new = [node for node in text.nodes if node not in before]
        if name == "rename" and new:
            old = operation["node"]
            renames.append((old, *new))
            added = [new[0] if node == old else node for node in added]
            names = {key: value for key, value in names.items() if value != old}
        else:
            added = [node for node in (*added, *new) if node in text.nodes]
            names = {key: value for key, value in names.items() if value in text.nodes}
    is_tidied = any(operation["do"] == "tidy" for operation in operations)
    return Edited(text, tuple(added), tuple(renames), is_tidied)


def _with_names(given: Operation, names: Mapping[str, str]) -> Operation:
    """Returns an operation that names the added nodes by the names that they got."""

    def name(value: Any) -> Any:
        return names.get(value, value) if isinstance(value, str) else value

    def name_in(key: str, value: Any) -> Any:
        if key == "node":
            return name(value)
        if key == "nodes" and isinstance(value, list):
            return list(map(name, value))
        if key in ("source", "target") and isinstance(value, Mapping):
            return {**value, "node": name(value.get("node"))}
        if key == "places" and isinstance(value, Mapping):
            return {name(node): place for node, place in value.items()}
        return value

    return {key: name_in(key, value) for key, value in given.items()} if names else given


def _set(text: GraphText, given: Operation, registry: Registry) -> GraphText:
    node, key, value = _text(given, "node"), _text(given, "key"), _text(given, "value")
    unit = text.nodes.get(node, {}).get("flowunit") or node
    return text.set(node, key, parse_value(text, str(unit), key, value, registry))


def _add(text: GraphText, given: Operation, _: Registry) -> GraphText:
    attributes = given.get("attributes", {})
    if not isinstance(attributes, Mapping):
        raise _wrong(given, "attributes", "texts by name")
    values = {key: str(attributes[key]) for key in attributes}
    name = _text(given, "name")
    return text.add_node(name, keep_unit(values, given["wanted"], name))


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
    if not isinstance(places, Mapping) or not all(map(is_place, places.values())):
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


def is_place(value: Any) -> bool:
    """Tells whether a value is ``[x, y]`` in the range of a picture."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(part, int | float) and abs(part) < _FARTHEST for part in value)
    )


def _wrong(given: Operation, key: str, expected: str) -> ConfigError:
    return ConfigError(f"{given['do']}: {key}: got {given.get(key)!r:.100}; expected {expected}")
