"""A served flow, and real clients."""

import contextlib
import http.client
import json
import os
import signal
import socket
import threading

import grpc
import pytest

import modelflow
from modelflow.errors import ConfigError, FlowFailed, StreamClosed
from modelflow.http.server import Server as HttpServer
from modelflow.serve.repository.loader import Loader
from modelflow.serve.server import ServeOptions, Server
from modelflow.wire.proto import OPEN_INFERENCE
from tests.serve.clients import TYPED, ask, mean, send, served
from tests.serve.grpc.stub import stub

GRAPH = TYPED.format(node="batch_size=8")


@pytest.fixture(scope="module")
def server():
    with served() as running:
        yield running


PREDICT = "/v1/models/m:predict"


def test_rows_are_answered_with_predictions(server):
    status, found, headers = ask(server, PREDICT, {"instances": [[1.0, 2.0], [3.0, 5.0]]})
    assert (status, found) == (200, {"predictions": [1.5, 4.0]})
    assert headers["content-type"] == "application/json"


def test_columns_are_answered_with_outputs(server):
    assert ask(server, PREDICT, {"inputs": [[1.0, 2.0]]})[:2] == (200, {"outputs": [1.5]})


@pytest.mark.parametrize(
    ("path", "document", "status", "text"),
    [
        (PREDICT, {}, 400, "Missing 'inputs' or 'instances' key"),
        (PREDICT, {"instances": []}, 400, "No values in 'instances'"),
        (PREDICT, b"{", 400, ""),
        (PREDICT, b"", 400, ""),
        (PREDICT, {"instances": [1.0], "signature_name": "x"}, 400, '"x" not found in signature'),
        ("/v1/models/x:predict", {"instances": [1.0]}, 404, "Latest(x)"),
        ("/v1/models/m/versions/5:predict", {"instances": [1.0]}, 404, "Specific(m, 5)"),
        (f"/v1/models/m/versions/{'9' * 5000}:predict", {"instances": [1.0]}, 404, "Specific(m, 9"),
        ("/v1/models/m:classify", {"examples": [{}]}, 400, "Expected a signature that takes"),
        ("/v1/models/x", None, 404, "Could not find any versions of model x"),
        ("/elsewhere", None, 404, "Malformed request: GET /elsewhere"),
    ],
)
def test_what_is_wrong_is_said_as_clients_expect_it(server, path, document, status, text):
    found = ask(server, path, document)
    assert found[0] == status
    assert text in found[1]["error"]


def test_a_method_that_is_not_allowed_is_405(server):
    status, found, headers = ask(server, PREDICT, None, "GET")
    assert (status, headers["allow"]) == (405, "POST")
    assert found == {"error": f"Malformed request: GET {PREDICT}; expected POST"}


@pytest.mark.parametrize("given", ["graph.toml", ["graph.toml"], 5])
def test_sources_without_names_are_refused(given):
    with pytest.raises(ConfigError, match=r"got .*; expected names with their sources"):
        Server(given)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/v1/models/m", "/v2"])
def test_what_answers_get_answers_head_without_a_body(server, path):
    status, headers, body = send(server, "HEAD", path, None)
    assert (status, body) == (200, b"")
    got, _, whole = send(server, "GET", path, None)
    assert (got, path == "/metrics" or headers["content-length"] == str(len(whole))) == (200, True)


def test_a_path_that_is_nobodys_is_answered_with_where_to_look(server):
    assert "/docs lists" in ask(server, "/")[1]["error"]


def test_an_item_that_fails_is_named_and_what_failed_inside_is_not_told(server, caplog):
    status, found, _ = ask(server, PREDICT, {"instances": [[1.0], [-1.0]]})
    assert status == 500
    assert "secret" not in found["error"]
    assert "secret" in caplog.text
    assert found["error"].split()[-1] in caplog.text


