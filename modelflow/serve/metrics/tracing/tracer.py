"""Who begins the spans of requests, and ends what exports them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import modelflow
from modelflow.errors import MissingDependencyError
from modelflow.http.request import HttpRequest, read_trace

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


try:
    from modelflow.serve.metrics.tracing.batch_spans import BatchSpans
    from modelflow.serve.metrics.tracing.exporting import SpanExport
    from modelflow.serve.metrics.tracing.request_span import RequestSpan
except ModuleNotFoundError as error:
    raise MissingDependencyError("opentelemetry-sdk", "otel", "tracing (--otel)") from error


_LONGEST_PATH = 1024  # characters
# Others are anybody's inventions, and would make a name of a span each.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"})


class Tracer:
    """Begins a span for every request, named as OpenTelemetry's conventions say."""

    def __init__(self, provider: "TracerProvider | None") -> None:
        """Takes what makes the spans.

        Args:
            provider: Somebody's own, which stays his; None: one is made as the environment says.

        Raises:
            ConfigError: the environment asks for what there is not.
        """
        self._exporting = None
        if provider is None:
            self._exporting = SpanExport()
            provider = self._exporting.provider
        self._tracer = provider.get_tracer("modelflow", modelflow.__version__)
        self._batches = BatchSpans(self._tracer)
        self._of_http: dict[str, Any] = {}
        self._of_grpc: dict[str, Any] = {}

    def listens(self, http: str, grpc: str) -> None:
        """Notes where the server answers.

        Args:
            http: ``http://127.0.0.1:8501``, with TLS ``https://``.
            grpc: ``127.0.0.1:8500``; ``""``: nowhere.
        """
        scheme, _, address = http.partition("://")
        self._of_http = {"url.scheme": scheme, **_address("server", address)}
        self._of_grpc = {"rpc.system.name": "grpc", **_address("server", grpc)}

    def over_http(
        self, http_request: HttpRequest, route: str | None, found: Mapping[str, Sequence[str]]
    ) -> RequestSpan:
        """Begins the span of a request over HTTP.

        Args:
            http_request: The request.
            route: The form of its path: ``/v1/models/{name}:predict``; None: nobody answers there.
            found: Its headers, by name, ``traceparent`` and ``tracestate`` among them.
        """
        asked = http_request.head.method
        method = asked if asked in _METHODS else "_OTHER"
        attributes = {
            "http.request.method": method,
            "url.path": http_request.path[:_LONGEST_PATH],
            **self._of_http,
            **_address("client", http_request.client),
        }
        if method != asked:
            attributes["http.request.method_original"] = asked[:_LONGEST_PATH]
        name = method if method == asked else "HTTP"
        if route is not None:
            name = f"{name} {route}"
            attributes["http.route"] = route
        return self._begin(name, attributes, found)

    def over_grpc(self, method: str, peer: str, found: Mapping[str, Sequence[str]]) -> RequestSpan:
        """Begins the span of a call over gRPC.

        Args:
            method: What is called: ``/SERVICE/METHOD``.
            peer: The client's address: ``127.0.0.1:50000``.
            found: Its metadata, by name.
        """
        name = method.removeprefix("/")
        attributes = {"rpc.method": name, **self._of_grpc, **_address("client", peer)}
        return self._begin(name, attributes, found)

    def _begin(
        self, name: str, attributes: Mapping[str, Any], found: Mapping[str, Sequence[str]]
    ) -> RequestSpan:
        parent = read_trace(found.get("traceparent", ()), found.get("tracestate", ()))
        return RequestSpan(self._tracer, self._batches, name, attributes, parent)

    def close(self) -> None:
        """Sends what has ended, and ends; within seconds, be there a collector or not."""
        if self._exporting is not None:
            self._exporting.close()


def _address(whose: str, text: str) -> dict[str, Any]:
    """What is said of ``127.0.0.1:8501``; nothing where it is no such address."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        return {}
    return {f"{whose}.address": host.strip("[]"), f"{whose}.port": int(port)}
