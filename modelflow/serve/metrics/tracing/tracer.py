"""Starts the spans of requests, and owns their export."""

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
# Clients can invent other methods. Each would create a new span name.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"})


class Tracer:
    """The maker of request spans, with names from OpenTelemetry's conventions."""

    def __init__(self, provider: "TracerProvider | None") -> None:
        """Creates the tracer.

        Args:
            provider: A provider that the caller owns, or None. With None, a provider is created
                from the environment variables.

        Raises:
            ConfigError: An environment variable has an unsupported value.
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
        """Records the addresses of the server, for the attributes of spans.

        Args:
            http: ``http://127.0.0.1:8501``, or ``https://`` with TLS.
            grpc: ``127.0.0.1:8500``, or ``""`` without gRPC.
        """
        scheme, _, address = http.partition("://")
        self._of_http = {"url.scheme": scheme, **_address("server", address)}
        self._of_grpc = {"rpc.system.name": "grpc", **_address("server", grpc)}

    def over_http(
        self, http_request: HttpRequest, route: str | None, found: Mapping[str, Sequence[str]]
    ) -> RequestSpan:
        """Starts the span of an HTTP request.

        Args:
            http_request: The request.
            route: The path with placeholders, for example ``/v1/models/{name}:predict``, or None if
                no endpoint matches.
            found: The headers by name, including ``traceparent`` and ``tracestate``.
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
        """Starts the span of a gRPC call.

        Args:
            method: The full method name: ``/SERVICE/METHOD``.
            peer: The client's address: ``127.0.0.1:50000``.
            found: The metadata by name.
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
        """Exports the finished spans, within seconds even if the collector does not answer."""
        if self._exporting is not None:
            self._exporting.close()


def _address(whose: str, text: str) -> dict[str, Any]:
    """Returns the span attributes for ``127.0.0.1:8501``, or none if the text is no address."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        return {}
    return {f"{whose}.address": host.strip("[]"), f"{whose}.port": int(port)}