@pytest.mark.parametrize(
    ("path", "document"),
    [
        (PREDICT, {"instances": [[1.0]]}),
        ("/v2/models/m/generate", {"input": [1.0]}),
        (
            "/v2/models/m/infer",
            {"inputs": [{"name": "input", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}]},
        ),
    ],
)
def test_an_output_that_no_answer_can_carry_is_a_failure_inside(path, document, caplog):
    @modelflow.flowunit(name="mean")
    def odd(row):
        return {"odd": object()}

    with served(odd) as server:
        status, found, _ = ask(server, path, document)
    assert status == 500
    assert found["error"].split()[-1] in caplog.text


def test_an_item_that_is_refused_is_named():
    @modelflow.flowunit(name="mean")
    def strict(row):
        if row[0] == 2:
            raise modelflow.BadRequest("is two")
        return row[0]

    with served(strict) as server:
        status, found, _ = ask(server, PREDICT, {"instances": [[1.0], [2.0], [3.0]]})
    assert (status, found["error"]) == (400, "item 1: node 'mean': is two")


def test_status_and_metadata_are_told(server):
    status, found, _ = ask(server, "/v1/models/m/versions/1")
    assert status == 200
    assert found["model_version_status"][0]["state"] == "AVAILABLE"
    _, found, _ = ask(server, "/v1/models/m/metadata")
    signature = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert (list(signature["inputs"]), list(signature["outputs"])) == (["input"], ["output"])


def test_a_body_that_is_too_long_is_refused():
    with served(max_body=100) as server:
        assert ask(server, PREDICT, {"instances": [[1.0] * 100]})[0] == 413
        assert ask(server, PREDICT, {"instances": [[1.0]]})[0] == 200


class Gate:
    """A unit that waits until the test releases the gate."""

    def __init__(self):
        self.entered, self.go, self.seen = threading.Semaphore(0), threading.Event(), []

        @modelflow.flowunit(name="mean", is_one_by_one=False)
        def wait(row):
            self.seen.append(float(row[0]))
            self.entered.release()
            self.go.wait()
            return row[0]

        self.unit = wait

    NODE = "batch_size=1, threads=1, queue_size=1"


def asking(server, value, found, **more):
    """Returns a thread that sends a request."""
    document = {"instances": [[float(value)]]}
    thread = threading.Thread(
        target=lambda: found.append(ask(server, PREDICT, document, **more)[:2]), name="asking"
    )
    thread.start()
    return thread


def test_more_requests_than_there_may_be_are_refused_with_a_time_to_come_again():
    gate, found = Gate(), []
    with served(gate.unit, gate.NODE, max_requests=1) as server:
        thread = asking(server, 1, found)
        assert gate.entered.acquire(timeout=60)
        status, refused, headers = ask(server, PREDICT, {"instances": [[2.0]]})
        assert (status, headers["retry-after"]) == (503, "1")
        assert "1 requests under way" in refused["error"]
        gate.go.set()
        thread.join()
    assert found == [(200, {"predictions": [1.0]})]


def test_those_behind_a_full_queue_are_answered_in_the_end():
    gate, found = Gate(), []
    with served(gate.unit, gate.NODE) as server:
        threads = [asking(server, number, found) for number in range(6)]
        assert gate.entered.acquire(timeout=60)
        gate.go.set()
        for thread in threads:
            thread.join()
    assert sorted(answer["predictions"][0] for _, answer in found) == [0, 1, 2, 3, 4, 5]


def test_a_request_whose_time_has_passed_is_not_worked_on():
    gate, found = Gate(), []
    with served(gate.unit, gate.NODE) as server:
        first = asking(server, 1, found)
        assert gate.entered.acquire(timeout=60)
        asking(server, 2, found, headers={"Inference-Timeout-Ms": "1"}).join()
        gate.go.set()
        first.join()
    assert gate.seen == [1.0]
    assert [status for status, _ in found] == [504, 200]


def test_a_client_that_goes_away_is_not_worked_for():
    gate, found = Gate(), []
    with served(gate.unit, gate.NODE) as server:
        first = asking(server, 1, found)
        assert gate.entered.acquire(timeout=60)
        host, port = server.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            body = b'{"instances": [[2.0]]}'
            head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            while server.model("m").admission.under_way < 2:
                pass
        while server.model("m").admission.under_way > 1:
            pass
        gate.go.set()
        first.join()
    assert gate.seen == [1.0]


