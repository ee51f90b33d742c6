"""Values given beside the file: ``--set NODE.KEY=VALUE``, ``--arg NAME=VALUE``."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from modelflow.config.flow_config import ArgConfig, FlowConfig, NodeConfig
from modelflow.errors import ConfigError, Finding, Location, did_you_mean

__all__ = [
    "CallerText",
    "apply_overrides",
    "bake",
    "flattened",
    "parse_assignment",
    "substitute_args",
]

_EVERY = "*"


class CallerText(str):
    """A value given by the caller: a relative path in it is relative to the working folder."""

    __slots__ = ()


def parse_assignment(text: str) -> tuple[str, str]:
    """Reads ``KEY=VALUE``.

    Raises:
        ConfigError: it is not of that form.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        message = f"got {text!r}; expected KEY=VALUE"
        raise ConfigError(message)
    return key.strip(), value


def bake(
    config: FlowConfig,
    overrides: Mapping[str, str],
    args: Mapping[str, str],
    where: tuple[str, str],
    mark: type[str] = str,
) -> FlowConfig:
    """Returns ``config`` with settings of an archive or the environment as its own.

    Args:
        config: What the file says.
        overrides: See `apply_overrides`.
        args: Values of arguments, which become their defaults.
        where: Where overrides and arguments were given, for messages.
        mark: What texts among them are.

    Raises:
        ConfigError: it names a node or an argument that the file has not.
    """
    for name in args:
        if name not in config.args:
            message = f"{where[1]}: {_unknown_argument(name, config.args)}"
            raise ConfigError(message)
    given = {name: replace(config.args[name], default=mark(value)) for name, value in args.items()}
    changed = apply_overrides(config, overrides, where[0], mark)
    return replace(changed, args={**config.args, **given})


def apply_overrides(
    config: FlowConfig,
    overrides: Mapping[str, Any],
    where: str = "--set",
    mark: type[str] = CallerText,
) -> FlowConfig:
    """Returns ``config`` with attributes of nodes replaced.

    Args:
        config: What the file says.
        overrides: ``{"node.key": value}`` or ``{"node": {"key": value}}``; the node ``*`` is every
            flow unit. ``device`` without ``deviceid`` drops the node's ``deviceid``.
        where: Where they were given, for messages.
        mark: What texts among them are.

    Raises:
        ConfigError: an unknown node; all of them are listed.
    """
    names = [node.name for node in config.nodes]
    changes: dict[str, dict[str, Any]] = {name: {} for name in names}
    findings = []
    for node, key, value in flattened(overrides, names, where):
        if node == _EVERY:
            for other in config.nodes:
                if other.attributes.get("type", "flowunit") == "flowunit":
                    changes[other.name].setdefault(key, _marked(value, mark))
        elif node in changes:
            changes[node][key] = _marked(value, mark)
        else:
            near = did_you_mean(node, names)
            message = f"{node}.{key}: there is no node {node!r}{near} (nodes: {', '.join(names)})"
            findings.append(Finding(Location(where), message, error=ConfigError))
    if findings:
        raise ConfigError(findings)
    return replace(config, nodes=tuple(_changed(node, changes[node.name]) for node in config.nodes))


def substitute_args(config: FlowConfig, given: Mapping[str, Any]) -> FlowConfig:
    """Returns ``config`` with every attribute ``"$NAME"`` replaced by the argument's value.

    Raises:
        ConfigError: an argument that the file does not declare, or ``$NAME`` of one that has no
            value; all of them are listed.
    """
    findings = [
        Finding(
            Location("--arg"),
            _unknown_argument(name, config.args),
            error=ConfigError,
        )
        for name in given
        if name not in config.args
    ]
    nodes = []
    for node in config.nodes:
        attributes = {}
        for key, value in node.attributes.items():
            attributes[key] = value
            if isinstance(value, str) and value.startswith("$") and value[1:].isidentifier():
                name = value[1:]
                if name in given:
                    attributes[key] = _marked(given[name])
                elif name in config.args and config.args[name].default is not None:
                    attributes[key] = config.args[name].default
                else:
                    problem = _no_value(key, name, config.args)
                    findings.append(Finding(node.location, problem, node.name, ConfigError))
        nodes.append(replace(node, attributes=attributes))
    if findings:
        raise ConfigError(findings)
    return replace(config, nodes=tuple(nodes))


def _unknown_argument(name: str, args: Mapping[str, ArgConfig]) -> str:
    near = did_you_mean(name, args)
    return f"there is no argument {name!r}{near} (arguments: {', '.join(args) or 'none'})"


def _no_value(key: str, name: str, args: Mapping[str, ArgConfig]) -> str:
    if name in args:
        return f"{key}=${name}: the argument has no default; give one with --arg {name}=VALUE"
    near = did_you_mean(name, args)
    return f"{key}=${name}: there is no argument {name!r}{near}; declare it in [args.{name}]"


def flattened(
    overrides: Mapping[str, Any], names: Collection[str], where: str = "--set"
) -> list[tuple[str, str, Any]]:
    """Returns overrides as (node, key, value); what is said of one node comes before ``*``.

    Raises:
        ConfigError: one of them has no key.
    """
    found = []
    for target, value in overrides.items():
        if isinstance(value, Mapping):
            found += [(target, key, item) for key, item in value.items()]
            continue
        # Node names and keys may hold dots: the longest node name that fits is meant.
        fitting = [name for name in names if target.startswith(f"{name}.")]
        node = max(fitting, key=len) if fitting else target.partition(".")[0]
        key = target[len(node) + 1 :]
        if not key:
            message = f"{where} {target}: got no key; expected NODE.KEY=VALUE"
            raise ConfigError(message)
        found.append((node, key, value))
    # What is said of one node wins over what is said of all.
    return sorted(found, key=lambda change: change[0] == _EVERY)


def _changed(node: NodeConfig, changes: Mapping[str, Any]) -> NodeConfig:
    if not changes:
        return node
    attributes = dict(node.attributes)
    if "device" in changes and "deviceid" not in changes:
        attributes.pop("deviceid", None)
    return replace(node, attributes={**attributes, **changes})


def _marked(value: Any, mark: type[str] = CallerText) -> Any:
    return mark(value) if isinstance(value, str) else value
