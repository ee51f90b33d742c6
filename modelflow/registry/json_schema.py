"""JSON Schemas of graph files and unit files, with which editors complete, explain and check.

The schemas contain names, types, bounds and meanings of the keys. For native nodes they also
contain the options of the usable units. A graph in DOT is only a text to them. Errors that concern
the whole graph (ports, edges, files) are found only by ``modelflow check``.
"""

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Union

from modelflow.config.schema import (
    ARG_KEYS,
    IGNORED_ATTRIBUTES,
    NODE_ATTRIBUTES,
    PLACEMENT_KEYS,
    SECTIONS,
    SERVE_KEYS,
    SERVE_OPTIONS,
    SERVING_ALIASES,
)
from modelflow.registry.folder_schema import BASE_KEYS, PORT_KEYS
from modelflow.unit.option import REQUIRED, Option
from modelflow.unit.spec import FlowUnitSpec

Schema = dict[str, Any]

_DRAFT = "http://json-schema.org/draft-07/schema#"  # the newest that TOML editors support
# A text that is replaced by a value when the graph is read: "${VARIABLE}", "$argument".
_VARIABLE = r"\$"
_SCALARS: Mapping[Any, Schema] = {
    int: {"type": ["integer", "string"], "pattern": rf"^\s*[+-]?\d+\s*$|{_VARIABLE}"},
    float: {"type": ["number", "string"], "pattern": rf"\d|inf|nan|{_VARIABLE}"},
    bool: {
        "anyOf": [
            {"type": "boolean"},
            {"enum": [0, 1]},
            {
                "type": "string",
                "pattern": rf"^\s*([Tt]rue|[Ff]alse|1|0|[Yy]es|[Nn]o|[Oo]n|[Oo]ff)\s*$|{_VARIABLE}",
            },
        ]
    },
    str: {"type": ["string", "number", "boolean"]},
}


def graph_schema(units: Iterable[FlowUnitSpec] = ()) -> Schema:
    """Returns the JSON Schema of a graph file: TOML, YAML or JSON.

    Args:
        units: The units whose options nodes may have.
    """
    properties = {name: _table(options) for name, options in SECTIONS.items()}
    properties["graph"]["properties"]["graphconf"]["contentMediaType"] = "text/vnd.graphviz"
    properties["args"] = {"type": "object", "additionalProperties": {"anyOf": [_ARG, _VALUE]}}
    properties["serve"] = _table(SERVE_OPTIONS)
    properties["serve"]["properties"] |= {
        side: {"type": "object", "additionalProperties": _table(keys)}
        for side, keys in SERVE_KEYS.items()
    }
    properties["placement"] = {"type": "object", "additionalProperties": _table(PLACEMENT_KEYS)}
    properties["node"] = {"type": "array", "items": _node(list(units))}
    properties["edge"] = {"type": "array", "items": _EDGE}
    return {
        "$schema": _DRAFT,
        "title": "A graph of modelflow",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def unit_schema() -> Schema:
    """Returns the JSON Schema of the TOML that describes a unit in a folder."""
    ports = {
        side: {
            "type": "object",
            "patternProperties": {rf"^{side}[1-9]\d*$": _table(PORT_KEYS)},
            "additionalProperties": False,
        }
        for side in ("input", "output")
    }
    return {
        "$schema": _DRAFT,
        "title": "A flow unit of modelflow",
        "type": "object",
        "required": ["base"],
        "additionalProperties": False,
        "properties": {"base": _table(BASE_KEYS), "config": {"type": "object"}, **ports},
    }


def _table(options: Sequence[Option]) -> Schema:
    found: Schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": _properties(options),
    }
    required = [option.name for option in options if option.is_required]
    return {**found, "required": required} if required else found


def _properties(options: Sequence[Option]) -> Schema:
    return {name: _value(option) for option in options for name in (option.name, *option.aliases)}


def _value(option: Option) -> Schema:
    found = dict(_type(option.type))
    bounds = {"minimum": option.minimum, "maximum": option.maximum}
    bounds = {key: value for key, value in bounds.items() if value is not None}
    if "items" in found:
        found["items"] = {**found["items"], **bounds}
    else:
        found |= bounds
    if option.help:
        found["description"] = option.help
    if option.default is not REQUIRED and isinstance(option.default, str | int | float | list):
        found["default"] = option.default
    return found


def _type(wanted: Any) -> Schema:
    origin, args = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (Union, types.UnionType):
        given = [arg for arg in args if arg is not type(None)]
        return {"anyOf": [*map(_type, given), *([_NONE] if len(given) < len(args) else [])]}
    if origin is Literal:
        # Other texts are allowed only if they contain a variable.
        return {"anyOf": [{"enum": list(args)}, {"type": "string", "pattern": _VARIABLE}]}
    if origin in (tuple, list, Sequence):
        return {"type": ["array", "string", "number"], "items": _type(args[0] if args else str)}
    return _SCALARS.get(wanted, {})


_NONE: Schema = {"enum": [None, "", "none"]}


_VALUE: Schema = {"type": ["string", "number", "boolean", "array"]}
_ARG = _table(ARG_KEYS)
_END: Schema = {"type": "string", "description": "node, or node:port"}
_EDGE: Schema = {
    "type": "object",
    "additionalProperties": False,
    "required": ["from", "to"],
    "properties": {"from": _END, "to": _END},
}


def _node(units: list[FlowUnitSpec]) -> Schema:
    """Returns the schema of a native node: common keys, and the options of the named unit."""
    names = sorted(name for unit in units for name in (unit.name, *unit.aliases))
    shared = _properties(NODE_ATTRIBUTES)
    shared["flowunit"] = {**shared["flowunit"], "examples": names}
    shared["name"] = {"type": "string", "minLength": 1, "description": "The node's name."}
    shared["config"] = {"type": "object", "description": "The unit's options."}
    return {
        "type": "object",
        "required": ["name"],
        "properties": shared,
        "allOf": [_of_unit(unit, list(shared)) for unit in units if not unit.accepts_any_option],
    }


def _of_unit(unit: FlowUnitSpec, shared: list[str]) -> Schema:
    options = _properties(unit.option_list)
    names = [unit.name, *unit.aliases]
    known = dict.fromkeys((*shared, *IGNORED_ATTRIBUTES, *SERVING_ALIASES), True)
    return {
        "if": {"required": ["flowunit"], "properties": {"flowunit": {"enum": names}}},
        "then": {
            "properties": {
                **known,
                **options,
                "config": {"properties": options, "additionalProperties": False},
            },
            "patternProperties": {"^queue_size_": True},
            "additionalProperties": False,
        },
    }
