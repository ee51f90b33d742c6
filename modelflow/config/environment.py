"""Settings of a graph in the environment: ``MODELFLOW_SET`` and ``MODELFLOW_ARG``.

``MODELFLOW_SET='infer.batch_size=16 crop.width=8'`` is ``--set`` for each of them, as
``MODELFLOW_ARG='size=48'`` is ``--arg``. Values with blanks are quoted as in a shell. Both win over
the file and an archive; the command line wins over both.
"""

import contextlib
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from modelflow.config.flow_config import FlowConfig
from modelflow.config.override import CallerText, bake, flattened, parse_assignment
from modelflow.config.secret import told_setting
from modelflow.errors import ConfigError, GraphError

__all__ = ["ARG", "SET", "Environment"]

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
                message = f"{name}: is not read any more; give {variable}='{example}=VALUE'"
                raise ConfigError(message)
        return cls(_assignments(environ, SET), _assignments(environ, ARG))

    def notes(self) -> Iterator[str]:
        """Gives ``MODELFLOW_SET: NODE.KEY=VALUE`` for each setting; of a secret the name alone."""
        for variable, settings in ((SET, self.overrides), (ARG, self.args)):
            for name, value in settings.items():
                yield f"{variable}: {told_setting(name, value)}"

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
            for node, key, value in flattened(self.overrides, nodes, SET)
            if node in known
        }
        return Environment(overrides, {name: self.args[name] for name in self.args if name in args})

    @contextlib.contextmanager
    def named(self, nodes: Collection[str]) -> Iterator[None]:
        """Has errors about what is set here name the variable, inside the block.

        Raises:
            ConfigError, GraphError: those of the block.
        """
        try:
            yield
        except (ConfigError, GraphError) as error:
            settings = flattened(self.overrides, nodes, SET)
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
        message = f"{variable}: {error}; expected {form}, several with blanks between, quoted"
        raise ConfigError(message) from error
    found = {}
    for word in words:
        try:
            name, value = parse_assignment(word)
        except ConfigError:
            name, value = "", ""
        if not name or (variable == SET and "." not in name):
            message = f"{variable}: got {word!r}; expected {form}, several with blanks between"
            raise ConfigError(message)
        found[name] = value
    return found
