"""Tests that clients get an answer in time although a unit does not return."""

import contextlib
import json
import socket
import threading

import numpy as np
import pytest

import modelflow
from modelflow.unit import function
from tests.serve.clients import ask, served
from tests.serve.grpc.stub import OIP, grpc_served, infer, predict, refused, stub

SECONDS = 0.15
DEADLINE = "its deadline passed before it was computed"
LIMIT = "there was no answer within 0.15 s (--request-timeout)"
HELD = [[1.0, 3.0]]
FREE = [[0.0, 4.0]]
TENSOR = {"name": "input", "datatype": "FP32", "shape": [1, 2], "data": HELD}


class Hold:
    """A unit that waits if a row begins with 1."""

    def __init__(self):
        self.is_over = threading.Event()

    def unit(self):
        @modelflow.flowunit(name="mean")
        def mean_or_hold(row):
            if row[0] == 1:
                self.is_over.wait()
            return np.float32(np.mean(row))

        del function._declared["mean"]  # else the unit would be declared for other tests
        return mean_or_hold


def end_hold(hold, seconds):
    """Releases blocked rows after so much time."""
    hold.is_over.wait(seconds)
    hold.is_over.set()


@contextlib.contextmanager
def held(make=served, node="threads=1", **options):
    hold = Hold()
    with make(hold.unit(), node, **options) as server:
        try:
            yield server, hold
        finally:
            hold.is_over.set()


def rest(path, document, headers=None):
    return lambda server: ask(server, path, document, headers=headers)[:2]


def patient(milliseconds=150):
    return {"Inference-Timeout-Ms": str(milliseconds)}


