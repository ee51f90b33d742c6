"""Options for the cluster of a command, and for the resources of each actor."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.parameters import FiniteRange, declare_repeated, read_size
from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from modelflow.config.placement import PlacementConfig


def _check(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Returns the address after a check of its form.

    Raises:
        click.UsageError: There is no address, or it has another form.
    """
    if context.resilient_parsing:
        return value
    from modelflow.remote.ray.cluster import check_address

    try:
        return check_address(value)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


address_option = click.option(
    "--address",
    envvar="RAY_ADDRESS",
    metavar="HOST:PORT",
    callback=_check,
    help="The cluster; 'auto': the cluster of this machine. Default: RAY_ADDRESS. "
    "modelflow never starts a cluster.",
)
"""Adds ``--address`` to a command."""


ACTOR_OPTIONS = {
    "replicas": "--replicas",
    "cpus": "--cpus",
    "gpus": "--gpus",
    "memory": "--memory",
    "resources": "--resources",
    "labels": "--label",
    "timeout": "--timeout",
    "in_flight": "--in-flight",
}
"""Parameter name -> option."""

# Resource -> the option of its own that sets it.
_OWN = {"cpu": "--cpus", "gpu": "--gpus", "memory": "--memory"}


def actor_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of `ACTOR_OPTIONS` to a command."""
    options = (
        click.option(
            "--replicas",
            default="1",
            metavar="N|MIN..MAX",
            help="Number of actors for a graph that places no node. With MIN..MAX it follows the "
            "number of waiting items. For other graphs the following options have no effect.",
        ),
        click.option(
            "--cpus",
            type=FiniteRange(0),
            default=1.0,
            help="CPUs of its machine that each actor reserves.",
        ),
        click.option(
            "--gpus",
            type=FiniteRange(0),
            default=0.0,
            help="GPUs that each actor reserves; 0.5: two actors share a GPU.",
        ),
        click.option(
            "--memory",
            type=read_size,
            metavar="SIZE",
            help="Memory that each actor reserves, as in 8GiB.",
        ),
        declare_repeated(
            "--resources",
            "resources",
            "NAME=AMOUNT",
            "Another resource of its machine that each actor reserves.",
        ),
        declare_repeated(
            "--label", "labels", "NAME=VALUE", "A label that the machine of an actor must have."
        ),
        click.option(
            "--timeout",
            type=FiniteRange(0, min_open=True),
            metavar="SECONDS",
            help="Time after which an actor without a finished item counts as lost, if items wait. "
            "Default: no limit for an item.",
        ),
        click.option(
            "--in-flight",
            type=click.IntRange(1, 1024),
            default=4,
            help="Messages in flight to each actor.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_replicas(text: str) -> tuple[int, int]:
    """Parses ``--replicas``: returns the minimum and the maximum.

    Raises:
        click.UsageError: The text has another form.
    """
    from modelflow.config.placement import replicas_of

    try:
        return replicas_of(text)
    except ConfigError as error:
        raise click.UsageError(f"--replicas: {error}") from error


def placement_of(given: Mapping[str, Any]) -> "PlacementConfig":
    """Returns the placement that the options describe.

    Args:
        given: The values of `ACTOR_OPTIONS`.

    Raises:
        click.UsageError: A value has another form.
    """
    from modelflow.config.placement import UNPLACED, PlacementConfig

    replicas = read_replicas(given["replicas"])
    resources = {"CPU": given["cpus"], "GPU": given["gpus"], "memory": given["memory"] or 0.0}
    pairs = _pairs("--resources", given["resources"])
    resources |= {name: _amount(name, text) for name, text in pairs}
    return PlacementConfig(
        UNPLACED,
        replicas,
        {name: amount for name, amount in resources.items() if amount},
        dict(_pairs("--label", given["labels"])),
        in_flight=given["in_flight"],
        timeout=given["timeout"],
    )


def _pairs(option: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    seen = set()
    for text in texts:
        name, mark, value = text.partition("=")
        if not (name and mark and value):
            raise click.UsageError(f"{option}: got {text!r}; expected NAME=VALUE")
        if name in seen:
            raise click.UsageError(f"{option}: {name!r} is given twice")
        seen.add(name)
        yield name, value


def _amount(name: str, text: str) -> float:
    if (own := _OWN.get(name.lower().rstrip("s"))) is not None:
        raise click.UsageError(f"--resources: got {name}={text}; expected {own} {text}")
    try:
        return FiniteRange(0).convert(text, None, None)
    except click.BadParameter as error:
        raise click.UsageError(f"--resources: {name}: {error.message}") from error
