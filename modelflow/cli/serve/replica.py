"""The internal command ``modelflow replica``: a child process of ``modelflow serve``."""

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
from modelflow.cli.serve.on_option import place_config
from modelflow.cli.serve.server_options import options_given
from modelflow.cli.serve.server_setup import ending, explain_errors
from modelflow.errors import Cancelled, FlowFailed, ModelflowError
from modelflow.serve.processes.role import Role
from modelflow.signals import ExitCode, die_with_parent

if TYPE_CHECKING:
    from pathlib import Path

    from modelflow.serve.options import ServeOptions
    from modelflow.serve.processes.control_channel import ControlChannel, Message
    from modelflow.serve.processes.member.replica import ReplicaMember
    from modelflow.serve.repository.config import ServeConfig


class _Quiet(logging.Filter):
    """A filter that drops log records until the replica is ready, if another logs the same.

    A record with ``is_single`` passes, because no other replica logs the same.
    """

    is_on = True

    def filter(self, record: logging.LogRecord) -> bool:
        return not self.is_on or getattr(record, "is_single", False)


@click.command(hidden=True)
@click.argument("descriptor", type=int)
def replica(descriptor: int) -> int:
    """Serves as a child process of a supervisor."""
    from modelflow.serve.processes.control_channel import ControlChannel

    die_with_parent()  # even if this process hangs
    os.set_inheritable(descriptor, False)
    channel = ControlChannel(socket.socket(fileno=descriptor))
    start = channel.first()
    if start is None:
        return ExitCode.FAILED
    quiet = _speak(start["name"], start["log_level"], is_quiet=start["is_quiet"])
    member = _make_member(channel, start)
    try:
        _serve(member, start["role"], start["given"], quiet)
    except Exception as error:  # noqa: BLE001 - the supervisor reports it
        text, code = _explain(error, is_debugged=start["is_debugged"])
        member.fail(text, code)
        return code
    finally:
        member.close()
    return ExitCode.TERMINATED


def _options(role: str, given: Mapping[str, Any]) -> "ServeOptions":
    """Returns the options of the process; the models process behind workers has no front end."""
    options = replace(options_given(given), drain_delay=0.0)  # the supervisor waits instead
    if not Role(role).is_asked:
        return options
    return replace(
        options,
        grpc_port=None,
        tls=None,
        key_file=None,
        access_log=None,
        payload_log=None,
        cors_origins=(),
    )


def _make_member(channel: "ControlChannel", start: "Message") -> "ReplicaMember":
    role = Role(start["role"])
    if role is Role.WORKER or (role is Role.REPLICA and start["isolated"]):
        from modelflow.serve.processes.member.worker import WorkerMember

        return WorkerMember(channel, start)
    if role.is_asked:
        from modelflow.serve.processes.member.worker import ModelsMember

        return ModelsMember(channel, start)
    from modelflow.serve.processes.member.replica import ReplicaMember

    return ReplicaMember(channel, start)


def _speak(name: str, log_level: int, *, is_quiet: bool) -> _Quiet:
    """Adds the name of the process to every line of the log."""
    quiet = _Quiet()
    quiet.is_on = is_quiet
    logging.getLogger("modelflow").setLevel(log_level)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logging.Formatter(f"%(levelname)s: {name}: %(message)s"))
        handler.addFilter(quiet)
    return quiet


def _serve(member: "ReplicaMember", role: str, given: Mapping[str, Any], quiet: _Quiet) -> None:
    """Serves until the supervisor or a signal ends the server."""
    from modelflow.serve.server import Server

    def ready() -> None:
        quiet.is_on = False

    with _sources(member, role, given) as sources:
        server = Server(sources, _options(role, given), member)
        with ending(server) as told:
            try:
                with explain_errors():
                    member.serve(server, told.ended, ready)
            except Cancelled:
                if not (told.asked.is_set() or told.ended.is_set()):
                    raise
            finally:
                server.stop(drain=False)


@contextlib.contextmanager
def _sources(
    member: "ReplicaMember", role: str, given: Mapping[str, Any]
) -> "Iterator[Mapping[str, Path] | ServeConfig]":
    """Yields the models to load in this process; a worker loads none."""
    if role == Role.WORKER:
        yield {}
        return
    config = replace(
        build_config(given), configured=member.configured, only=member.only, without=member.without
    )
    with place_config(config, given["on"], given["share"]) as found:
        yield found


def _explain(error: Exception, *, is_debugged: bool) -> tuple[str, int]:
    """Returns the error text and the exit code that a single process would have."""
    if isinstance(error, click.UsageError):
        return error.format_message(), error.exit_code
    if isinstance(error, click.ClickException):
        return f"Error: {error.format_message()}", ExitCode.FAILED
    if is_debugged or not isinstance(error, FlowFailed | ModelflowError):
        return traceback.format_exc(), ExitCode.FAILED
    inner = error.exceptions if isinstance(error, FlowFailed) else (error,)
    return "\n".join(map(str, inner)), ExitCode.FAILED
