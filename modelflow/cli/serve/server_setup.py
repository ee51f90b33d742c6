"""What the options of ``modelflow serve`` ask for, and what is told of it."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from modelflow.cli.serve.models import build_config
from modelflow.device.heap import freeze_heap
from modelflow.errors import ConfigError, FlowFailed, did_you_mean
from modelflow.signals import LAST_SECONDS, end_within, release_at_end, termination

if TYPE_CHECKING:
    from modelflow.serve.server import Server


# Seconds after which a thread that wants Python's lock gets it from another that computes. With
# the usual 0.005 a unit whose batch is done waits so long for the thread that reads requests,
# where there are more than can be answered (benchmarks/serving_overload.py).
_SWITCH = 0.001

_MOST_ISOLATED = 200


class ServerEnd(NamedTuple):
    """How far the end of a server has come."""

    asked: threading.Event
    """Somebody has asked for it."""
    ended: threading.Event
    """The server has stopped."""


@contextlib.contextmanager
def ending(server: "Server", leaving: Callable[[], object] | None = None) -> Iterator[ServerEnd]:
    """Has SIGTERM stop a server inside the block, which answers first, and SIGHUP refresh it.

    No thread waits long for another there, nor for the garbage collector. The process ends within
    the time that the server has to answer, and `LAST_SECONDS`.

    Args:
        server: The server.
        leaving: Called at SIGTERM, before it stops.
    """
    told = ServerEnd(threading.Event(), threading.Event())

    def finish() -> None:
        options = server.options
        end_within(options.drain_delay + options.drain_timeout + LAST_SECONDS)
        try:
            if leaving is not None:
                leaving()
            with contextlib.suppress(FlowFailed):  # raised again where the block stops it
                server.stop()
        finally:
            told.ended.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH)
    try:
        with release_at_end(), freeze_heap(), termination(told.asked, finish, server.refresh):
            yield told
    finally:
        sys.setswitchinterval(before)


def list_isolated(given: Mapping[str, Any]) -> list[str]:
    """Returns the models that have processes of their own, as options or their graphs ask for it.

    Args:
        given: The values of all options, by parameter.

    Raises:
        click.UsageError: one is not there, or they are too many.
        ConfigError: as `build_config`.
    """
    known = build_config(given).read()
    for name in given["isolate"]:
        if name not in known:
            near, models = did_you_mean(name, known), ", ".join(known) or "none"
            raise click.UsageError(
                f"--isolate {name}: there is no such model{near} (models: {models})"
            )
    names = [*dict.fromkeys(given["isolate"])]
    for name, source in known.items():
        with contextlib.suppress(ConfigError):  # told when it is loaded
            if name not in names and source.is_isolated():
                names.append(name)
    if len(names) > _MOST_ISOLATED:
        raise click.UsageError(
            f"{len(names)} models are to be isolated (--isolate, or [serve] isolate of a graph); "
            f"at most {_MOST_ISOLATED} have processes of their own"
        )
    return names


@contextlib.contextmanager
def explain_errors() -> Iterator[None]:
    """Says what to do about an address that cannot be had inside the block.

    Raises:
        click.ClickException: there is such a one.
    """
    try:
        yield
    except OSError as error:
        where = error.strerror or str(error)
        raise click.ClickException(
            f"{where}; give another address: --http HOST:PORT, --grpc HOST:PORT"
        ) from error


def tell(models: Sequence[str], address: str, grpc_address: str) -> None:
    """Prints what is served, and where."""
    names = ", ".join(models) or "nothing yet"
    click.echo(f"serves {names} at {address}", err=True)
    if grpc_address:
        click.echo(f"serves {names} over gRPC at {grpc_address}", err=True)
