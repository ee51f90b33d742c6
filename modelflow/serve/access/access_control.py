"""Creates TLS, API keys, access log, CORS and tracing from the options of a server."""

import ipaddress
import logging
from typing import TYPE_CHECKING

from modelflow.errors import ConfigError
from modelflow.files.unix_socket import is_unix
from modelflow.http.server import server_context
from modelflow.serve.access.access_log import AccessLog, LogWriter
from modelflow.serve.access.cors import Cors
from modelflow.serve.access.keys import Keys
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.access.payload_log import PayloadLog
from modelflow.serve.access.shared_counts import SharedCounts
from modelflow.serve.options import ServeOptions
from modelflow.serve.repository.loader import Loader

if TYPE_CHECKING:
    from modelflow.serve.metrics.tracing.tracer import Tracer


logger = logging.getLogger(__name__)


class AccessControl:
    """The owner of the middleware, and of the files and threads that the middleware needs.

    Attributes:
        tls: The TLS context of HTTP connections, or None for no TLS.
        middleware: The checks for every request.
        tracer: Starts the spans of requests, or None without tracing. `end` closes the tracer,
            after the flows have stopped.
    """

    def __init__(self, options: ServeOptions, counts: SharedCounts | None = None) -> None:
        """Reads every file that the options name.

        Args:
            options: The options of the server.
            counts: The counters that the processes of the server share. None for one process.

        Raises:
            ConfigError: A file is invalid, or the destination of spans is invalid.
            MissingDependencyError: Tracing is on, but OpenTelemetry is not installed.
        """
        self.tls = None if options.tls is None else server_context(options.tls)
        counts = SharedCounts() if counts is None else counts
        self._keys = None if options.key_file is None else Keys(options.key_file, counts)
        cors = Cors(options.cors_origins) if options.cors_origins else None
        self.tracer = _tracer(options)
        self._log: AccessLog | None = None
        self._payloads: PayloadLog | None = None
        try:
            if options.access_log is not None:
                self._log = AccessLog(options.access_log)
            if options.payload_log is not None:
                share = 100.0 if options.log_payloads is None else options.log_payloads
                sizes = share, options.payload_bytes
                self._payloads = PayloadLog(options.payload_log, *sizes, counts)
        except ConfigError:
            self.close()
            self.end()
            raise
        self.middleware = Middleware(
            self._keys, self._log, cors, self.tracer, counts, self._payloads
        )
        if self._keys is not None and self.tls is None:
            _warn_of_open_keys(options)

    def refresh(self, loader: Loader) -> None:
        """Reads the keys again, on a thread of the loader, and reopens the logs."""
        if self._keys is not None:
            loader.look(self._keys.read, _settle)
        for log in self._logs:
            log.reopen()

    def close(self) -> None:
        """Writes the remaining lines of the logs, and closes the logs. May be called again."""
        for log in self._logs:
            log.close()

    @property
    def _logs(self) -> "list[LogWriter]":
        return [log for log in (self._log, self._payloads) if log is not None]

    def end(self) -> None:
        """Exports the remaining spans, after the flows have stopped. May be called again."""
        if self.tracer is not None:
            self.tracer.close()


def _tracer(options: ServeOptions) -> "Tracer | None":
    if options.tracing is False:
        return None
    from modelflow.serve.metrics.tracing.tracer import Tracer

    provider = None if options.tracing is True else options.tracing
    return Tracer(provider)


def _warn_of_open_keys(options: ServeOptions) -> None:
    grpc = [] if options.grpc_port is None else [options.grpc_host]
    hosts = [host for host in (options.host, *grpc) if not _is_loopback(host)]
    if hosts:
        logger.warning(
            "API keys cross the network in plain text: %s is no loopback address; "
            "set --tls-cert and --tls-key, or use a proxy with TLS",
            " and ".join(dict.fromkeys(hosts)),
        )


def _is_loopback(host: str) -> bool:
    if is_unix(host):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _settle(_: object) -> None:
    """Ignores the result of `Keys.read`, which has logged its errors."""
