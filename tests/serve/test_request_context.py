"""Tests of the data that is recorded of requests: ids, traces, lines of the access log."""

import json
import socket
import threading
from datetime import datetime
from typing import ClassVar

import grpc
import numpy as np
import pytest

import modelflow
from modelflow.errors import ConfigError
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.server import ServeOptions, Server
from modelflow.unit.kind import Normal
from modelflow.wire.proto import TF_SERVING
from tests.http.test_trace import ID, PARENT
from tests.serve.clients import ask, send, served
from tests.serve.grpc.stub import (
    PREDICTION,
    SECONDS,
    Stub,
    grpc_served,
    infer,
    predict,
    refused,
)
from tests.serve.half_plus_two import CLASSIFY, REGRESS, example, write_saved_model
from tests.serve.test_generate_stream import Events, streaming
from tests.serve.test_server import Gate
from tests.serve.tokens import Tokens

PREDICT = "/v1/models/m:predict"
BODY = {"instances": [[1.0, 3.0]]}


def logged(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# -- ids ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(grpc_server):
    with grpc_served() as running:
        yield running


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"X-Request-Id": "my-id.1"}, "my-id.1"),
        ({"traceparent": PARENT}, ID),
        ({"x-request-id": "mine", "traceparent": PARENT}, "mine"),
        ({"x-request-id": "two words", "traceparent": PARENT}, ID),
        ({"x-request-id": "x" * 129, "traceparent": PARENT}, ID),
    ],
)
@pytest.mark.parametrize("path", [PREDICT, "/elsewhere", "/v1/models/x:predict"])
def test_a_request_has_the_id_that_it_brings(server, headers, expected, path):
    assert ask(server, path, BODY, headers=headers)[2]["x-request-id"] == expected


@pytest.mark.parametrize("given", ["", "é", 'a"b', "x" * 129, "a b"])
def test_an_id_that_is_not_fit_for_a_log_is_replaced(server, given):
    found = ask(server, PREDICT, BODY, headers={"x-request-id": given})[2]["x-request-id"]
    assert len(found) == 32
    assert found != given


def test_a_trace_is_answered_as_it_came_and_one_that_is_none_is_not(server):
    headers = {"traceparent": PARENT, "tracestate": "a=1"}
    assert ask(server, PREDICT, BODY, headers=headers)[2]["traceparent"] == PARENT
    headers = {"traceparent": "nonsense"}
    assert "traceparent" not in ask(server, PREDICT, BODY, headers=headers)[2]


def test_who_brings_nothing_is_answered_nothing(server):
    assert "x-request-id" not in ask(server, PREDICT, BODY)[2]


def test_a_call_over_grpc_has_the_id_that_it_brings(server):
    with grpc.insecure_channel(server.grpc_address) as channel:
        method = Stub(channel).method("inference.GRPCInferenceService", "ModelInfer")
        metadata = (("x-request-id", "mine"), ("traceparent", PARENT))
        _, call = method.with_call(infer(), timeout=SECONDS, metadata=metadata)
        assert {("x-request-id", "mine"), ("traceparent", PARENT)} <= set(call.trailing_metadata())
        with refused("NOT_FOUND") as found:
            method(infer(model_name="x"), timeout=SECONDS, metadata=metadata)
        assert ("x-request-id", "mine") in found[0].trailing_metadata()


# -- the context of a graph's sessions ------------------------------------------------------------


