"""What a page may ask to be done to a text, each as edits of `GraphText`. Pure."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from modelflow.config.edit import GraphText
from modelflow.config.flow_config import PortRef
from modelflow.errors import ConfigError, did_you_mean
from modelflow.registry.registry import Registry
from modelflow.studio.edit.clipping import paste
from modelflow.studio.edit.value import typed

__all__ = ["MOST_OPERATIONS", "edited"]

MOST_OPERATIONS = 1000
_FARTHEST = 1e6
Operation = Mapping[str, Any]


def edited(text: GraphText, operations: Sequence[Operation], registry: Registry) -> GraphText:
    """Returns a text after operations, each of which is ``{"do": NAME, ...}``.

    ``set`` (node, key, value) · ``unset`` (node, key) · ``add`` (name, attributes) · ``remove``
    (nodes) · ``rename`` (node, name) · ``connect``, ``disconnect`` (source, target: ``{node,
    port}``) · ``move`` (places: node -> ``[x, y]``) · ``tidy`` · ``paste`` (text).

    Args:
        text: The text.
        operations: What is to be done, in order.
        registry: Says of what types the options of units are.

    Raises:
        ConfigError: one of them cannot be done; none is.
    """
    if len(operations) > MOST_OPERATIONS:
        message = f"got {len(operations)} operations; expected at most {MOST_OPERATIONS}"
        raise ConfigError(message)
    for operation in operations:
        name = operation.get("do")
        do = _KNOWN.get(name) if isinstance(name, str) else None
        if do is None:
            near = did_you_mean(str(name), _KNOWN)
            message = f"operation {name!r}: expected one of {', '.join(_KNOWN)}{near}"
            raise ConfigError(message)
        text = do(text, operation, registry)
    return text


def _set(text: GraphText, given: Operation, registry: Registry) -> GraphText:
    node, key, value = _text(given, "node"), _text(given, "key"), _text(given, "value")
    unit = text.nodes.get(node, {}).get("flowunit") or node
    return text.set(node, key, typed(text, str(unit), key, value, registry))


def _unset(text: GraphText, given: Operation, _: Registry) -> GraphText:
    return text.unset(_text(given, "node"), _text(given, "key"))


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
        if node not in text.nodes:
            for ends in text.edges:  # an edge alone names it
                if node in (ends[0].node, ends[1].node) and ends in text.edges:
                    text = text.disconnect(*ends)
            continue
        text = text.remove_node(node)
    return text


def _rename(text: GraphText, given: Operation, _: Registry) -> GraphText:
    old, new = _text(given, "node"), _text(given, "name")
    attributes = text.nodes.get(old, {})
    is_unit = attributes.get("type", "flowunit") == "flowunit"
    if is_unit and "flowunit" not in attributes:  # its name says which unit it runs
        text = text.set(old, "flowunit", old)
    return text.rename(old, new)


def _connect(text: GraphText, given: Operation, _: Registry) -> GraphText:
    return text.connect(_end(given, "source"), _end(given, "target"))


def _disconnect(text: GraphText, given: Operation, _: Registry) -> GraphText:
    return text.disconnect(_end(given, "source"), _end(given, "target"))


def _move(text: GraphText, given: Operation, _: Registry) -> GraphText:
    places = given.get("places")
    if not isinstance(places, Mapping):
        raise _wrong(given, "places", "[x, y] by node")
    if not all(map(_is_place, places.values())):
        raise _wrong(given, "places", "[x, y] by node")
    return text.move_all({node: (float(x), float(y)) for node, (x, y) in places.items()})


def _tidy(text: GraphText, _: Operation, __: Registry) -> GraphText:
    return text.move_all({node: None for node, given in text.nodes.items() if "pos" in given})


def _paste(text: GraphText, given: Operation, registry: Registry) -> GraphText:
    return paste(text, _text(given, "text"), registry)


_KNOWN: Mapping[str, Callable[[GraphText, Operation, Registry], GraphText]] = MappingProxyType(
    {
        "set": _set,
        "unset": _unset,
        "add": _add,
        "remove": _remove,
        "rename": _rename,
        "connect": _connect,
        "disconnect": _disconnect,
        "move": _move,
        "tidy": _tidy,
        "paste": _paste,
    }
)


def _text(given: Operation, key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str):
        raise _wrong(given, key, "a text")
    return value


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
