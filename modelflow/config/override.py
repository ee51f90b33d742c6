"""Values given outside of the file: ``--set``, ``--arg`` and the environment."""

import contextlib
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from modelflow.config.flow_config import ArgConfig, FlowConfig, NodeConfig
from modelflow.config.schema import SECTIONS
from modelflow.config.variables import format_setting
from modelflow.errors import ConfigError, Finding, GraphError, Location, did_you_mean

IN_FLIGHT = "max_in_flight"
"""The only key of an override that belongs to no node."""

_EVERY = "*"


class CallerText(str):
    """A value from the caller; relative paths are relative to the working folder."""

    __slots__ = ()


def parse_assignment(text: str) -> tuple[str, str]:
    """Parses ``KEY=VALUE``.

    Raises:
        ConfigError: The text has another form.
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
    """Returns ``config`` with overrides and arguments of an archive or the environment merged in.

    Args:
        config: The graph file.
        overrides: See `apply_overrides`.
        args: Values of arguments, which become their defaults.
        where: The sources of the overrides and of the arguments, for messages.
        mark: The type for text values.

    Raises:
        ConfigError: The file has no such node or argument.
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
        config: The graph file.
        overrides: ``{"node.key": value}`` or ``{"node": {"key": value}}``. The node ``*`` is every
            flow unit. ``device`` without ``deviceid`` removes the node's ``deviceid``. The key
            ``max_in_flight`` belongs to the whole graph.
        where: The source of the overrides, for messages.
        mark: The type for text values.

    Raises:
        ConfigError: Nodes are unknown; the error lists all.
    """
    bound = {key: value for key, value in overrides.items() if key == IN_FLIGHT}
    if bound:
        (option,) = (one for one in SECTIONS["flow"] if one.name == IN_FLIGHT)
        value = option.convert(bound[IN_FLIGHT], f"{where} {IN_FLIGHT}")
        config = replace(config, flow={**config.flow, IN_FLIGHT: value})
        overrides = {key: value for key, value in overrides.items() if key != IN_FLIGHT}
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
        ConfigError: An argument is not declared in the file, or a used argument has no value. The
            error lists all.
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
    """Returns overrides as (node, key, value); overrides of one node come before ``*``.

    Raises:
        ConfigError: An override has no key.
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
    # The overrides of one node win over those of all nodes.
    return sorted(found, key=lambda change: change[0] == _EVERY)


def split_target(target: str, names: Iterable[str]) -> tuple[str, str]:
    """Splits ``NODE.KEY`` at the longest matching node name; both parts may contain dots."""
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
    """The overrides and arguments that the environment sets in graphs.

    Attributes:
        overrides: As for ``--set``: ``{"node.key": value}``.
        args: Values of arguments.
    """

    overrides: Mapping[str, str] = field(default_factory=dict)
    args: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Environment":
        """Reads the two variables.

        Raises:
            ConfigError: A value has another form, or a variable has an old name with ``__``.
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
        """Yields ``MODELFLOW_SET: NODE.KEY=VALUE`` for each setting; a secret value is masked."""
        for variable, settings in ((SET, self.overrides), (ARG, self.args)):
            for name, value in settings.items():
                yield f"{variable}: {format_setting(name, value)}"

    def apply(self, config: FlowConfig) -> FlowConfig:
        """Returns a graph with all settings of the environment.

        Raises:
            ConfigError: The graph has no such nodes, which are all listed, or no such argument.
        """
        return bake(config, self.overrides, self.args, (SET, ARG), CallerText)

    def fitting(self, nodes: Collection[str], args: Collection[str]) -> "Environment":
        """Returns only the settings of the given nodes and arguments."""
        known = {*nodes, "*"}
        overrides = {
            f"{node}.{key}": value
            for node, key, value in flatten(self.overrides, nodes, SET)
            if node in known
        }
        return Environment(overrides, {name: self.args[name] for name in self.args if name in args})

    @contextlib.contextmanager
    def name_errors(self, nodes: Collection[str]) -> Iterator[None]:
        """Adds the variable's name to errors about its settings inside the block.

        Raises:
            ConfigError, GraphError: The errors of the block.
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
