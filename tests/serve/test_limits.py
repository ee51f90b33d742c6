"""Tests of the limits of a server: each limit, and its error."""

import contextlib
import gzip
import json
import socket

import grpc
import numpy as np
import pytest

from modelflow.http.options import ConnectionLimits
from modelflow.serve.server import ServeOptions, Server
from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.proto import OPEN_INFERENCE, TF_SERVING
from tests.http.clients import answer, is_ended, request
from tests.serve.certificates import Authority
from tests.serve.clients import ask, send, served
from tests.serve.grpc.stub import PREDICTION, SECONDS, Stub, grpc_served, infer, predict, refused
from tests.serve.half_plus_two import write_saved_model
from tests.serve.test_generate import FORM, form

PREDICT = "/v1/models/m:predict"
INFER = "/v2/models/m/infer"
GENERATE = "/v2/models/m/generate"
STREAM = "/v2/models/m/generate_stream"
CLASSIFY, REGRESS = "/v1/models/m:classify", "/v1/models/m:regress"


def rows(*values):
    return {"instances": [[float(value) for value in values]]}


def tensor(*values, shape=None):
    data = [float(value) for value in values]
    shape = shape or [1, len(data)]
    return {"inputs": [{"name": "input", "shape": shape, "datatype": "FP32", "data": data}]}


@pytest.mark.parametrize(
    ("path", "document"),
    [
        (PREDICT, rows(*range(9))),
        (INFER, tensor(*range(9))),
        (GENERATE, {"input": list(range(9))}),
        (STREAM, {"input": list(range(9))}),
        (CLASSIFY, {"examples": [{"x": list(range(9))}]}),
        (REGRESS, {"examples": [{"x": list(range(9))}]}),
    ],
)
def test_a_json_document_of_too_many_values_is_refused(path, document):
    with served(json=JsonLimits(elements=8)) as server:
        status, found, _ = ask(server, path, document)
    assert status == 429
    assert "values; at most 8 are taken" in found["error"]


@pytest.mark.parametrize(
    "path", [PREDICT, INFER, GENERATE, STREAM, CLASSIFY, REGRESS, "/v2/repository/index"]
)
def test_a_json_document_that_is_nested_too_deep_is_refused(path):
    with served(json=JsonLimits(depth=4)) as server:
        status, found, _ = ask(server, path, b"[[[[[]]]]]")
    assert (status, found["error"]) == (400, "JSON document: nested 5 deep; at most 4 is taken")