class Told(modelflow.FlowUnit):
    """Records the session contexts of requests."""

    SPEC = modelflow.FlowUnitSpec(
        "mean",
        {"cpu": lambda: Told()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        kind=Normal(is_per_stream=True),
    )
    seen: ClassVar[list[dict[str, str]]] = []

    def process(self, ctx):
        self.seen.append(dict(ctx.session))
        ctx.outputs["out"].extend(ctx.inputs["in"])


@pytest.mark.usefixtures("grpc_server")
def test_a_graph_is_told_of_the_trace(tmp_path):
    Told.seen.clear()
    body = {"inputs": [{"name": "input", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}]}
    headers = {"traceparent": PARENT, "tracestate": "a=1", "x-request-id": "mine"}
    with grpc_served(Told, node="batch_size=8, threads=1") as server:
        for path, document in (
            (PREDICT, {"instances": [[1.0]]}),
            ("/v2/models/m/infer", body),
            ("/v2/models/m/generate", {"input": [1.0]}),
        ):
            assert ask(server, path, document, headers=headers)[0] == 200
        with grpc.insecure_channel(server.grpc_address) as channel:
            method = Stub(channel).method("inference.GRPCInferenceService", "ModelInfer")
            method(infer(), timeout=SECONDS, metadata=tuple(headers.items()))
            prediction = Stub(channel).method("tensorflow.serving.PredictionService", "Predict")
            prediction(predict(), timeout=SECONDS, metadata=tuple(headers.items()))
        assert ask(server, PREDICT, {"instances": [[1.0]]})[0] == 200
    told = {"request_id": "mine", "traceparent": PARENT, "tracestate": "a=1"}
    assert Told.seen[:5] == [told] * 5
    assert Told.seen[-1] == {}


# -- the access log -------------------------------------------------------------------------------


def test_each_request_has_a_line(tmp_path):
    path = tmp_path / "log"
    with served(access_log=str(path), key_file=_keys(tmp_path)) as server:
        headers = {"x-api-key": "s3cret", "traceparent": PARENT}
        assert ask(server, f"{PREDICT}?key=s3cret", BODY, headers=headers)[0] == 200
        assert ask(server, PREDICT, BODY)[0] == 401
        assert ask(server, "/v2/models/x/infer", {}, headers=headers)[0] == 404
        assert send(server, "GET", "/livez")[0] == 200
    good, refused_, unknown, live = logged(path)
    assert datetime.fromisoformat(good.pop("time")).utcoffset().total_seconds() == 0
    assert good.pop("client").startswith("127.0.0.1:")
    assert good.pop("ms") > 0
    assert good == {
        "request_id": ID,
        "trace_id": ID,
        "method": "POST",
        "path": PREDICT,
        "model": "m",
        "version": 1,
        "status": 200,
        "bytes_in": len(json.dumps(BODY)),
        "bytes_out": len(b'{"predictions":[2.0]}'),
    }
    assert (refused_["status"], refused_["model"], refused_["bytes_in"]) == (401, None, 0)
    assert (unknown["status"], unknown["path"]) == (404, "/v2/models/x/infer")
    assert (live["status"], len(live["request_id"])) == (200, 32)
    assert "s3cret" not in path.read_text()


def _keys(tmp_path):
    (tmp_path / "keys").write_text("s3cret")
    return tmp_path / "keys"


@pytest.mark.usefixtures("grpc_server")
def test_each_call_over_grpc_has_a_line(tmp_path):
    path = tmp_path / "log"
    with (
        grpc_served(access_log=str(path)) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        client, request = Stub(channel), infer()
        answer = client.oip("ModelInfer", request)
        with refused("NOT_FOUND"):
            client.oip("ModelInfer", infer(model_name="x"))
        stream = client.method("inference.GRPCInferenceService", "ModelStreamInfer")
        assert len(list(stream(iter([request] * 3), timeout=SECONDS))) == 3
    good, unknown, streamed = logged(path)
    assert good["rpc"] == "/inference.GRPCInferenceService/ModelInfer"
    assert (good["status"], good["model"], good["version"]) == ("OK", "m", 1)
    assert (good["bytes_in"], good["bytes_out"]) == (request.ByteSize(), answer.ByteSize())
    assert good["client"].startswith("127.0.0.1:")
    assert unknown["status"] == "NOT_FOUND"
    assert (streamed["status"], streamed["bytes_in"]) == ("OK", 3 * request.ByteSize())


@pytest.mark.usefixtures("grpc_server")
def test_a_client_that_goes_away_has_a_line_all_the_same(tmp_path):
    gate, path = Gate(), tmp_path / "log"
    with grpc_served(gate.unit, gate.NODE, access_log=str(path)) as server:
        host, port = server.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=SECONDS) as client:
            body = json.dumps(BODY).encode()
            head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            assert gate.entered.acquire(timeout=SECONDS)
        while server.model("m").admission.under_way:
            pass
        gate.go.set()
    assert [(line["status"], line["model"]) for line in logged(path)] == [(499, "m")]


def test_a_line_of_somebody_who_is_not_answered_in_time_says_so(tmp_path):
    path = tmp_path / "log"
    with served(access_log=str(path), body_time_out=0.1) as server:
        host, port = server.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=SECONDS) as client:
            client.sendall(f"POST {PREDICT} HTTP/1.1\r\nContent-Length: 9\r\n\r\n".encode())
            assert client.recv(1000).startswith(b"HTTP/1.1 408")
    assert [line["status"] for line in logged(path)] == [408]


