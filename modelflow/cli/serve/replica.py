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
    """Lets nothing pass while another says the same."""

    is_on = True

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - whatever it is
        return not self.is_on


@click.command(hidden=True)
@click.argument("descriptor", type=int)
def replica(descriptor: int) -> int:
    """Serves as one of several processes, for who has started it."""
    from modelflow.serve.processes.control_channel import ControlChannel

    die_with_parent()  # whatever runs here then
    os.set_inheritable(descriptor, False)
    channel = ControlChannel(socket.socket(fileno=descriptor))
    start = channel.first()
    if start is None:
        return ExitCode.FAILED
    quiet = _speak(start["name"], start["log_level"], is_quiet=start["is_quiet"])
    member = _make_member(channel, start)
    try:
        _serve(member, start["role"], start["given"], quiet)
    except Exception as error:  # noqa: BLE001 - the supervisor says it
        text, code = _explain(error, is_debugged=start["is_debugged"])
        member.fail(text, code)
        return code
    finally:
        member.close()
    return ExitCode.TERMINATED


def _options(role: str, given: Mapping[str, Any]) -> "ServeOptions":
    """What the process is to do of what was asked for: what workers do, who has the models not."""
    options = replace(options_given(given), drain_delay=0.0)  # the supervisor sees to it
    if not Role(role).is_asked:
        return options
    return replace(
        options, grpc_port=None, tls=None, key_file=None, access_log=None, cors_origins=()
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
    """Has every line of the log say who it is of."""
    quiet = _Quiet()
    quiet.is_on = is_quiet
    logging.getLogger("modelflow").setLevel(log_level)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logging.Formatter(f"%(levelname)s: {name}: %(message)s"))
        handler.addFilter(quiet)
    return quiet


def _serve(member: "ReplicaMember", role: str, given: Mapping[str, Any], quiet: _Quiet) -> None:
    """Serves until somebody ends it."""
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
    """What is to be loaded here; a worker loads nothing."""
    if role == Role.WORKER:
        yield {}
        return
    config = replace(
        build_config(given), configured=member.configured, only=member.only, without=member.without
    )
    with place_config(config, given["on"], given["share"]) as found:
        yield found


def _explain(error: Exception, *, is_debugged: bool) -> tuple[str, int]:
    """Returns what a process alone would say of what went wrong, and its exit code."""
    if isinstance(error, click.UsageError):
        return error.format_message(), error.exit_code
    if isinstance(error, click.ClickException):
        return f"Error: {error.format_message()}", ExitCode.FAILED
    if is_debugged or not isinstance(error, FlowFailed | ModelflowError):
        return traceback.format_exc(), ExitCode.FAILED
    inner = error.exceptions if isinstance(error, FlowFailed) else (error,)
    return "\n".join(map(str, inner)), ExitCode.FAILED
