"""The variables that ``modelflow deploy --env`` gives to what is deployed, checked before it is."""

import copy
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from modelflow.cli.option_variables import options_by_variable
from modelflow.cli.telling import tell
from modelflow.config.environment import Environment
from modelflow.config.secret import is_secret
from modelflow.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from modelflow.cli.graph_choice import GraphChoice

__all__ = ["as_deployed", "variables_of"]

# What everything that reads it takes for one line of UTF-8.
_VARIABLE = re.compile(
    r"([A-Za-z_]\w{0,250})=([^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]*)", re.ASCII
)
_SERVE = "MODELFLOW_SERVE_"
# What else depends on these: probes, ports, the seconds until a process is killed.
_OWN_OPTIONS = {
    "MODELFLOW_SERVE_HTTP": "--http-port",
    "MODELFLOW_SERVE_GRPC": "--grpc-port",
    "MODELFLOW_SERVE_DRAIN_TIMEOUT": "--drain-timeout",
    "MODELFLOW_SERVE_DRAIN_DELAY": "--drain-delay",
}


def variables_of(texts: Iterable[str]) -> dict[str, str]:
    """Returns the variables by their names; tells of secrets, which are written as they are.

    Args:
        texts: ``NAME=VALUE`` each.

    Raises:
        ConfigError: one is none; has an option of its own; is of the server, and it has no such
            option or would not take the value.
    """
    found: dict[str, str] = {}
    for text in texts:
        parts = _VARIABLE.fullmatch(text)
        if parts is None:
            message = f"--env: got {text!r}; expected NAME=VALUE on one line, in UTF-8"
            raise ConfigError(message)
        name, value = parts.groups()
        if name.startswith(_SERVE):  # those of keys name files
            _check(name, value)
        elif is_secret(name) and value:
            tell(
                "note",
                f"--env {name}: may be a secret, and stands in what was written for all to read; "
                "docs/how-to/deploy.md says where secrets go",
            )
        found[name] = value
    return found


def as_deployed(graph: "GraphChoice", variables: Mapping[str, str]) -> "GraphChoice":
    """Returns a graph as it is with the variables: what they set wins over the environment here."""
    deployed = copy.copy(graph)
    own = Environment.of(variables)
    deployed.environment = Environment({**graph.environment.variables, **own.variables})
    return deployed


def _check(name: str, value: str) -> None:
    """Raises what ``modelflow serve`` would say of a variable when it is started."""
    from modelflow.cli.serve import serve

    if option := _OWN_OPTIONS.get(name):
        message = f"--env {name}: has an option of its own, on which more depends; give {option}"
        raise ConfigError(message)
    known = options_by_variable(serve, _SERVE.rstrip("_"))
    if name not in known:
        near = did_you_mean(name, known)
        message = (
            f"--env {name}: modelflow serve has no such option{near}; expected the name of one "
            "(modelflow serve --help), as in MODELFLOW_SERVE_MAX_REQUESTS"
        )
        raise ConfigError(message)
    given = known[name]
    parts = given.type.split_envvar_value(value) if given.multiple else value
    if not parts:  # as if it were not there
        return
    try:
        given.type_cast_value(click.Context(serve), parts)
    except click.BadParameter as error:
        message = f"--env {name}: got {value!r}: {error.message}"
        raise ConfigError(message) from error