def test_a_refresh_opens_the_log_anew(tmp_path):
    path, old = tmp_path / "log", tmp_path / "log.1"
    with served(access_log=str(path)) as server:
        assert ask(server, PREDICT, BODY)[0] == 200
        path.rename(old)
        server.refresh()
        while not path.exists():
            pass
        assert ask(server, PREDICT, BODY)[0] == 200
    assert (len(logged(old)), len(logged(path))) == (1, 1)


def test_nothing_listens_where_the_log_cannot_be_written(tmp_path):
    with pytest.raises(ConfigError, match=r"access log .* cannot be written"):
        served(access_log=str(tmp_path / "gone" / "log")).start()


def test_a_request_without_a_log_makes_no_more_calls(server):
    """Tests that a request with an id costs more calls, and a request without an id does not."""
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Middleware, "receive", lambda *_: made.append(1))
        assert ask(server, PREDICT, BODY)[0] == 200
        assert not made
        assert ask(server, PREDICT, BODY, headers={"traceparent": PARENT})[0] == 200
        assert made


# -- answers that come part by part ---------------------------------------------------------------


@pytest.mark.usefixtures("grpc_server")
def test_a_graph_is_told_of_the_trace_of_a_stream(tmp_path):
    Told.seen.clear()
    headers = {"traceparent": PARENT, "x-request-id": "mine"}
    with grpc_served(Told, node="batch_size=8, threads=1") as server:
        path = "/v2/models/m/generate_stream"
        assert send(server, "POST", path, b'{"input": [1.0]}', headers)[0] == 200
        with grpc.insecure_channel(server.grpc_address) as channel:
            method = Stub(channel).method("inference.GRPCInferenceService", "ModelStreamInfer")
            assert len(list(method(iter([infer()]), metadata=tuple(headers.items())))) == 1
    told = {"request_id": "mine", "traceparent": PARENT}
    assert Told.seen == [told] * 2


def test_a_streamed_answer_has_the_id_that_its_request_brings():
    tokens = Tokens(is_free=True)
    with streaming(tokens) as server, Events(server) as events:
        events.ask(2, "x-request-id: mine", f"traceparent: {PARENT}")
        found = events.head()[1]
    assert (found["x-request-id"], found["traceparent"]) == ("mine", PARENT)
    assert found["content-type"].startswith("text/event-stream")


def test_a_stream_has_its_line_when_it_ends(tmp_path):
    tokens, path = Tokens(), tmp_path / "log"
    with streaming(tokens, access_log=str(path)) as server, Events(server) as events:
        events.ask(2)
        events.head()
        assert events.next() == {"output": 0}
        assert ask(server, "/v2")[0] == 200
        server.refresh()  # earlier lines are written before the file is opened again
        while len(path.read_text().splitlines()) < 1:
            pass
        assert [line["path"] for line in logged(path)] == ["/v2"]
        tokens.go.release()
        assert [events.next(), events.next()] == [{"output": 1}, None]
    line = logged(path)[-1]
    assert (line["path"], line["model"]) == ("/v2/models/m/generate_stream", "m")
    assert (line["status"], line["bytes_in"]) == (200, len(b'{"input": 2}'))
    assert line["bytes_out"] == len(b'data: {"output": 0}\n\ndata: {"output": 1}\n\n')


