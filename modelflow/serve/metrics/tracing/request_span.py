"""The span of one request, from its head to its reply."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation import set_span_in_context
from opentelemetry.trace.span import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from modelflow.http.request import Trace
from modelflow.serve.metrics.tracing.batch_spans import BatchSpans
from modelflow.serve.metrics.tracing.node_spans import NodeSpans

# The codes of gRPC that are the server's fault, by the conventions for its spans.
_OWN_FAULTS = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)
_LEAST_FAULT = 500  # HTTP statuses from here on are the server's fault


class RequestSpan:
    """The span of a request, of kind SERVER. Call the methods on the server's thread.

    Attributes:
        trace: The trace context for calls to other servers, with this span as the parent. None
            without a trace.
    """

    __slots__ = ("_batches", "_model", "_span", "_tracer", "trace")

    def __init__(
        self,
        tracer: Tracer,
        batches: BatchSpans,
        name: str,
        attributes: Mapping[str, Any],
        parent: Trace | None,
    ) -> None:
        """Starts the span.

        Args:
            tracer: The tracer that creates spans.
            batches: The maker of batch spans.
            name: The name of the span, the same for requests of one kind.
            attributes: The attributes at the start. Samplers may use them.
            parent: The trace context of the client, or None.
        """
        self._tracer = tracer
        self._batches = batches
        self._model = ""
        self._span: Span = tracer.start_span(
            name,
            context=_context_of(parent),
            kind=SpanKind.SERVER,
            attributes=attributes,
        )
        self.trace = _trace_of(self._span.get_span_context())

    def call(self, request_id: str) -> None:
        """Records the id of the request."""
        self._span.set_attribute("modelflow.request_id", request_id)

    def enter(self, model: str, version: int) -> None:
        """Records the model and the version of the request."""
        self._model = model
        self._span.set_attribute("modelflow.model", model)
        self._span.set_attribute("modelflow.version", version)

    def watcher(self) -> NodeSpans | None:
        """Returns the maker of this request's node spans, or None if the span is not sampled."""
        if not self._span.is_recording():
            return None
        context = set_span_in_context(self._span, Context())
        return NodeSpans(self._tracer, context, self._batches, self._model)

    def end(self, status: int | str) -> None:
        """Ends the span.

        Args:
            status: The HTTP status, or the name of the gRPC status.
        """
        span = self._span
        if isinstance(status, int):
            span.set_attribute("http.response.status_code", status)
            is_fault = status >= _LEAST_FAULT
        else:
            span.set_attribute("rpc.response.status_code", str(status))
            is_fault = status in _OWN_FAULTS
        if is_fault:
            span.set_attribute("error.type", str(status))
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def _context_of(trace: Trace | None) -> Context:
    # An empty context, because a span that is current on this thread is no parent of the request.
    if trace is None:
        return Context()
    _, trace_id, span_id, flags = trace.parent.split("-")[:4]
    parent = SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
        trace_state=TraceState.from_header([trace.state]),
    )
    return set_span_in_context(NonRecordingSpan(parent), Context())


def _trace_of(context: SpanContext) -> Trace | None:
    """Returns the trace context to pass on, or None.

    The context is invalid if OTEL_SDK_DISABLED is set and the client sent no trace.
    """
    if not context.is_valid:
        return None
    trace_id = f"{context.trace_id:032x}"
    parent = f"00-{trace_id}-{context.span_id:016x}-{context.trace_flags:02x}"
    return Trace(trace_id, parent, context.trace_state.to_header())
