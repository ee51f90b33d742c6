"""Tests of a request's span: name, parent, attributes, and end."""

import json
import socket

import grpc
import numpy as np
import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from tests.http.test_trace import ID, PARENT
from tests.serve.clients import ask, send, served
from tests.serve.grpc.stub import OIP, PREDICTION, SECONDS, Stub, grpc_served, infer, refused
from tests.serve.test_generate_stream import Events, streaming
from tests.serve.test_request_context import BODY, PREDICT, Told, logged
from tests.serve.test_server import Gate, asking
from tests.serve.tokens import Tokens
from tests.serve.tracing.spans import Spans, cancel_one, parent_of


@pytest.fixture
def spans():
    return Spans()


def test_a_request_over_http_has_a_span(spans):
    with served(tracing=spans.provider) as server:
        status, _, headers = ask(server, f"{PREDICT}?key=s3cret", BODY)
        assert status == 200
        (span,) = spans.requests
        host, port = server.address.removeprefix("http://").split(":")
    assert (span.name, span.parent) == ("POST /v1/models/{name}:predict", None)
    assert headers["traceparent"] == parent_of(span)
    found = dict(span.attributes)
    assert found.pop("client.port") > 0
    assert found == {
        "http.request.method": "POST",
        "http.route": "/v1/models/{name}:predict",
        "http.response.status_code": 200,
        "url.path": PREDICT,
        "url.scheme": "http",
        "server.address": host,
        "server.port": int(port),
        "client.address": "127.0.0.1",
        "modelflow.model": "m",
        "modelflow.version": 1,
        "modelflow.request_id": headers["x-request-id"],
    }
    assert span.status.status_code.name == "UNSET"
    assert span.end_time > span.start_time


@pytest.mark.parametrize(
    ("path", "document", "name", "status", "is_error"),
    [
        ("/V1/models/m/versions/1:PREDICT", BODY,
         "POST /v1/models/{name}/versions/{version}:predict", 200, False),
        ("/v2/models/m/generate", {"input": [1.0]}, "POST /v2/models/{name}/generate", 200, False),
        ("/v2/models/m/generate", {"input": [-1.0]}, "POST /v2/models/{name}/generate", 500, True),
        ("/v1/models/x:predict", BODY, "POST /v1/models/{name}:predict", 404, False),
        ("/no/such/path", BODY, "POST", 404, False),
        ("/v1/models/m:predict", b"{", "POST /v1/models/{name}:predict", 400, False),
    ],
)  # fmt: skip
def test_a_span_has_the_route_for_its_name(spans, path, document, name, status, is_error):
    with served(tracing=spans.provider) as server:
        assert ask(server, path, document)[0] == status
    (span,) = spans.requests
    assert (span.name, span.attributes["http.response.status_code"]) == (name, status)
    assert (span.status.status_code.name == "ERROR") is is_error
    assert span.attributes.get("error.type") == ("500" if is_error else None)


def test_a_method_that_nobody_knows_is_no_name_of_a_span(spans):
    with served(tracing=spans.provider) as server:
        send(server, "PROPFIND", "/v2/models/m")
    (span,) = spans.requests
    assert span.name == "HTTP /v2/models/{name}"
    assert span.attributes["http.request.method"] == "_OTHER"


def test_probes_and_figures_have_no_span(spans):
    with served(tracing=spans.provider) as server:
        for path in ("/livez", "/readyz", "/v2/health/ready", "/metrics", "/stats", "/docs"):
            assert send(server, "GET", path)[0] == 200
    assert not spans.all


def test_a_span_is_below_its_callers(spans):
    headers = {"traceparent": PARENT, "tracestate": "a=1,b=2"}
    with served(tracing=spans.provider) as server:
        answered = ask(server, PREDICT, BODY, headers=headers)[2]
    (span,) = spans.requests
    _, trace, parent, _ = PARENT.split("-")
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (trace, parent)
    assert span.parent.is_remote
    assert answered["traceparent"] == parent_of(span) != PARENT
    assert answered["x-request-id"] == ID
    assert span.context.trace_state.to_header() == "a=1,b=2"


@pytest.mark.parametrize("path", [PREDICT, "/v2/models/m/generate"])
def test_a_graph_is_told_of_the_span_and_not_of_its_parent(spans, path):
    Told.seen.clear()
    headers = {"traceparent": PARENT, "tracestate": "a=1", "x-request-id": "mine"}
    document = {"instances": [[1.0]]} if path == PREDICT else {"input": [1.0]}
    with served(Told, tracing=spans.provider) as server:
        assert ask(server, path, document, headers=headers)[0] == 200
    told = {"request_id": "mine", "traceparent": parent_of(spans.requests[0]), "tracestate": "a=1"}
    assert Told.seen == [told]


def test_a_request_that_is_not_sampled_passes_its_trace_on(tmp_path):
    spans = Spans(ALWAYS_OFF)
    with served(tracing=spans.provider) as server:
        headers = ask(server, PREDICT, BODY, headers={"traceparent": PARENT})[2]
    assert not spans.all
    assert headers["traceparent"].split("-")[1::2] == [PARENT.split("-")[1], "00"]


