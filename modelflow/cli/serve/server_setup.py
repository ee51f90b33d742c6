"""Setup of a server of ``modelflow serve``: signals, isolated models, messages."""

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


# Seconds after which a thread that waits for Python's lock gets it from a computing thread. With
# the default of 0.005 a unit with a finished batch waits that long for the thread that reads
# requests, under overload (benchmarks/serving_overload.py).
_SWITCH = 0.001

_MOST_ISOLATED = 200


class ServerEnd(NamedTuple):
    """The state of the end of a server."""

    asked: threading.Event
    """Set when a signal has asked for the end."""
    ended: threading.Event
    """Set when the server has stopped."""


@contextlib.contextmanager
def ending(server: "Server", leaving: Callable[[], object] | None = None) -> Iterator[ServerEnd]:
    """Lets SIGTERM drain and stop a server inside the block, and lets SIGHUP refresh the server.

    Inside the block threads switch faster, and the garbage collector skips the objects made so far.
    The process ends at most `LAST_SECONDS` after the server's time to drain.

    Args:
        server: The server.
        leaving: Called at SIGTERM, before the server stops.
    """
    told = ServerEnd(threading.Event(), threading.Event())

    def finish() -> None:
        options = server.options
        end_within(options.drain_delay + options.drain_timeout + LAST_SECONDS)
        try:
            if leaving is not None:
                leaving()
            with contextlib.suppress(FlowFailed):  # the `stop` after the block raises it
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
    """Returns the models with a process of their own, by ``--isolate`` or by their graphs.

    Args:
        given: The values of all options, by parameter.

    Raises:
        click.UsageError: A name is unknown, or there are too many isolated models.
        ConfigError: As for `build_config`.
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
        with contextlib.suppress(ConfigError):  # reported when the model is loaded
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
    """Adds advice to the error of an address that cannot be used inside the block.

    Raises:
        click.ClickException: An address cannot be used.
    """
    try:
        yield
    except OSError as error:
        where = error.strerror or str(error)
        raise click.ClickException(
            f"{where}; give another address: --http HOST:PORT, --grpc HOST:PORT"
        ) from error


def tell(models: Sequence[str], address: str, grpc_address: str) -> None:
    """Prints the served models and the addresses."""
    names = ", ".join(models) or "nothing yet"
    click.echo(f"serves {names} at {address}", err=True)
    if grpc_address:
        click.echo(f"serves {names} over gRPC at {grpc_address}", err=True)
