"""The metrics server of a run: ``/metrics`` for Prometheus, ``/stats`` for programs.

Like the dashboard, it refuses requests of pages from other sites, under any name of this host.
"""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

from modelflow.cli.terminal.listening import split_address
from modelflow.errors import explain_os_error
from modelflow.http.reply import BodyBudget, BodyLimits, Reply, reply_of_status
from modelflow.profile.metrics import FlowCollector, metrics_page
from modelflow.studio.site import Site

if TYPE_CHECKING:
    from modelflow.http.request import HttpRequest
    from modelflow.runtime.stats import FlowStats


_NO_BODY = BodyLimits(0, BodyBudget(0), 5.0)


class MetricsServer:
    """An HTTP server on a thread of its own, for the length of a ``with`` block.

    Attributes:
        url: The URL of the server.
    """

    def __init__(
        self, address: str, stats: "Callable[[], FlowStats]", snapshot: Callable[[], dict[str, Any]]
    ) -> None:
        """Takes the address, and binds the socket.

        Args:
            address: ``PORT``, ``HOST:PORT`` or ``[HOST]:PORT``. Default host: 127.0.0.1. Port 0:
                any free port.
            stats: Returns the flow's figures; called from any thread.
            snapshot: Returns the document of the flow's snapshot.

        Raises:
            click.UsageError: The address is wrong.
            ConfigError: The address is in use.
        """
        host, port = split_address("--metrics", address)
        self._metrics = metrics_page(FlowCollector(lambda: [stats()]))
        self._snapshot = snapshot
        with explain_os_error(f"--metrics {address}: cannot listen there"):
            self._site = Site(host, port)
        self.url = self._site.address

    def __enter__(self) -> Self:
        """Starts the server.

        Raises:
            MissingDependencyError: The package that parses requests is not installed.
        """
        self._site.open(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the server."""
        self._site.close()

    def begin(self, http_request: "HttpRequest") -> BodyLimits:
        """Checks the head of a request.

        Raises:
            RefusedError: The request is not allowed.
        """
        method = "HEAD" if http_request.head.method == "HEAD" else "GET"
        self._site.gate.check(http_request.head, is_secret=False, method=method)
        return _NO_BODY

    def handle(self, http_request: "HttpRequest") -> None:
        """Answers a request on the server's thread."""
        if http_request.path == "/metrics":
            accept = http_request.head.named.get(b"accept", b"").decode("latin-1")
            body, kind = self._metrics(accept)
        elif http_request.path == "/stats":
            body, kind = json.dumps(self._snapshot()).encode(), "application/json"
        else:
            text = "there are /metrics and /stats"
            http_request.answer(reply_of_status(HTTPStatus.NOT_FOUND, text))
            return
        http_request.answer(Reply(200, body, {"content-type": kind}))
