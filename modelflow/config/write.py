"""Writes a `FlowConfig` in any of the formats that can be read."""

import json
from dataclasses import replace
from typing import Any

from modelflow.config.dot.tokens import dot_text, dot_word
from modelflow.config.flow_config import (
    FlowConfig,
    NodeConfig,
    PortRef,
    ServePort,
    format_port,
)
from modelflow.config.placement import PlacementConfig
from modelflow.config.schema import GRAPH_ATTRIBUTES, PLACEMENT_KEYS, SECTIONS
from modelflow.config.variables import change_texts, escape, unexpand
from modelflow.errors import ConfigError, did_you_mean

FORMATS = ("toml", "graphviz", "yaml", "json", "dot")


def write_config(config: FlowConfig, format: str) -> str:  # noqa: A002 - the API's name
    """Returns ``config`` as text, with the environment's variables (``${NAME}``) restored.

    Args:
        config: The graph; only values that differ from the defaults are written.
        format: ``toml`` (native tables), ``graphviz`` (TOML with embedded DOT), ``yaml`` or
            ``json``. ``dot`` contains only the graph.

    Raises:
        ConfigError: The format is unknown, or DOT cannot represent a text.
    """
    config = _restore_variables(config)
    if format == "dot":
        return _dot(config)
    if format in ("toml", "graphviz"):
        return _toml(config, is_embedded=format == "graphviz")
    if format == "yaml":
        import yaml

        return yaml.safe_dump(_document(config), sort_keys=False, allow_unicode=True)
    if format == "json":
        return json.dumps(_document(config), indent=2, ensure_ascii=False) + "\n"
    message = f"format: got {format!r}; expected one of {', '.join(FORMATS)}"
    raise ConfigError(message + did_you_mean(format, FORMATS))


def _restore_variables(config: FlowConfig) -> FlowConfig:
    """Restores variables in values of attributes and sections, because they may be secrets."""
    used = config.variables
    if not used:
        return config
    sections = {name: unexpand(getattr(config, name), used) for name in SECTIONS}
    nodes = tuple(
        replace(node, attributes=unexpand(node.attributes, used)) for node in config.nodes
    )
    args = {
        name: replace(arg, default=unexpand(arg.default, used), desc=unexpand(arg.desc, used))
        for name, arg in config.args.items()
    }
    return replace(config, nodes=nodes, args=args, **sections)


def _sections(config: FlowConfig) -> dict[str, dict[str, Any]]:
    """Returns the sections with the values that differ from the defaults."""
    found: dict[str, dict[str, Any]] = {}
    for name, options in SECTIONS.items():
        given = getattr(config, name)
        defaults = {option.name: option.default for option in options}
        changed = {
            key: _plain(value)
            for key, value in given.items()
            if key not in _GRAPH_TEXT and _plain(value) != _plain(defaults.get(key))
        }
        if changed:
            found[name] = changed
    if config.args:
        found["args"] = {
            name: {
                key: _plain(value)
                for key, value in (("default", arg.default), ("desc", arg.desc))
                if value not in (None, "")
            }
            for name, arg in config.args.items()
        }
    serve: dict[str, Any] = {"isolate": True} if config.serve.is_isolated else {}
    serve |= {"parameters": [*config.serve.parameters]} if config.serve.parameters else {}
    serve |= {"cache": f"{config.serve.cache}B"} if config.serve.cache else {}
    serve |= {
        side: {name: _serve_port(port) for name, port in ports.items()}
        for side, ports in (("input", config.serve.input), ("output", config.serve.output))
        if ports
    }
    placements = {name: _placement(placed) for name, placed in config.placements.items()}
    found |= {"placement": placements} if placements else {}
    return found | ({"serve": serve} if serve else {})


def _placement(placed: PlacementConfig) -> dict[str, Any]:
    least, most = placed.replicas
    keys = {
        "replicas": str(least) if least == most else f"{least}..{most}",
        "resources": dict(placed.resources),
        "labels": dict(placed.labels),
        "strategy": placed.strategy,
        "in_flight": placed.in_flight,
        "timeout_ms": None if placed.timeout is None else placed.timeout * 1e3,
        "start_timeout_ms": placed.start_timeout * 1e3,
        "retries": placed.retries,
    }
    defaults = {option.name: option.default for option in PLACEMENT_KEYS}
    return {key: _plain(value) for key, value in keys.items() if value != defaults[key]}


def _serve_port(port: ServePort) -> dict[str, Any]:
    found: dict[str, Any] = {"datatype": port.datatype} if port.datatype else {}
    if port.shape is not None:
        found["shape"] = [-1 if extent is None else extent for extent in port.shape]
    if not port.batched:
        found["batched"] = False
    if port.format:
        found["format"] = port.format
    return found | ({"labels": _plain(port.labels)} if port.labels else {})


_GRAPH_TEXT = ("format", "graphconf", "graphconffilepath")


def _document(config: FlowConfig) -> dict[str, Any]:
    return {
        **_sections(config),
        "node": [_node(node) for node in config.nodes],
        "edge": [
            {"from": _native_end(edge.source), "to": _native_end(edge.target)}
            for edge in config.edges
        ],
    }


def _native_end(end: PortRef) -> str:
    return format_port(PortRef(escape(end.node), end.port and escape(end.port)))


def _node(node: NodeConfig) -> dict[str, Any]:
    attributes = {key: _plain(value) for key, value in node.attributes.items()}
    clashing = {key: attributes.pop(key) for key in ("name", "config") if key in attributes}
    return {"name": escape(node.name), **attributes, **({"config": clashing} if clashing else {})}


def _plain(value: Any) -> Any:
    """Returns the value in a type that every format can represent."""
    return change_texts(value, escape)


def _toml(config: FlowConfig, *, is_embedded: bool) -> str:
    import tomlkit

    if not is_embedded:
        nodes = [
            {key: value for key, value in node.items() if value is not None}
            for node in map(_node, config.nodes)
        ]
        document = _document(config) | {"node": nodes}
        return tomlkit.dumps({name: value for name, value in document.items() if value})
    sections = _sections(config)
    text = tomlkit.string(_dot(config, with_attributes=False), multiline=True)
    sections.setdefault("graph", {}).update(format="graphviz", graphconf=text)
    return tomlkit.dumps(sections)


def _dot(config: FlowConfig, *, with_attributes: bool = True) -> str:
    lines = [f"digraph {_id(config.flow.get('name') or 'flow')} {{"]
    if with_attributes:
        lines += [
            f"    {key}={_id(config.graph[key])}"
            for key in GRAPH_ATTRIBUTES
            if key != "need_check_output" and config.graph.get(key) is not None
        ]
    for node in config.nodes:
        attributes = ", ".join(
            f"{_id(key)}={_id(value)}"
            for key, value in node.attributes.items()
            if value is not None and (not with_attributes or key != "placement")
        )
        lines.append(f"    {_id(node.name)}" + (f" [{attributes}]" if attributes else ""))
    lines += [f"    {_end(edge.source)} -> {_end(edge.target)}" for edge in config.edges]
    return "\n".join([*lines, "}", ""])


def _end(end: PortRef) -> str:
    return _id(end.node) if end.port is None else f"{_id(end.node)}:{_id(end.port)}"


def _id(value: Any) -> str:
    parts = value if isinstance(value, tuple | list) else (value,)
    return dot_word(",".join(escape(dot_text(part)) for part in parts))