def test_a_stop_answers_what_is_under_way_and_refuses_what_comes():
    gate, found = Gate(), []
    server = served(gate.unit, gate.NODE).start()
    thread = asking(server, 1, found)
    assert gate.entered.acquire(timeout=60)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    gate.go.set()
    stopping.join()
    thread.join()
    assert found == [(200, {"predictions": [1.0]})]
    with pytest.raises(ConnectionRefusedError):
        ask(server, PREDICT, {"instances": [[1.0]]})
    server.stop()


@pytest.mark.parametrize("path", ["/v1/models/m/metadata", "/v2/models/m/stats", "/metrics"])
def test_a_mistake_of_the_server_is_answered_with_an_id_and_its_connection_goes_on(
    monkeypatch, caplog, path
):
    def fail(*_):
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr("modelflow.serve.rest.tf_serving.metadata_document", fail)
    monkeypatch.setattr("modelflow.serve.rest.open_inference.statistics_of", fail)
    monkeypatch.setattr("modelflow.serve.http.metrics.encoder_of", fail)
    with served() as server:
        connection = http.client.HTTPConnection(server.address.removeprefix("http://"), timeout=60)
        with contextlib.closing(connection):
            for target, status in ((path, 500), ("/v1/models/m", 200)):
                connection.request("GET", target)
                response = connection.getresponse()
                text = response.read().decode()
                assert response.status == status
                assert status == 200 or "whose log tells why under the id" in text
                assert "secret" not in text
    assert "a secret" in caplog.text


def test_an_item_that_is_refused_in_words_that_are_no_utf_8_is_answered():
    @modelflow.flowunit(name="mean")
    def strict(row):
        raise modelflow.BadRequest(os.fsdecode(b"no file \xff"))

    document = {"instances": [[1.0]]}
    with served(strict) as server:
        status, found, _ = ask(server, PREDICT, document)
        assert (status, found["error"]) == (400, r"node 'mean': no file \udcff")
        _, _, text = send(
            server, "POST", "/v2/models/m/generate_stream", json.dumps({"input": [1.0]})
        )
        assert rb"no file \\udcff" in text


def test_a_stop_that_answers_nothing_more_cuts_short_one_that_does():
    gate, gone = Gate(), []

    def ask_on(one):
        with pytest.raises((http.client.RemoteDisconnected, grpc.RpcError)):
            one()
        gone.append(one)

    message = OPEN_INFERENCE["inference.ModelInferRequest"](model_name="m")
    rows = message.inputs.add(name="input", datatype="FP32", shape=[1, 1])
    rows.contents.fp32_contents.append(1.0)
    server = served(gate.unit, gate.NODE, grpc_port=0, drain_timeout=3600.0).start()
    with stub(server) as call:
        asked = [
            lambda: ask(server, PREDICT, {"instances": [[1.0]]}),
            lambda: call.oip("ModelInfer", message),
        ]
        clients = [threading.Thread(target=ask_on, args=(one,)) for one in asked]
        for client in clients:
            client.start()
        while server.model("m").admission.under_way < len(clients):
            pass
        stops = [threading.Thread(target=server.stop, args=(drain,)) for drain in (True, False)]
        stops[0].start()
        while not server.is_stopped:
            pass
        stops[1].start()
        try:
            for client in clients:
                client.join(60)
            assert len(gone) == len(clients)
        finally:
            gate.go.set()
            for thread in (*stops, *clients):
                thread.join()