@pytest.mark.usefixtures("grpc_server")
def test_a_tensor_of_too_many_elements_is_refused_over_both_protocols():
    with (
        grpc_served(max_tensor_elements=4) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        assert ask(server, PREDICT, rows(1, 2, 3, 4))[0] == 200
        for path, document in ((PREDICT, rows(*range(5))), (INFER, tensor(*range(5)))):
            status, found, _ = ask(server, path, document)
            assert status == 429
            assert found["error"] == "input 'input': 5 elements; at most 4 are taken"
        client = Stub(channel)
        large = np.ones((1, 5), np.float32)
        with refused("RESOURCE_EXHAUSTED", "at most 4 are taken"):
            client.oip("ModelInfer", infer(large))
        with refused("RESOURCE_EXHAUSTED", "at most 4 are taken"):
            client.call("tensorflow.serving.PredictionService", "Predict", predict(large))


def test_a_request_of_too_many_rows_is_refused_over_both_protocols():
    """Tests rows without elements, and rows repeated from one value, which are cheap to send."""
    endless = {"name": "input", "shape": [1 << 40, 0], "datatype": "FP32", "data": []}
    with (
        grpc_served(max_rows=4) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        assert ask(server, PREDICT, {"instances": [[1.0]] * 4})[0] == 200
        status, found, _ = ask(server, PREDICT, {"instances": [[1.0]] * 5})
        text = "input 'input': 5 rows; at most 4 are taken in one request"
        assert (status, found["error"]) == (429, text)
        status, found, _ = ask(server, INFER, {"inputs": [endless]})
        assert status == 429
        assert f"{1 << 40} rows" in found["error"]
        message = predict(np.ones((1, 1), np.float32))
        message.inputs["input"].tensor_shape.dim[0].size = 5
        client = Stub(channel)
        with refused("RESOURCE_EXHAUSTED", "5 rows; at most 4 are taken"):
            client.call("tensorflow.serving.PredictionService", "Predict", message)


@pytest.mark.parametrize("path", [GENERATE, STREAM])
def test_an_item_of_too_many_elements_is_refused(path):
    with served(max_tensor_elements=4) as server:
        assert send(server, "POST", path, json.dumps({"input": [1.0] * 4}))[0] == 200
        status, found, _ = ask(server, path, {"input": [1.0] * 5})
        assert (status, found["error"]) == (429, "input 'input': 5 elements; at most 4 are taken")
        status, _, text = send(server, "POST", path, form(("input", b"[1, 2, 3, 4, 5]")), FORM)
        assert (status, "5 elements; at most 4" in text.decode()) == (429, True)


@pytest.mark.parametrize(
    ("limits", "field", "status", "text"),
    [
        ({"depth": 4}, b"[[[[[]]]]]", 400, "nested 5 deep; at most 4 is taken"),
        ({"elements": 8}, b"[1,2,3,4,5,6,7,8,9]", 429, "9 values; at most 8 are taken"),
    ],
)
@pytest.mark.parametrize("path", [GENERATE, STREAM])
def test_a_field_of_a_form_keeps_the_limits_of_json(path, limits, field, status, text):
    with served(json=JsonLimits(**limits)) as server:
        found = send(server, "POST", path, form(("input", field)), FORM)
    assert (found[0], text in json.loads(found[2])["error"]) == (status, True)


def test_a_form_that_is_too_long_when_it_is_decompressed_is_refused():
    with served(max_decompressed=1000) as server:
        body = gzip.compress(form(("input", b"[1.0]" + b" " * 1000)))
        found = send(server, "POST", GENERATE, body, {**FORM, "Content-Encoding": "gzip"})
        assert (found[0], b"when it is decompressed" in found[2]) == (400, True)
        body = gzip.compress(form(("input", b"[1.0]")))
        assert send(server, "POST", GENERATE, body, {**FORM, "Content-Encoding": "gzip"})[0] == 200


# -- examples -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m"
    write_saved_model(path / "1")
    return path


def examples(*found, **context):
    return {"signature_name": "regress", "examples": [*found], "context": context}


@pytest.mark.usefixtures("grpc_server")
def test_examples_of_too_many_elements_are_refused_over_both_protocols(folder):
    options = ServeOptions(http_port=0, grpc_port=0, max_tensor_elements=4)
    with Server({"m": folder}, options) as server:
        assert ask(server, REGRESS, examples(*[{"x": 1.0}] * 4))[0] == 200
        status, found, _ = ask(server, REGRESS, examples(*[{}] * 5, x=1.0))
        assert (status, found["error"]) == (429, "feature 'x': 5 elements; at most 4 are taken")
        with (
            grpc.insecure_channel(server.grpc_address) as channel,
            refused("RESOURCE_EXHAUSTED", "5 elements; at most 4 are taken"),
        ):
            Stub(channel).call(PREDICTION, "Regress", _regress(5))


@pytest.mark.usefixtures("grpc_server")
def test_a_context_that_is_long_with_every_example_is_refused_over_both_protocols(folder):
    options = ServeOptions(http_port=0, grpc_port=0, max_decompressed=10_000)
    with Server({"m": folder}, options) as server:
        assert ask(server, REGRESS, examples(*[{"x": 1.0}] * 9, c="c" * 1000))[0] == 200
        status, found, _ = ask(server, REGRESS, examples(*[{"x": 1.0}] * 10, c="c" * 1000))
        assert (status, "more than 10000 bytes, each with" in found["error"]) == (429, True)
        with (
            grpc.insecure_channel(server.grpc_address) as channel,
            refused("RESOURCE_EXHAUSTED", "more than 10000 bytes, each with"),
        ):
            Stub(channel).call(PREDICTION, "Regress", _regress(10, b"c" * 1000))


def _regress(count, text=b""):
    message = TF_SERVING["tensorflow.serving.RegressionRequest"]()
    message.model_spec.name, message.model_spec.signature_name = "m", "regress"
    held = message.input.example_list_with_context
    held.context.features.feature["x"].float_list.value.append(1.0)
    held.context.features.feature["c"].bytes_list.value.append(text)
    for _ in range(count):
        held.examples.add()
    return message


@pytest.mark.usefixtures("grpc_server")
def test_a_tensor_of_one_value_repeated_is_refused_before_it_is_made():
    with (
        grpc_served(max_tensor_elements=1000) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        message = predict()
        sent = message.inputs["input"]
        sent.tensor_content = b""
        del sent.float_val[:]
        sent.float_val.append(1.0)
        for axis, size in zip(sent.tensor_shape.dim, (1, 1001), strict=True):
            axis.size = size
        with refused("RESOURCE_EXHAUSTED", "at most 1000 are made of 1 values"):
            Stub(channel).call("tensorflow.serving.PredictionService", "Predict", message)


@pytest.mark.parametrize("path", [INFER, GENERATE, STREAM])
def test_a_body_that_is_too_long_when_it_is_decompressed_is_refused(path):
    with served(max_decompressed=1000) as server:
        body = gzip.compress(b" " * 1001)
        status, _, found = send(server, "POST", path, body, {"Content-Encoding": "gzip"})
    assert status == 400
    assert "more than 1000 bytes when it is decompressed" in json.loads(found)["error"]


def test_a_body_may_be_longer_decompressed_than_as_it_came():
    with served(max_body=200, max_decompressed=10_000) as server:
        body = gzip.compress(json.dumps(tensor(*[1.0] * 1000)).encode())
        assert len(body) < 200
        assert send(server, "POST", INFER, body, {"Content-Encoding": "gzip"})[0] == 200


def test_bodies_that_find_no_room_beside_others_are_refused():
    with served(max_bodies=10) as server:
        assert ask(server, PREDICT, rows(1))[0] == 503


@pytest.mark.parametrize(
    ("limits", "headers", "text"),
    [
        ({"headers": 4}, [f"x-{n}: 1" for n in range(4)], "more than 4 headers"),
        ({"header_bytes": 300}, ["x: " + "y" * 300], "more than 300 bytes"),
    ],
)
def test_a_head_that_is_too_large_is_refused(limits, headers, text):
    with served(connections=ConnectionLimits(**limits)) as server, _client(server) as client:
        client.sendall(request("/livez", b"", *headers, method="GET"))
        status, _, body = answer(client)
        assert (status, text in body.decode()) == (431, True)
        assert is_ended(client)


def test_as_many_headers_as_there_may_be_are_taken():
    with served(connections=ConnectionLimits(headers=4)) as server, _client(server) as client:
        client.sendall(request("/livez", b"", *[f"x-{n}: 1" for n in range(3)], method="GET"))
        assert answer(client)[0] == 200


def test_a_connection_ends_behind_its_last_request():
    with served(connections=ConnectionLimits(requests=2)) as server, _client(server) as client:
        client.sendall(request("/livez", method="GET") * 3)
        assert "connection" not in answer(client)[1]
        assert answer(client)[1]["connection"] == "close"
        assert is_ended(client)


def test_more_connections_than_there_may_be_are_refused():
    limits = ConnectionLimits(connections=1, per_client=1)
    with served(connections=limits) as server, _client(server) as first:
        head = f"POST {PREDICT} HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        first.sendall(head.encode())
        assert first.recv(12) == b"HTTP/1.1 100"  # the connection is no longer idle
        with _client(server) as second:
            second.sendall(request("/v1/models/m", method="GET"))
            assert answer(second)[0] == 503


def test_a_head_a_body_and_a_rest_have_their_times():
    limits = ConnectionLimits(header_time_out=0.1, keepalive=0.1)
    with served(connections=limits, body_time_out=0.1) as server:
        with _client(server) as client:
            client.sendall(b"GET /livez HT")
            assert answer(client)[0] == 408
        with _client(server) as client:
            client.sendall(f"POST {PREDICT} HTTP/1.1\r\nContent-Length: 9\r\n\r\n".encode())
            assert answer(client)[0] == 408
        with _client(server) as client:
            client.sendall(request("/livez", method="GET"))
            assert answer(client)[0] == 200
            assert is_ended(client)


@pytest.mark.usefixtures("grpc_server")
def test_a_message_that_is_too_long_is_refused():
    with (
        grpc_served(max_body=1000) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
        refused("RESOURCE_EXHAUSTED"),
    ):
        Stub(channel).oip("ModelInfer", infer(np.ones((1, 1000), np.float32)))


@pytest.mark.usefixtures("grpc_server")
def test_metadata_that_are_too_long_are_refused():
    limits = ConnectionLimits(header_bytes=1000)
    with (
        grpc_served(connections=limits) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        method = Stub(channel).method("inference.GRPCInferenceService", "ServerLive")
        live = method(_live(), timeout=SECONDS)
        assert live.live
        with refused("RESOURCE_EXHAUSTED"):
            method(_live(), timeout=SECONDS, metadata=(("x", "y" * 20_000),))


def _live():
    return OPEN_INFERENCE["inference.ServerLiveRequest"]()


def _client(server):
    host, port = server.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS)


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "TLS"])
def test_probes_are_answered_while_a_client_holds_all_connections(is_tls, tmp_path):
    """Opens as many connections as fit, each with an unanswered request, and some more."""
    authority = Authority(tmp_path)
    limits = ConnectionLimits(connections=4)
    tls = authority.options() if is_tls else None
    with served(connections=limits, tls=tls) as server, contextlib.ExitStack() as stack:

        def connect():
            host, port = server.address.partition("://")[2].split(":")
            one = stack.enter_context(socket.create_connection((host, int(port)), 60))
            if not is_tls:
                return one
            return stack.enter_context(authority.client().wrap_socket(one, server_hostname=host))

        def ask(path):
            one = connect()
            one.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            answer = b""
            while part := one.recv(1 << 16):  # the server closes the connection
                answer += part
            return int(answer.split()[1])

        half = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"
        for _ in range(6):
            connect().sendall(half)
        for _ in range(40):  # silent connections
            with contextlib.suppress(OSError):  # the server closes the oldest ones
                connect()
        for path in ("/livez", "/readyz", "/metrics", "/stats", "/v2/health/ready"):
            assert ask(path) == 200
        assert ask("/v1/models/m") == 503
