"""The option ``modelflow serve --on WHERE``: where placed nodes of served graphs run."""

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
"""The value of ``--on`` for processes of this machine."""

_WORDS = (PROCESSES, "auto")

on_option = click.option(
    "--on",
    metavar="processes|HOST:PORT",
    help="Where placed nodes (placement=NAME) run: in processes of this machine, or in actors of "
    "the Ray cluster at this address. 'auto': the cluster of this machine. Default: in the "
    "server.",
)
"""Adds ``--on`` to a command."""

share_option = click.option(
    "--share",
    metavar="NAME",
    help="Servers with the same NAME, on any machine, share the actors of the cluster for equal "
    "parts of their graphs. The rows of all servers then go into the same batches.",
)
"""Adds ``--share`` to a command."""


def check_far(on: str | None, share: str | None) -> None:
    """Checks the forms of ``--on`` and ``--share``, and that they fit together.

    Raises:
        click.UsageError: A value has another form, or they do not fit together.
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
    """Returns the name that lets the processes of one command share the actors of a cluster.

    Args:
        on: The value of ``--on``.
        share: The value of ``--share``.
    """
    is_cluster = on is not None and on != PROCESSES
    return uuid.uuid4().hex[:12] if is_cluster and share is None else share


@contextlib.contextmanager
def place_config(
    config: "ServeConfig", on: str | None, share: str | None
) -> Iterator["ServeConfig"]:
    """Yields the configuration with an engine for its placed nodes, which runs inside the block.

    Args:
        config: The models to serve.
        on: The value of ``--on``, or None to run all nodes here.
        share: The value of ``--share``.

    Raises:
        click.UsageError: No graph places a node.
        ConfigError, ClusterError, MissingDependencyError: The cluster cannot be reached or used.
    """
    if on is None:
        yield config
        return
    _check_placed(config, on)
    if on == PROCESSES:
        from modelflow.remote import ProcessEngine

        yield replace(config, settings=replace(config.settings, engine=ProcessEngine))
        return
    from modelflow.remote.ray import RayEngine, connect

    with connect(on) as cluster:
        settings = replace(config.settings, engine=lambda: RayEngine(cluster, share))
        yield replace(config, settings=settings)


def _check_placed(config: "ServeConfig", on: str) -> None:
    found = config.placing()
    names = list(config.read())
    if found.models or found.unread or not names:  # models that are loaded later are unknown
        return
    declared = ", ".join(found.declared) or "none"
    raise click.UsageError(
        f"--on {on}: got no graph that places a node (models: {', '.join(names)}; placements that "
        f"they declare: {declared}); expected a node with placement=NAME, as declared in "
        "[placement.NAME]"
    )