ENTRANCES = {
    "predict": ("/v1/models/m:predict", {"instances": HELD}),
    "predict, columns": ("/v1/models/m:predict", {"inputs": HELD}),
    "predict, two rows": ("/v1/models/m:predict", {"instances": HELD * 2}),
    "infer": ("/v2/models/m/infer", {"inputs": [TENSOR]}),
    "generate": ("/v2/models/m/generate", {"input": HELD[0]}),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_deadline_over_http_is_kept(entrance):
    path, document = ENTRANCES[entrance]
    with held() as (server, hold):
        status, answer, _ = ask(server, path, document, headers=patient())
        assert (status, DEADLINE in answer["error"]) == (504, True), answer
        hold.is_over.set()
        assert ask(server, "/v1/models/m:predict", {"instances": FREE})[1] == {"predictions": [2.0]}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_what_a_unit_has_begun_is_answered_though_its_deadline_has_passed(entrance, monkeypatch):
    monkeypatch.setattr("modelflow.serve.requests.time_limits._GRACE", 1000.0)
    path, document = ENTRANCES[entrance]
    if entrance == "predict, two rows":  # one batch
        document = {"instances": HELD + FREE}
    with held(node="threads=1, batch_size=2") as (server, hold):
        late = threading.Thread(target=end_hold, args=(hold, 2 * SECONDS))
        late.start()
        assert ask(server, path, document, headers=patient())[0] == 200
        late.join()


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_the_servers_limit_holds_where_nobody_says_how_long_he_waits(entrance):
    path, document = ENTRANCES[entrance]
    with held(request_timeout=SECONDS) as (server, hold):
        status, answer, _ = ask(server, path, document)
        assert (status, LIMIT in answer["error"]) == (504, True), answer
        hold.is_over.set()
        assert ask(server, "/v1/models/m:predict", {"instances": FREE})[1] == {"predictions": [2.0]}
        assert server.model("m").admission.under_way == 0


def test_the_timeout_of_open_inference_is_kept():
    document = {"inputs": [TENSOR], "parameters": {"timeout": 150_000}}
    with held() as (server, _):
        status, answer, _ = ask(server, "/v2/models/m/infer", document)
    assert (status, answer["error"]) == (504, DEADLINE)


def test_a_longer_deadline_does_not_lift_the_servers_limit():
    with held(request_timeout=SECONDS) as (server, _):
        path, document = ENTRANCES["infer"]
        status, answer, _ = ask(server, path, document, headers=patient(60_000))
    assert (status, answer["error"]) == (504, LIMIT)


@pytest.mark.parametrize("headers", [None, patient()], ids=["limit", "deadline"])
def test_a_stream_whose_next_part_does_not_come_ends_with_the_reason(headers):
    limit = 60.0 if headers else SECONDS
    with held(request_timeout=limit) as (server, _):
        path = "/v2/models/m/generate_stream"
        host, port = server.address.removeprefix("http://").split(":")
        body = json.dumps({"input": HELD[0]})
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            with client.makefile("rb") as found:
                answer = found.read().decode()
    assert (DEADLINE if headers else LIMIT) in answer


def test_rows_that_find_no_room_behind_a_unit_that_hangs_are_given_up_as_well():
    """Tests rows in the unit, in its queue, parsed and waiting, and not parsed yet."""
    node = "threads=1, batch_size=1, queue_size=1"
    with held(node=node, request_timeout=SECONDS) as (server, hold):
        host, port = server.address.removeprefix("http://").split(":")
        body = json.dumps({"instances": HELD})
        head = "POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\n"
        message = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
        with contextlib.ExitStack() as clients:
            files = []
            for _ in range(12):
                client = clients.enter_context(socket.create_connection((host, int(port)), 60))
                client.sendall(message * 2)
                files.append(clients.enter_context(client.makefile("rb")))
            for file in files:
                for _ in range(2):
                    assert file.readline() == b"HTTP/1.1 504 Gateway Timeout\r\n"
                    length = 0
                    while (line := file.readline()) != b"\r\n":
                        name, _, value = line.partition(b":")
                        length = int(value) if name.lower() == b"content-length" else length
                    assert LIMIT in file.read(length).decode()
        hold.is_over.set()
        assert ask(server, "/v1/models/m:predict", {"instances": FREE})[1] == {"predictions": [2.0]}
        assert server.model("m").admission.under_way == 0


@pytest.mark.parametrize("headers", [None, patient()], ids=["limit", "deadline"])
def test_requests_of_several_rows_that_find_no_room_are_given_up_as_well(headers):
    node = "threads=1, batch_size=1, queue_size=1"
    limit = 60.0 if headers else SECONDS
    with held(node=node, request_timeout=limit) as (server, hold):
        found = []

        def send():
            path, document = ENTRANCES["predict, two rows"]
            found.append(ask(server, path, document, headers=headers)[:2])

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = DEADLINE if headers else LIMIT
        assert [(status, answer["error"]) for status, answer in found] == [(504, expected)] * 8
        hold.is_over.set()
        assert ask(server, "/v1/models/m:predict", {"instances": FREE})[1] == {"predictions": [2.0]}
        assert server.model("m").admission.under_way == 0


def test_what_was_given_up_is_told_by_the_figures():
    with held() as (server, hold):
        path, document = ENTRANCES["infer"]
        assert ask(server, path, document, headers=patient())[0] == 504
        hold.is_over.set()
        assert ask(server, path, {"inputs": [{**TENSOR, "data": FREE}]})[0] == 200
        stats = ask(server, "/v2/models/m/stats")[1]["model_stats"][0]["inference_stats"]
    assert (stats["fail"]["count"], stats["success"]["count"]) == (1, 1)


@pytest.mark.usefixtures("grpc_server")
class TestGrpc:
    """The same tests over gRPC."""

    @pytest.mark.parametrize("timeout", [SECONDS, 60.0], ids=["deadline", "limit"])
    @pytest.mark.parametrize("message", [infer(np.float32(HELD)), predict(np.float32(HELD))])
    def test_calls_are_answered_in_time(self, message, timeout):
        limit = 60.0 if timeout == SECONDS else SECONDS
        with held(grpc_served, request_timeout=limit) as (server, hold), stub(server) as client:
            is_oip = message.DESCRIPTOR.full_name.startswith("inference.")
            service = OIP if is_oip else "tensorflow.serving.PredictionService"
            with refused("DEADLINE_EXCEEDED"):
                client.call(service, "ModelInfer" if is_oip else "Predict", message, timeout)
            hold.is_over.set()
            answer = client.oip("ModelInfer", infer(np.float32(FREE)))
            assert np.frombuffer(answer.raw_output_contents[0], "<f4") == [2.0]

    def test_a_message_of_a_stream_has_a_deadline_of_its_own(self):
        late = infer(np.float32(HELD), id="late")
        late.parameters["timeout"].int64_param = 150_000
        with held(grpc_served, "threads=2") as (server, hold), stub(server) as client:
            messages = [late, infer(np.float32(FREE), id="free")]
            call = client.method(OIP, "ModelStreamInfer")(iter(messages), timeout=60)
            first, second = call
            hold.is_over.set()
        assert first.error_message == DEADLINE
        assert second.infer_response.id == "free"
