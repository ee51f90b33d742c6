"""``modelflow replica``: one of several processes of ``modelflow serve``. Not for people."""

import contextlib
import logging
import os
import socket
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.serve.models import build_config
from modelflow.cli.serve.placement import place_config
from modelflow.cli.serve.server_setup import ending, explain_errors
from modelflow.cli.serve.settings import options_given
from modelflow.errors import Cancelled, FlowFailed, ModelflowError
from modelflow.serve.processes.replicas.role import Role
from modelflow.signals import ExitCode, die_with_parent

if TYPE_CHECKING:
    from pathlib import Path

    from modelflow.serve.options import ServeOptions
    from modelflow.serve.processes.replicas.control_channel import ControlChannel, Message
    from modelflow.serve.processes.replicas.replica import Replica
    from modelflow.serve.repository.config import ServeConfig


class _Quiet(logging.Filter):
    """Lets nothing pass while another says the same."""

    is_on = True

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - whatever it is
        return not self.is_on


@click.command(hidden=True)
@click.argument("descriptor", type=int)
def replica(descriptor: int) -> int:
    """Serves as one of several processes, for who has started it."""
    from modelflow.serve.processes.replicas.control_channel import ControlChannel

    die_with_parent()  # whatever runs here then
    os.set_inheritable(descriptor, False)
    line = ControlChannel(socket.socket(fileno=descriptor))
    start = line.first()
    if start is None:
        return ExitCode.FAILED
    quiet = _speak(start["name"], start["log_level"], is_quiet=start["is_quiet"])
    given = start["given"]
    place = _place(line, start)
    try:
        with _report_errors(place, is_debugged=start["is_debugged"]):
            _serve(place, start["role"], given, quiet)
    except _FailedError as error:
        return error.code
    finally:
        place.close()
    return ExitCode.TERMINATED


def _options(role: str, given: Mapping[str, Any]) -> "ServeOptions":
    """What the process is to do of what was asked for: what workers do, who has the models not."""
    options = replace(options_given(given), drain_delay=0.0)  # the supervisor sees to it
    if not Role(role).is_asked:
        return options
    return replace(
        options, grpc_port=None, tls=None, key_file=None, access_log=None, cors_origins=()
    )


def _place(line: "ControlChannel", start: "Message") -> "Replica":
    role = Role(start["role"])
    if role is Role.WORKER or (role is Role.REPLICA and start["isolated"]):
        from modelflow.serve.processes.workers.process import Worker

        return Worker(line, start)
    if role.is_asked:
        from modelflow.serve.processes.workers.process import ModelsProcess

        return ModelsProcess(line, start)
    from modelflow.serve.processes.replicas.replica import Replica

    return Replica(line, start)


def _speak(name: str, log_level: int, *, is_quiet: bool) -> _Quiet:
    """Has every line of the log say who it is of."""
    quiet = _Quiet()
    quiet.is_on = is_quiet
    logging.getLogger("modelflow").setLevel(log_level)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logging.Formatter(f"%(levelname)s: {name}: %(message)s"))
        handler.addFilter(quiet)
    return quiet


def _serve(place: "Replica", role: str, given: Mapping[str, Any], quiet: _Quiet) -> None:
    """Serves until somebody ends it."""
    from modelflow.serve.server import Server

    def ready() -> None:
        quiet.is_on = False

    with _sources(place, role, given) as sources:
        server = Server(sources, _options(role, given), place)
        with ending(server) as told:
            try:
                with explain_errors():
                    place.serve(server, told.ended, ready)
            except Cancelled:
                if not (told.asked.is_set() or told.ended.is_set()):
                    raise
            finally:
                server.stop(drain=False)


@contextlib.contextmanager
def _sources(
    place: "Replica", role: str, given: Mapping[str, Any]
) -> "Iterator[Mapping[str, Path] | ServeConfig]":
    """What is to be loaded here; a worker loads nothing."""
    if role == Role.WORKER:
        yield {}
        return
    config = replace(
        build_config(given), configured=place.configured, only=place.only, without=place.without
    )
    with place_config(config, given["on"], given["share"]) as found:
        yield found


class _FailedError(Exception):
    """The supervisor was told why this replica cannot begin."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


@contextlib.contextmanager
def _report_errors(place: "Replica", *, is_debugged: bool) -> Iterator[None]:
    """Has the supervisor say what goes wrong inside the block, as a process alone would."""
    code: int = ExitCode.FAILED
    try:
        yield
        return
    except click.UsageError as error:
        text, code = error.format_message(), error.exit_code
    except click.ClickException as error:
        text = f"Error: {error.format_message()}"
    except FlowFailed as failure:
        lines = map(str, failure.exceptions)
        text = traceback.format_exc() if is_debugged else "\n".join(lines)
    except ModelflowError as error:
        text = traceback.format_exc() if is_debugged else str(error)
    except Exception:  # noqa: BLE001 - told where it can be seen
        text = traceback.format_exc()
    place.fail(text, code)
    raise _FailedError(code)
