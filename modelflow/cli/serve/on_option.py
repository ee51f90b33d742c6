"""``modelflow serve --on WHERE``: where the nodes run that served graphs place."""

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from modelflow.errors import did_you_mean

if TYPE_CHECKING:
    from modelflow.serve.repository.config import ServeConfig


PROCESSES = "processes"
"""What ``--on`` says of processes of this machine."""

_WORDS = (PROCESSES, "auto")

on_option = click.option(
    "--on",
    metavar="processes|HOST:PORT",
    help="Where the nodes run that a graph places (placement=NAME): in processes of this machine, "
    "or in actors of the Ray cluster at an address ('auto': the one of this machine). Without it "
    "they run here.",
)
"""Adds ``--on`` to a command."""

share_option = click.option(
    "--share",
    metavar="NAME",
    help="Servers that are told the same name, wherever they are, use the same actors of the "
    "cluster for what is the same in their graphs: the batches of all meet there.",
)
"""Adds ``--share`` to a command."""


def check_far(on: str | None, share: str | None) -> None:
    """Looks whether ``--on`` and ``--share`` are of their forms, and go together.

    Raises:
        click.UsageError: they are not, or do not.
    """
    if on is not None and on not in _WORDS and ":" not in on:
        raise click.UsageError(
            f"--on: got {on!r}{did_you_mean(on, _WORDS)}; expected processes, auto, HOST:PORT or "
            "ray://HOST:PORT"
        )
    if share is None:
        return
    if on is None or on == PROCESSES:
        what = "no --on" if on is None else f"--on {on}"
        raise click.UsageError(
            f"--share {share}: got {what}; expected --on with the address of a Ray cluster, whose "
            "actors servers can share"
        )
    if not share:
        raise click.UsageError("--share: got ''; expected a name")


def name_shared(on: str | None, share: str | None) -> str | None:
    """Returns the name by which the processes of one command share the actors of a cluster.

    Args:
        on: As ``--on``.
        share: As ``--share``.
    """
    is_cluster = on is not None and on != PROCESSES
    return uuid.uuid4().hex[:12] if is_cluster and share is None else share


@contextlib.contextmanager
def place_config(
    config: "ServeConfig", on: str | None, share: str | None
) -> Iterator["ServeConfig"]:
    """Gives what is to be served, with what it places where that is to run inside the block.

    Args:
        config: What is to be served.
        on: As ``--on``; None: all of it runs here.
        share: As ``--share``.

    Raises:
        click.UsageError: nothing of it is placed.
        ConfigError, ClusterError, MissingDependencyError: the cluster cannot be reached, or used.
    """
    if on is None:
        yield config
        return
    _check_placed(config, on)
    if on == PROCESSES:
        from modelflow.remote import ProcessEngine

        yield replace(config, settings=replace(config.settings, engine=ProcessEngine))
        return
    from modelflow.remote.ray import RayEngine, connected

    with connected(on) as cluster:
        settings = replace(config.settings, engine=lambda: RayEngine(cluster, share))
        yield replace(config, settings=settings)


def _check_placed(config: "ServeConfig", on: str) -> None:
    found = config.placing()
    names = list(config.read())
    if found.models or found.unread or not names:  # of what comes later nothing is known yet
        return
    declared = ", ".join(found.declared) or "none"
    raise click.UsageError(
        f"--on {on}: got no graph that places a node (models: {', '.join(names)}; placements that "
        f"they declare: {declared}); expected a node with placement=NAME, as declared in "
        "[placement.NAME]"
    )
