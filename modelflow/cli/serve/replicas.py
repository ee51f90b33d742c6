"""The supervisor of ``modelflow serve --replicas N`` and ``--workers N``."""

import contextlib
import logging
import os
from collections.abc import Mapping
from functools import partial
from signal import SIGINT
from typing import Any

import click

from modelflow.cli.serve.server_options import options_given
from modelflow.cli.serve.server_setup import explain_errors, tell
from modelflow.cli.terminal.messages import tell_error
from modelflow.files.unix_socket import SocketFile, is_unix
from modelflow.http.options import Endpoint
from modelflow.http.server import bind_socket
from modelflow.serve.grpc.address import grpc_socket, share
from modelflow.serve.processes.control_channel import Message
from modelflow.serve.processes.role import Role
from modelflow.serve.processes.service_notifier import ServiceNotifier
from modelflow.serve.processes.supervisor.supervisor import StartError, Supervisor
from modelflow.signals import LAST_SECONDS, ExitCode, end_within, release_at_end

_USAGE = 2  # the exit code for wrong arguments
# Seconds to wait for the end of processes that were killed at their time limit.
_SEEN_SECONDS = 1.0


def keep_replicas(given: Mapping[str, Any]) -> int:
    """Runs the serving processes until a signal arrives, and returns the exit code.

    Args:
        given: The values of all options of ``modelflow serve``, by parameter; ``http`` and ``grpc``
            as host and port.

    Raises:
        click.ClickException: A process cannot start, or an address cannot be used.
        click.Abort: Ctrl-C.
    """
    with contextlib.ExitStack() as addresses, explain_errors():
        http = addresses.enter_context(bind_socket(Endpoint(*given["http"])))
        host, port = given["grpc"]
        grpc = None if port is None else addresses.enter_context(grpc_socket(host, port))
        if grpc is not None:
            share(grpc)
        for path in filter(is_unix, (given["http"][0], host)):
            addresses.callback(SocketFile(path).remove)
        context = click.get_current_context()
        log_level = logging.getLogger("modelflow").level
        start = {"given": given, "log_level": log_level, "is_debugged": context.obj["debug"]}
        try:
            crew = (Role.REPLICA, given["replicas"])
            if given["workers"]:
                crew = (Role.WORKER, given["workers"])
            drain, tls = (given["drain_timeout"], given["drain_delay"]), options_given(given).tls
            isolated = given["isolate"]
            supervisor = Supervisor(start, *crew, http, grpc, *drain, tls, isolated)
            notifier = ServiceNotifier(os.environ)

            def leave() -> None:
                end_within(sum(drain) + LAST_SECONDS + _SEEN_SECONDS)
                notifier.stopping()

            with release_at_end():
                number = supervisor.run(partial(_describe, notifier), leave)
        except StartError as error:
            if error.code == _USAGE:
                raise click.UsageError(str(error)) from error
            tell_error(str(error))
            return error.code
    if number == SIGINT:
        raise click.exceptions.Abort
    return ExitCode.TERMINATED


def _describe(notifier: ServiceNotifier, loaded: Message) -> None:
    tell(loaded["models"], loaded["address"], loaded["grpc"])
    notifier.ready(loaded["models"], loaded["address"])
    notifier.beat()
