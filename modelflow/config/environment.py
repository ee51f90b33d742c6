"""Settings of a graph in the environment: ``MODELFLOW_SET__NODE__KEY``, ``MODELFLOW_ARG__NAME``.

``MODELFLOW_SET__infer__batch_size=16`` is ``--set infer.batch_size=16``, and wins over the file and
an archive; the command line wins over both. A name of a variable has letters, digits and ``_`` in
most shells, so each other character of a node's name may be ``_`` as well.
"""

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from modelflow.config.flow_config import FlowConfig
from modelflow.config.override import CallerText, apply_overrides, substitute_args
from modelflow.config.secret import told_setting
from modelflow.errors import ConfigError, Finding, GraphError, Location

__all__ = ["Environment"]

_SET, _ARG, _BETWEEN, _EVERY = "MODELFLOW_SET__", "MODELFLOW_ARG__", "__", "*"


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment sets in graphs.

    Attributes:
        variables: The values by the variables' names.
    """

    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Environment":
        """Takes the variables that set something."""
        named = sorted(name for name in environ if name.startswith((_SET, _ARG)))
        return cls({name: environ[name] for name in named})

    def notes(self) -> Iterator[str]:
        """Gives ``NAME=VALUE`` of each variable; of a secret the name alone, on one line."""
        for name, value in self.variables.items():
            yield told_setting(name, value)

    def apply(self, config: FlowConfig) -> FlowConfig:
        """Returns a graph with all that the environment sets.

        Raises:
            ConfigError: a variable names a node or an argument that the graph has not; all of them
                are listed.
        """
        findings: list[Finding] = []
        for name in self.variables:
            try:
                config = self._applied(config, name)
            except ConfigError as error:
                told = [replace(one, location=Location(name)) for one in error.findings]
                findings += told or [Finding(Location(name), str(error), error=ConfigError)]
        if findings:
            raise ConfigError(findings)
        return config

    def fitting(self, nodes: Collection[str], args: Collection[str]) -> "Environment":
        """Returns what names one of some nodes and arguments, and leaves the rest to others.

        Raises:
            ConfigError: a variable may mean two of them.
        """
        return Environment(
            {
                name: value
                for name, value in self.variables.items()
                if _fits(name, _target(name, nodes, args)[0], nodes, args)
            }
        )

    def overrides(self, nodes: Collection[str]) -> dict[str, str]:
        """Returns what is set of some nodes, as ``{"node.key": value}``.

        Raises:
            ConfigError: a variable may mean two of them.
        """
        targets = {
            name: _target(name, nodes, ()) for name in self.variables if name.startswith(_SET)
        }
        return {f"{node}.{key}": self.variables[name] for name, (node, key) in targets.items()}

    def args(self, names: Collection[str]) -> dict[str, str]:
        """Returns what is given to some arguments."""
        return {
            _target(name, (), names)[0]: value
            for name, value in self.variables.items()
            if name.startswith(_ARG)
        }

    @contextlib.contextmanager
    def named(self, nodes: Collection[str]) -> Iterator[None]:
        """Has errors about what a variable sets name that variable, inside the block.

        Raises:
            ConfigError, GraphError: those of the block.
        """
        try:
            yield
        except (ConfigError, GraphError) as error:
            told = [replace(one, message=self._told(one, nodes)) for one in error.findings]
            if tuple(told) == error.findings:
                raise
            raise type(error)(told) from error

    def _applied(self, config: FlowConfig, name: str) -> FlowConfig:
        nodes, value = [node.name for node in config.nodes], self.variables[name]
        target, key = _target(name, nodes, config.args)
        if name.startswith(_SET):
            return apply_overrides(config, {target: {key: value}})
        if target not in config.args:
            substitute_args(replace(config, nodes=()), {target: value})  # it says what is wrong
        given = replace(config.args[target], default=CallerText(value))
        return replace(config, args={**config.args, target: given})

    def _told(self, finding: Finding, nodes: Collection[str]) -> str:
        for name in self.variables:
            if name.startswith(_SET):
                node, key = _target(name, nodes, ())
                if node in (finding.node, _EVERY) and re.search(
                    rf"(?<!\w){re.escape(key)}(?!\w)", finding.message
                ):
                    return f"{finding.message} (set by {name})"
        return finding.message


def _target(name: str, nodes: Collection[str], args: Collection[str]) -> tuple[str, str]:
    """Returns the node and key, or the argument and ``""``, that a variable names.

    A name that is not there is returned as it is written.
    """
    if name.startswith(_ARG):
        rest = name.removeprefix(_ARG)
        return _meant(name, [arg for arg in args if rest in (arg, _spelled(arg))], rest) or rest, ""
    rest = name.removeprefix(_SET)
    fitting = [
        (len(spelled), node)
        for node in (*nodes, _EVERY)
        for spelled in {node, _spelled(node)}
        if rest.startswith(spelled + _BETWEEN)
    ]
    longest = max((length for length, _ in fitting), default=0)
    found = _meant(name, [node for length, node in fitting if length == longest], rest[:longest])
    if found:
        key = rest[longest + len(_BETWEEN) :]
    else:
        found, _, key = rest.partition(_BETWEEN)
    if not key or not found:
        message = f"{name}: got no {'key' if found else 'node'}; expected {_SET}NODE{_BETWEEN}KEY"
        raise ConfigError(message)
    return found, key


def _meant(name: str, found: list[str], exact: str) -> str:
    """Returns which of several names is meant: the one that is written so."""
    if len(found) > 1 and exact not in found:
        both = " and ".join(map(repr, sorted(found)[:2]))
        message = f"{name}: may mean {both}; say which on the command line, with --set or --arg"
        raise ConfigError(message)
    return exact if exact in found else "".join(found[:1])


def _spelled(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _fits(name: str, target: str, nodes: Collection[str], args: Collection[str]) -> bool:
    return target in ((*nodes, _EVERY) if name.startswith(_SET) else args)
