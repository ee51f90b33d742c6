"""Which cluster a command uses, and what each actor takes of its machine."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.parameters import FiniteRange, declare_repeated, read_size
from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from modelflow.config.placement import PlacementConfig


def _check(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Returns the address, which is of its form.

    Raises:
        click.UsageError: there is none, or it is none.
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
    help="The cluster; 'auto': the one of this machine. Without it RAY_ADDRESS says where it is. "
    "None is ever started.",
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
"""The options, by the names of their parameters."""

# What has an option of its own.
_OWN = {"cpu": "--cpus", "gpu": "--gpus", "memory": "--memory"}


def actor_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options."""
    options = (
        click.option(
            "--replicas",
            default="1",
            metavar="N|MIN..MAX",
            help="How many actors run a graph that places no node; between two numbers as many as "
            "the items that wait need. This and the next options do nothing for others.",
        ),
        click.option(
            "--cpus",
            type=FiniteRange(0),
            default=1.0,
            help="Processors that each actor takes of its machine.",
        ),
        click.option(
            "--gpus",
            type=FiniteRange(0),
            default=0.0,
            help="GPUs that each actor takes; 0.5: two share one.",
        ),
        click.option(
            "--memory",
            type=read_size,
            metavar="SIZE",
            help="Memory that each actor takes, as in 8GiB.",
        ),
        declare_repeated(
            "--resources",
            "resources",
            "NAME=AMOUNT",
            "What each actor takes of anything else that machines were started with.",
        ),
        declare_repeated(
            "--label", "labels", "NAME=VALUE", "A label that the machine of an actor must have."
        ),
        click.option(
            "--timeout",
            type=FiniteRange(0, min_open=True),
            metavar="SECONDS",
            help="An actor that has done no item that is waited for in so long counts as lost; "
            "without it an item may take as long as it takes.",
        ),
        click.option(
            "--in-flight",
            type=click.IntRange(1, 1024),
            default=4,
            help="Messages under way to one actor at once.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_replicas(text: str) -> tuple[int, int]:
    """Reads ``--replicas``: the least and the most of them.

    Raises:
        click.UsageError: it is of another form.
    """
    from modelflow.config.placement import replicas_of

    try:
        return replicas_of(text)
    except ConfigError as error:
        raise click.UsageError(f"--replicas: {error}") from error


def placement_of(given: Mapping[str, Any]) -> "PlacementConfig":
    """Returns what the options say.

    Args:
        given: The values of `ACTOR_OPTIONS`.

    Raises:
        click.UsageError: a value is of another form.
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