def test_a_request_that_is_not_let_in_has_a_span(spans, tmp_path):
    (tmp_path / "keys").write_text("s3cret")
    with served(tracing=spans.provider, key_file=tmp_path / "keys") as server:
        assert ask(server, PREDICT, BODY)[0] == 401
    assert spans.requests[0].attributes["http.response.status_code"] == 401


def test_the_access_log_has_the_trace_of_the_span(spans, tmp_path):
    with served(tracing=spans.provider, access_log=str(tmp_path / "log")) as server:
        assert ask(server, PREDICT, BODY)[0] == 200
    (line,) = logged(tmp_path / "log")
    assert line["trace_id"] == f"{spans.requests[0].context.trace_id:032x}"


# -- ends -----------------------------------------------------------------------------------------


def test_a_span_ends_when_its_client_has_gone(spans):
    gate = Gate()
    with served(gate.unit, gate.NODE, tracing=spans.provider) as server:
        host, port = server.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=SECONDS) as client:
            body = json.dumps(BODY).encode()
            head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            assert gate.entered.acquire(timeout=SECONDS)
            assert not spans.requests
        while server.model("m").admission.under_way:
            pass
        gate.go.set()
    (span,) = spans.requests
    assert span.attributes["http.response.status_code"] == 499
    assert span.status.status_code.name == "UNSET"


def test_the_span_of_a_stream_ends_with_the_stream(spans):
    tokens = Tokens()
    with streaming(tokens, tracing=spans.provider) as server, Events(server) as events:
        events.ask(2, f"traceparent: {PARENT}")
        found = events.head()[1]
        assert events.next() == {"output": 0}
        assert not spans.requests
        tokens.go.release()
        assert [events.next(), events.next()] == [{"output": 1}, None]
    (span,) = spans.requests
    assert found["traceparent"] == parent_of(span)
    assert span.name == "POST /v2/models/{name}/generate_stream"


def test_a_request_that_is_late_is_an_error(spans):
    gate, found = Gate(), []
    with served(gate.unit, gate.NODE, tracing=spans.provider) as server:
        try:
            first = asking(server, 1, found)
            assert gate.entered.acquire(timeout=SECONDS)
            asking(server, 2, found, headers={"inference-timeout-ms": "20"}).join()
        finally:
            gate.go.set()
        first.join()
    assert sorted(status for status, _ in found) == [200, 504]
    (span,) = [one for one in spans.requests if one.status.status_code.name == "ERROR"]
    assert span.attributes["http.response.status_code"] == 504


# -- gRPC -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("grpc_server")
def test_a_call_over_grpc_has_a_span(spans):
    metadata = (("traceparent", PARENT), ("tracestate", "a=1"), ("x-request-id", "mine"))
    with (
        grpc_served(tracing=spans.provider) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        method = Stub(channel).method(OIP, "ModelInfer")
        _, call = method.with_call(infer(), timeout=SECONDS, metadata=metadata)
        trailers = dict(call.trailing_metadata())
        port = int(server.grpc_address.rpartition(":")[2])
    (span,) = spans.requests
    assert trailers["traceparent"] == parent_of(span)
    assert f"{span.parent.span_id:016x}" == PARENT.split("-")[2]
    assert span.name == "inference.GRPCInferenceService/ModelInfer"
    found = dict(span.attributes)
    assert found.pop("client.port") > 0
    assert found == {
        "rpc.system.name": "grpc",
        "rpc.method": "inference.GRPCInferenceService/ModelInfer",
        "rpc.response.status_code": "OK",
        "server.address": "127.0.0.1",
        "server.port": port,
        "client.address": "127.0.0.1",
        "modelflow.model": "m",
        "modelflow.version": 1,
        "modelflow.request_id": "mine",
    }


@pytest.mark.usefixtures("grpc_server")
def test_only_what_is_the_servers_fault_is_an_error_over_grpc(spans):
    with (
        grpc_served(tracing=spans.provider) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        stub = Stub(channel)
        with refused("NOT_FOUND"):
            stub.oip("ModelInfer", infer(model_name="x"))
        with refused("INTERNAL"):
            stub.oip("ModelInfer", infer(np.float32([[-1.0]])))
        stub.oip("ServerLive")
        with refused("INVALID_ARGUMENT"):
            stub.call(PREDICTION, "Predict")
    found = [
        (one.attributes["rpc.response.status_code"], one.status.status_code.name)
        for one in spans.requests
    ]
    assert found == [
        ("NOT_FOUND", "UNSET"),
        ("INTERNAL", "ERROR"),
        ("INVALID_ARGUMENT", "UNSET"),
    ]


@pytest.mark.usefixtures("grpc_server")
def test_a_call_that_is_cancelled_ends_its_span(spans):
    gate = Gate()
    with (
        grpc_served(gate.unit, gate.NODE, tracing=spans.provider) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        cancel_one(server, channel, gate)
    (span,) = spans.requests
    assert span.attributes["rpc.response.status_code"] == "CANCELLED"
    assert span.status.status_code.name == "UNSET"


@pytest.mark.usefixtures("grpc_server")
def test_a_stream_over_grpc_is_one_span(spans):
    with (
        grpc_served(tracing=spans.provider) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        stream = Stub(channel).method(OIP, "ModelStreamInfer")
        assert len(list(stream(iter([infer()] * 3), timeout=SECONDS))) == 3
    (span,) = spans.requests
    assert span.attributes["rpc.response.status_code"] == "OK"
