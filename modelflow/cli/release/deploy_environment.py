"""Environment variables of ``modelflow deploy --env``, checked before the files are written."""

import copy
import itertools
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from modelflow.cli.options.environment import options_by_variable
from modelflow.cli.serve.on_option import PROCESSES, check_far
from modelflow.cli.terminal.messages import tell
from modelflow.config.override import Environment
from modelflow.config.variables import is_secret
from modelflow.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from modelflow.cli.options.graph_choice import GraphChoice
    from modelflow.graph.graph import Graph


# A value that every reader of the files takes for one line of UTF-8.
_VARIABLE = re.compile(
    r"([A-Za-z_]\w{0,250})=([^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]*)", re.ASCII
)
_SERVE = "MODELFLOW_SERVE_"
# Variables with an option of their own: probes, ports and the kill timeout depend on the value.
_OWN_OPTIONS = {
    "MODELFLOW_SERVE_HTTP": "--http-port",
    "MODELFLOW_SERVE_GRPC": "--grpc-port",
    "MODELFLOW_SERVE_DRAIN_TIMEOUT": "--drain-timeout",
    "MODELFLOW_SERVE_DRAIN_DELAY": "--drain-delay",
}
# Variables that make no sense for a deployed server, and the reason.
_OUT_OF_PLACE = {
    "MODELFLOW_SERVE_CONFIG": "the file is not part of the deployment; give each of its "
    "settings as a variable",
    "MODELFLOW_SERVE_DESCRIBE": "the server would print, end, and be started again for ever",
}
# Both are needed together.
_PAIR = ("MODELFLOW_SERVE_TLS_CERT", "MODELFLOW_SERVE_TLS_KEY")


def variables_of(texts: Iterable[str]) -> dict[str, str]:
    """Returns the variables by name, and prints a note for each that may be a secret.

    Args:
        texts: Texts of the form ``NAME=VALUE``.

    Raises:
        ConfigError: A text has another form, or has an option of its own. Or the variable is of the
            server, which has no such option or refuses the value.
    """
    found: dict[str, str] = {}
    for text in texts:
        parts = _VARIABLE.fullmatch(text)
        if parts is None:
            raise ConfigError(f"--env: got {text!r}; expected NAME=VALUE on one line, in UTF-8")
        name, value = parts.groups()
        if name.startswith(_SERVE):  # variables of the server name files with keys, not keys
            _check(name, value)
        elif value and any(map(is_secret, (name, *_settings(name, value)))):
            tell(
                "note",
                f"--env {name}: may be a secret, and is in the written files in clear text; "
                "docs/how-to/deploy.md shows where to put secrets",
            )
        found[name] = value
    _check_together(found)
    return found


def _settings(variable: str, value: str) -> list[str]:
    """Returns the names of the graph's settings and arguments that a variable sets."""
    found = Environment.of({variable: value})
    return [*found.overrides, *found.args]


def extras_of(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the extras of modelflow that the server's variables need."""
    on = variables.get("MODELFLOW_SERVE_ON", PROCESSES)
    otel = variables.get("MODELFLOW_SERVE_OTEL", "")
    is_traced = otel.lower() not in ("", "0", "false", "off", "no", "n", "f")
    needed = {
        "ray": on not in ("", PROCESSES),
        "otel": is_traced,
        "serve-fast": variables.get("MODELFLOW_SERVE_GRPC_SERVER") == "native",
    }
    return tuple(extra for extra, is_needed in needed.items() if is_needed)


def check_placing(variables: Mapping[str, str], graph: "Graph") -> None:
    """Checks that ``MODELFLOW_SERVE_ON`` fits the graph, and notes where placed nodes run.

    Raises:
        ConfigError: The variable is set, but the graph places no node.
    """
    placed = [name for name, node in graph.nodes.items() if node.settings.placement]
    on = variables.get("MODELFLOW_SERVE_ON")
    if on and not placed:
        raise ConfigError(
            f"--env MODELFLOW_SERVE_ON={on}: the graph places no node; expected one with "
            "placement=NAME, as declared in [placement.NAME]"
        )
    if placed and not on:
        tell(
            "note",
            f"{', '.join(placed)}: placed elsewhere by the graph, but the deployed server runs it "
            "itself. For processes next to the server give --env MODELFLOW_SERVE_ON=processes, "
            "for a Ray cluster its address",
        )


def _check_together(found: Mapping[str, str]) -> None:
    for one, other in itertools.permutations(_PAIR):
        if found.get(one) and not found.get(other):
            raise ConfigError(f"--env {one}: needs {other}; give both")
    workers, replicas = (int(found.get(f"{_SERVE}{name}") or 0) for name in ("WORKERS", "REPLICAS"))
    if workers and replicas > 1:
        raise ConfigError(
            f"--env {_SERVE}WORKERS={workers}, {_SERVE}REPLICAS={replicas}: give one of them"
        )
    try:
        check_far(found.get(f"{_SERVE}ON"), found.get(f"{_SERVE}SHARE"))
    except click.UsageError as error:
        raise ConfigError(f"--env {_SERVE}ON, {_SERVE}SHARE: {error.message}") from error


def apply_variables(graph: "GraphChoice", variables: Mapping[str, str]) -> "GraphChoice":
    """Returns the graph with the variables, which win over the environment of this process."""
    deployed = copy.copy(graph)
    own, here = Environment.of(variables), graph.environment
    deployed.environment = Environment(
        {**here.overrides, **own.overrides}, {**here.args, **own.args}
    )
    return deployed


def _check(name: str, value: str) -> None:
    """Raises the error that ``modelflow serve`` would report for a variable at its start."""
    from modelflow.cli.serve.command import serve

    if option := _OWN_OPTIONS.get(name):
        raise ConfigError(
            f"--env {name}: has an option of its own, and other files depend on it; give {option}"
        )
    if reason := _OUT_OF_PLACE.get(name):
        raise ConfigError(f"--env {name}: {reason}")
    known = options_by_variable(serve, _SERVE.rstrip("_"))
    if name not in known:
        near = did_you_mean(name, known)
        raise ConfigError(
            f"--env {name}: modelflow serve has no such option{near}; expected the name of one "
            "(modelflow serve --help), as in MODELFLOW_SERVE_MAX_REQUESTS"
        )
    given = known[name]
    parts = given.type.split_envvar_value(value) if given.multiple else value
    if not parts:  # an empty variable counts as unset
        return
    try:
        given.type_cast_value(click.Context(serve), parts)
    except click.BadParameter as error:
        raise ConfigError(f"--env {name}: got {value!r}: {error.message}") from error