@contextlib.contextmanager
def handled(handler):
    """Installs a handler of SIGUSR1; yields a function that triggers the handler.

    A signal that arrives just before the main thread begins to wait is noticed after the wait.
    Therefore the function sends it again and again.
    """
    noticed = threading.Event()

    def handle(*_):
        noticed.set()
        handler()

    def interrupt():
        while not noticed.wait(0.05):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_handler_of_signals_may_stop_what_the_main_thread_is_stopping():
    gate = Gate()
    server = served(gate.unit, gate.NODE, drain_timeout=3600.0).start()

    def ask_on():
        try:
            with pytest.raises(http.client.RemoteDisconnected):
                ask(server, PREDICT, {"instances": [[1.0]]})
        finally:
            gate.go.set()

    def when_stopped(interrupt):
        while not server.is_stopped:
            pass
        interrupt()

    with handled(lambda: server.stop(drain=False)) as interrupt:
        asking = threading.Thread(target=ask_on)
        asking.start()
        assert gate.entered.acquire(timeout=60)
        interrupting = threading.Thread(target=when_stopped, args=[interrupt])
        interrupting.start()
        server.stop()
        for thread in (asking, interrupting):
            thread.join()


@pytest.mark.parametrize("part", [HttpServer, Loader])
def test_a_handler_of_signals_stops_a_server_whose_stop_holds_what_it_would_wait_for(part):
    """Tests a stop that holds a lock, as `Thread.join` and thread pools do at the end."""
    method = "close" if part is HttpServer else "interrupt"
    ends = getattr(part, method)
    server = served().start()

    def end(self, *arguments):
        with pytest.MonkeyPatch.context() as patch:  # else a second call would wait for ever
            patch.setattr(part, method, lambda *_: pytest.fail("called inside itself"))
            signal.raise_signal(signal.SIGUSR1)
        ends(self, *arguments)

    with handled(lambda: server.stop(drain=False)), pytest.MonkeyPatch.context() as patch:
        patch.setattr(part, method, end)
        server.stop()
        patch.undo()
    with pytest.raises(ConnectionRefusedError):
        ask(server, "/v1/models/m")


def test_a_second_start_is_an_error_and_ends_nothing():
    with served() as server:
        with pytest.raises(StreamClosed, match="listens already"):
            server.start()
        assert ask(server, PREDICT, {"instances": [[1.0]]})[0] == 200


def test_several_models_are_served_beside_one_another():
    @modelflow.flowunit(name="mean")
    def first(row):
        return row[0]

    flows = {
        "mean": modelflow.Flow(GRAPH, units=[mean]),
        "first": modelflow.Flow(GRAPH, units=[first]),
    }
    with Server(flows, ServeOptions(http_port=0)) as server:
        document = {"instances": [[1.0, 3.0]]}
        answers = [ask(server, f"/v1/models/{name}:predict", document)[1] for name in flows]
    assert answers == [{"predictions": [2.0]}, {"predictions": [1.0]}]


def test_nothing_to_serve_is_an_error():
    with pytest.raises(ConfigError, match="nothing to serve"):
        Server({})


def test_a_flow_that_does_not_start_leaves_nothing_behind():
    class Fails(modelflow.FlowUnit):
        SPEC = modelflow.FlowUnitSpec(
            "mean",
            {"cpu": lambda: Fails()},
            inputs=(modelflow.Port("in"),),
            outputs=(modelflow.Port("out"),),
        )

        def open(self, config):
            raise ValueError("no model")

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Server({"m": modelflow.Flow(GRAPH, units=[Fails])}, ServeOptions(http_port=port))
    with pytest.raises(FlowFailed):
        server.start()
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_an_address_in_use_says_so():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = Server({"m": modelflow.Flow(GRAPH, units=[mean])}, ServeOptions(http_port=port))
        with pytest.raises(OSError, match="cannot listen there"):
            server.start()


def test_a_target_may_be_absolute_and_a_request_has_one_host(server):
    """Tests a proxy's form (RFC 9112, 3.2.2); with two hosts, each side might take another."""
    address = server.address
    document = json.dumps({"instances": [[1.0, 2.0]]})
    for _ in range(3):  # also if the head is cached
        status, _, body = send(server, "POST", f"{address}{PREDICT}", document)
        assert (status, json.loads(body)) == (200, {"predictions": [1.5]})
    assert send(server, "GET", f"{address}/v2/health/live")[0] == 200
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n"
        client.sendall(f"{head}Content-Length: {len(document)}\r\n\r\n{document}".encode())
        assert client.makefile("rb").read().startswith(b"HTTP/1.1 400 ")
