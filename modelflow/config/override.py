"""Values given beside the file: ``--set``, ``--arg`` and the environment."""

import contextlib
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from modelflow.config.flow_config import ArgConfig, FlowConfig, NodeConfig
from modelflow.config.variables import format_setting
from modelflow.errors import ConfigError, Finding, GraphError, Location, did_you_mean

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
        raise ConfigError(f"got {text!r}; expected KEY=VALUE")
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
            raise ConfigError(f"{where[1]}: {_unknown_argument(name, config.args)}")
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
    for node, key, value in flatten(overrides, names, where):
        if node == _EVERY:
            for other in config.nodes:
                if other.attributes.get("type", "flowunit") == "flowunit":
                    changes[other.name].setdefault(key, _mark(value, mark))
        elif node in changes:
            changes[node][key] = _mark(value, mark)
        else:
            near = did_you_mean(node, names)
            message = f"{node}.{key}: there is no node {node!r}{near} (nodes: {', '.join(names)})"
            findings.append(Finding(Location(where), message, error=ConfigError))
    if findings:
        raise ConfigError(findings)
    return replace(config, nodes=tuple(_change(node, changes[node.name]) for node in config.nodes))


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
                    attributes[key] = _mark(given[name])
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


def flatten(
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
        node, key = split_target(target, names)
        if not key:
            raise ConfigError(f"{where} {target}: got no key; expected NODE.KEY=VALUE")
        found.append((node, key, value))
    # What is said of one node wins over what is said of all.
    return sorted(found, key=lambda change: change[0] == _EVERY)


def split_target(target: str, names: Iterable[str]) -> tuple[str, str]:
    """Returns node and key of ``NODE.KEY``: both may hold dots, the longest node name is meant."""
    fitting = [name for name in names if target.startswith(f"{name}.")]
    node = max(fitting, key=len) if fitting else target.partition(".")[0]
    return node, target[len(node) + 1 :]


def _change(node: NodeConfig, changes: Mapping[str, Any]) -> NodeConfig:
    if not changes:
        return node
    attributes = dict(node.attributes)
    if "device" in changes and "deviceid" not in changes:
        attributes.pop("deviceid", None)
    return replace(node, attributes={**attributes, **changes})


def _mark(value: Any, mark: type[str] = CallerText) -> Any:
    return mark(value) if isinstance(value, str) else value


SET, ARG = "MODELFLOW_SET", "MODELFLOW_ARG"
_FORMS = {SET: "NODE.KEY=VALUE", ARG: "NAME=VALUE"}


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment sets in graphs.

    Attributes:
        overrides: As ``--set`` gives them: ``{"node.key": value}``.
        args: Values of arguments.
    """

    overrides: Mapping[str, str] = field(default_factory=dict)
    args: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Environment":
        """Reads the two variables.

        Raises:
            ConfigError: one of them is not of its form, or is named as before there were two.
        """
        for name in sorted(environ):
            if name.startswith((f"{SET}__", f"{ARG}__")):
                variable, _, rest = name.partition("__")
                example = rest.replace("__", ".", 1) or "NODE.KEY"
                raise ConfigError(
                    f"{name}: is not read any more; give {variable}='{example}=VALUE'"
                )
        return cls(_assignments(environ, SET), _assignments(environ, ARG))

    def notes(self) -> Iterator[str]:
        """Gives ``MODELFLOW_SET: NODE.KEY=VALUE`` for each setting; of a secret the name alone."""
        for variable, settings in ((SET, self.overrides), (ARG, self.args)):
            for name, value in settings.items():
                yield f"{variable}: {format_setting(name, value)}"

    def apply(self, config: FlowConfig) -> FlowConfig:
        """Returns a graph with all that the environment sets.

        Raises:
            ConfigError: the graph has no such nodes, all of which are listed; or no such argument.
        """
        return bake(config, self.overrides, self.args, (SET, ARG), CallerText)

    def fitting(self, nodes: Collection[str], args: Collection[str]) -> "Environment":
        """Returns the settings of some nodes and arguments alone."""
        known = {*nodes, "*"}
        overrides = {
            f"{node}.{key}": value
            for node, key, value in flatten(self.overrides, nodes, SET)
            if node in known
        }
        return Environment(overrides, {name: self.args[name] for name in self.args if name in args})

    @contextlib.contextmanager
    def name_errors(self, nodes: Collection[str]) -> Iterator[None]:
        """Has errors about what is set here name the variable, inside the block.

        Raises:
            ConfigError, GraphError: those of the block.
        """
        try:
            yield
        except (ConfigError, GraphError) as error:
            settings = flatten(self.overrides, nodes, SET)
            findings = [
                replace(finding, message=f"{finding.message} (set by {SET})")
                if any(
                    node in (finding.node, "*")
                    and re.search(rf"(?<!\w){re.escape(key)}(?!\w)", finding.message)
                    for node, key, _ in settings
                )
                else finding
                for finding in error.findings
            ]
            if tuple(findings) == error.findings:
                raise
            raise type(error)(findings) from error


def _assignments(environ: Mapping[str, str], variable: str) -> dict[str, str]:
    form = _FORMS[variable]
    try:
        words = shlex.split(environ.get(variable, ""))
    except ValueError as error:
        raise ConfigError(
            f"{variable}: {error}; expected {form}, several with blanks between, quoted"
        ) from error
    found = {}
    for word in words:
        try:
            name, value = parse_assignment(word)
        except ConfigError:
            name, value = "", ""
        if not name or (variable == SET and "." not in name):
            raise ConfigError(
                f"{variable}: got {word!r}; expected {form}, several with blanks between"
            )
        found[name] = value
    return found