def test_a_stream_that_nobody_reads_to_its_end_has_a_line_of_what_was_sent(tmp_path):
    tokens, path = Tokens(), tmp_path / "log"
    with streaming(tokens, access_log=str(path)) as server:
        with Events(server) as events:
            events.ask(9)
            events.head()
            assert events.next() == {"output": 0}
            events.ask(9)  # waits for the reply before, which does not end
            assert tokens.began.acquire(timeout=SECONDS)
            assert tokens.began.acquire(timeout=SECONDS)
        while server.model("m").admission.under_way:
            pass
        tokens.go.release(100)
    found = [(line["status"], line["model"], line["bytes_out"]) for line in logged(path)]
    assert found == [(499, "m", len(b'data: {"output": 0}\n\n')), (499, "m", 0)]


def test_a_stream_that_is_cut_by_a_stop_has_a_line(tmp_path):
    tokens, path = Tokens(), tmp_path / "log"
    with streaming(tokens, access_log=str(path)) as server, Events(server) as events:
        events.ask(9)
        events.head()
        assert events.next() == {"output": 0}
        stopping = threading.Thread(target=server.stop, args=(False,))
        stopping.start()
        assert events.file.read() == b""
        tokens.go.release(100)
        stopping.join()
    assert [(line["status"], line["model"]) for line in logged(path)] == [(499, "m")]


@pytest.mark.usefixtures("grpc_server")
def test_a_stream_over_grpc_has_a_line_of_all_its_messages(tmp_path):
    tokens, path = Tokens(is_free=True), tmp_path / "log"
    request = infer(np.array([[3.0]], np.float32))
    with (
        streaming(tokens, grpc_port=0, access_log=str(path)) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        method = Stub(channel).method("inference.GRPCInferenceService", "ModelStreamInfer")
        answers = list(method(iter([request] * 2), timeout=SECONDS))
    assert sum(answer.infer_response.ByteSize() > 0 for answer in answers) >= 6
    (line,) = logged(path)
    assert (line["status"], line["model"], line["version"]) == ("OK", "m", 1)
    assert line["bytes_in"] == 2 * request.ByteSize()
    assert line["bytes_out"] == sum(answer.ByteSize() for answer in answers)


@pytest.mark.usefixtures("grpc_server")
def test_examples_have_lines_with_their_model(tmp_path):
    write_saved_model(tmp_path / "m" / "1")
    options = ServeOptions(http_port=0, grpc_port=0, access_log=str(tmp_path / "log"))
    with Server({"m": tmp_path / "m"}, options) as server:
        body = {"signature_name": "classify", "examples": [{"x": 1.0}]}
        assert ask(server, "/v1/models/m:classify", body)[0] == 200
        with grpc.insecure_channel(server.grpc_address) as channel:
            client, x = Stub(channel), example(x=1.0).SerializeToString()
            asked = TF_SERVING["tensorflow.serving.MultiInferenceRequest"]()
            asked.input.example_list.examples.add().ParseFromString(x)
            for name, method in (("classify", CLASSIFY), ("regress", REGRESS)):
                task = asked.tasks.add(method_name=method)
                task.model_spec.name, task.model_spec.signature_name = "m", name
            client.call(PREDICTION, "MultiInference", asked)
    rest, multi = logged(tmp_path / "log")
    assert (rest["path"], rest["model"], rest["status"]) == ("/v1/models/m:classify", "m", 200)
    assert multi["rpc"] == "/tensorflow.serving.PredictionService/MultiInference"
    assert (multi["model"], multi["version"], multi["status"]) == ("m", 1, "OK")
    assert multi["bytes_in"] == asked.ByteSize()


@pytest.mark.usefixtures("grpc_server")
def test_loading_over_grpc_has_a_line_without_a_model(tmp_path):
    path = tmp_path / "log"
    with (
        grpc_served(access_log=str(path)) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
        refused("PERMISSION_DENIED"),
    ):
        Stub(channel).oip("RepositoryModelLoad", model_name="m")
    (line,) = logged(path)
    assert (line["rpc"].rpartition("/")[2], line["model"]) == ("RepositoryModelLoad", None)
    assert line["status"] == "PERMISSION_DENIED"
