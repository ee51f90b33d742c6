"""``modelflow replica``: one process of ``modelflow serve --replicas N``. Not for people."""

import contextlib
import logging
import os
import socket
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.serving import catalogue_given, ending, explained, options_given
from modelflow.cli.termination import TERMINATED
from modelflow.errors import Cancelled, FlowFailed, ModelflowError

if TYPE_CHECKING:
    from modelflow.serve.replicas.replica import Replica

__all__ = ["replica"]


class _Quiet(logging.Filter):
    """Lets nothing pass while another says the same."""

    is_on = True

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - whatever it is
        return not self.is_on


@click.command(hidden=True)
@click.argument("descriptor", type=int)
def replica(descriptor: int) -> int:
    """Serves as one of several processes, for who has started it."""
    from modelflow.serve.replicas.line import Line
    from modelflow.serve.replicas.replica import Replica

    os.set_inheritable(descriptor, False)
    line = Line(socket.socket(fileno=descriptor))
    start = line.first()
    if start is None:
        return 1
    quiet = _speak(start["number"], start["log_level"], is_quiet=start["is_quiet"])
    place = Replica(line, start)
    try:
        with _reported(place, is_debugged=start["is_debugged"]):
            _serve(place, start["given"], quiet)
    except _FailedError as error:
        return error.code
    finally:
        place.close()
    return TERMINATED


def _speak(number: int, log_level: int, *, is_quiet: bool) -> _Quiet:
    """Has every line of the log say who it is of."""
    quiet = _Quiet()
    quiet.is_on = is_quiet
    logging.getLogger("modelflow").setLevel(log_level)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logging.Formatter(f"%(levelname)s: replica {number}: %(message)s"))
        handler.addFilter(quiet)
    return quiet


def _serve(place: "Replica", given: Mapping[str, Any], quiet: _Quiet) -> None:
    """Serves until somebody ends it."""
    from modelflow.serve.server import Server

    catalogue = replace(catalogue_given(given), configured=place.configured)
    server = Server(catalogue, options_given(given), place)

    def ready() -> None:
        quiet.is_on = False

    with ending(server) as told:
        try:
            with explained():
                place.serve(server, told.ended, ready)
        except Cancelled:
            if not (told.asked.is_set() or told.ended.is_set()):
                raise
        finally:
            server.stop(drain=False)


class _FailedError(Exception):
    """The supervisor was told why this replica cannot begin."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


@contextlib.contextmanager
def _reported(place: "Replica", *, is_debugged: bool) -> Iterator[None]:
    """Has the supervisor say what goes wrong inside the block, as a process alone would."""
    code = 1
    try:
        yield
        return
    except click.UsageError as error:
        text, code = error.format_message(), error.exit_code
    except click.ClickException as error:
        text = f"Error: {error.format_message()}"
    except FlowFailed as failure:
        text = traceback.format_exc() if is_debugged else _lines(failure)
    except ModelflowError as error:
        text = traceback.format_exc() if is_debugged else str(error)
    except Exception:  # noqa: BLE001 - told where it can be seen
        text = traceback.format_exc()
    place.fail(text, code)
    raise _FailedError(code)


def _lines(failure: FlowFailed) -> str:
    return "\n".join(map(str, failure.exceptions))
