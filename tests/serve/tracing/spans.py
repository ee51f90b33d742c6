"""Spans for tests: in memory, or at a collector over OTLP."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.serve.grpc.stub import OIP, SECONDS, Stub, infer


class Spans:
    """A tracer provider for a test, and the provider's ended spans."""

    def __init__(self, sampler=None):
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))

    @property
    def all(self):
        return self._kept.get_finished_spans()

    @property
    def requests(self):
        """Returns the spans of requests, in the order in which they ended."""
        return [span for span in self.all if span.kind.name == "SERVER"]

    def below(self, request):
        """Returns the spans below another span, in the order in which they began."""
        found = [span for span in self.all if _is_below(span, request)]
        return sorted(found, key=lambda span: span.start_time)


def _is_below(span, other):
    return (
        span.parent is not None
        and span.parent.span_id == other.context.span_id
        and span.context.trace_id == other.context.trace_id
    )


def parent_of(span):
    """Returns the ``traceparent`` that makes a request a child of a span."""
    context = span.context
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


class Collector:
    """A collector that receives spans over OTLP."""

    def __init__(self):
        self.resources = []
        self.refuses = False
        self.asked = threading.Semaphore(0)
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.path == "/v1/traces", self.path
                if not collector.refuses:
                    collector.resources += ExportTraceServiceRequest.FromString(body).resource_spans
                self.send_response(400 if collector.refuses else 200)
                self.send_header("content-length", "0")
                self.end_headers()
                collector.asked.release()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def spans(self):
        return [s for r in self.resources for scope in r.scope_spans for s in scope.spans]

    def attributes(self):
        """Returns the resource attributes of each sender."""
        return [
            {a.key: a.value.string_value or a.value.int_value for a in one.resource.attributes}
            for one in self.resources
        ]


@contextlib.contextmanager
def collecting(patch):
    """Yields a collector, whose address is in the environment."""
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever, name="collector")
    thread.start()
    patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
    try:
        yield collector
    finally:
        collector.server.shutdown()
        thread.join()
        collector.server.server_close()


def cancel_one(server, channel, gate):
    """Cancels a client's call while a unit works on the call; then lets the unit go on."""
    call = Stub(channel).method(OIP, "ModelInfer").future(infer(), timeout=SECONDS)
    assert gate.entered.acquire(timeout=SECONDS)
    call.cancel()
    while server.model("m").admission.under_way:
        pass
    gate.go.set()
