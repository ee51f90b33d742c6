"""Tests of changing models under requests, with a real server, models and clients."""

import contextlib
import http.client
import json
import os
import socket
import threading
import time

import pytest

import modelflow
from modelflow.errors import Cancelled, ConfigError, EndFlow, EngineError, FlowFailed, StreamClosed
from modelflow.serve.repository.config import ServeConfig
from modelflow.serve.repository.source import ModelSettings, read_policy
from modelflow.serve.server import ServeOptions, Server
from tests.http.clients import answer, request
from tests.serve.clients import ask, send
from tests.serve.grpc.stub import stub
from tests.serve.models_on_disk import GRAPH, write_model, write_version

BODY = {"instances": [[1.0, 2.0]]}


class Slow:
    """A unit that waits in `open` and in `process` for the test's events."""

    def __init__(self):
        self.opening, self.open = threading.Semaphore(0), threading.Event()
        self.working, self.work = threading.Semaphore(0), threading.Event()
        self.opened = self.closed = 0
        slow = self

        class Unit(modelflow.FlowUnit):
            SPEC = modelflow.FlowUnitSpec(
                "slow",
                {"cpu": lambda: Unit()},
                inputs=(modelflow.Port("in"),),
                outputs=(modelflow.Port("out"),),
            )

            def open(self, config):
                slow.opened += 1
                slow.opening.release()
                slow.open.wait()

            def process(self, ctx):
                slow.working.release()
                slow.work.wait()
                ctx.emit([buffer.data for buffer in ctx.inputs["in"]], "out")

            def close(self):
                slow.closed += 1

        self.unit = Unit

    def flow(self):
        return modelflow.Flow(GRAPH % 'slow", threads="1', units=[self.unit])


@pytest.fixture
def slow():
    made = Slow()
    yield made
    made.open.set()
    made.work.set()


@contextlib.contextmanager
def listening(catalogue, **options):
    """Yields a server that may still be loading."""
    server = Server(catalogue, ServeOptions(http_port=0, **options))
    try:
        server.listen()
        yield server
    finally:
        server.stop(drain=False)


def serving(path, versions="latest", labels=None, **options):
    settings = ModelSettings(policy=read_policy(versions))
    catalogue = ServeConfig({"m": path}, settings=settings, labels={"m": labels or {}})
    return Server(catalogue, ServeOptions(http_port=0, **options))


def predict(server, name="m", at=""):
    status, found, _ = ask(server, f"/v1/models/{name}{at}:predict", BODY)
    return found["predictions"][0][0] if status == 200 else (status, found["error"])


def states(server, name="m"):
    """Returns the state and the error of every version."""
    found = ask(server, f"/v1/models/{name}")[1]["model_version_status"]
    return {int(one["version"]): (one["state"], one["status"]["error_message"]) for one in found}


def until(server, version, state):
    """Asks until a version is in a state."""
    while states(server).get(version, ("",))[0] != state:
        time.sleep(0.01)


def index(server):
    found = ask(server, "/v2/repository/index", {})[1]
    return {(row["name"], row["version"]): (row["state"], row["reason"]) for row in found}


READY = ("/readyz", "/v2/health/ready")
LIVE = ("/livez", "/v2/health/live")


def test_while_a_model_is_loaded_it_is_503_and_told_as_loading(slow):
    with listening({"m": slow.flow()}) as server:
        assert slow.opening.acquire(timeout=60)
        until(server, 1, "LOADING")
        status, found, headers = ask(server, "/v1/models/m:predict", BODY)
        assert (status, headers["retry-after"]) == (503, "1")
        assert "LOADING" in found["error"]
        assert index(server) == {("m", "1"): ("LOADING", "")}
        assert [send(server, "GET", path)[0] for path in READY] == [503, 503]
        assert [send(server, "GET", path)[0] for path in LIVE] == [200, 200]
        assert ask(server, "/readyz")[1] == {"error": "model 'm': LOADING"}
        assert ask(server, "/v2/models/m/infer", {"inputs": []})[0] == 503
        assert ask(server, "/v2/models/m/ready")[0] == 400
        assert ask(server, "/v2/models/x/ready")[0] == 404
        slow.open.set()
        server.wait_until_loaded()
        assert [send(server, "GET", path)[0] for path in READY] == [200, 200]
        assert send(server, "GET", "/v2/models/m/ready")[0] == 200
        assert states(server) == {1: ("AVAILABLE", "")}
        with pytest.raises(StreamClosed, match="listens already"):
            server.listen()


def test_clients_of_grpc_are_told_the_same(slow):
    with listening({"m": slow.flow()}, grpc_port=0) as server, stub(server) as client:
        until(server, 1, "LOADING")
        assert not client.oip("ServerReady").ready
        assert not client.oip("ModelReady", name="m").ready
        (row,) = client.oip("RepositoryIndex").models
        assert (row.name, row.version, row.state) == ("m", "1", "LOADING")
        slow.open.set()
        server.wait_until_loaded()
        assert client.oip("ServerReady").ready
        assert client.oip("ModelReady", name="m").ready


def test_a_model_that_does_not_load_is_named_and_the_others_are_served(tmp_path, caplog):
    good = write_model(tmp_path / "good.onnx", 2)
    torn = tmp_path / "torn.onnx"
    torn.write_bytes(good.read_bytes()[:40])
    with Server({"good": good, "torn": torn}, ServeOptions(http_port=0)) as server:
        assert server.models == ("good",)
        assert predict(server, "good") == 2.0
        status, text = predict(server, "torn")
        assert (status, text) == (404, "Servable not found for request: Latest(torn)")
        state, error = states(server, "torn")[1]
        assert state == "END"
        assert "torn.onnx" in error
        assert index(server)["torn", "1"] == ("UNAVAILABLE", error)
        assert index(server)["good", "1"] == ("READY", "")
        status, found, _ = ask(server, "/readyz")
        assert status == 503
        assert "model 'torn': version 1" in found["error"]
    assert "model 'torn', version 1 does not load: " in caplog.text


def test_what_is_wrong_is_told_of_a_file_whose_name_is_no_text(tmp_path):
    odd = tmp_path / os.fsdecode(b"\xff.dot")
    odd.write_text("digraph {")
    sources = {"m": write_model(tmp_path / "m.onnx", 2), "odd": odd}
    with Server(sources, ServeOptions(http_port=0, grpc_port=0)) as server, stub(server) as client:
        _, error = states(server, "odd")[1]
        assert r"\udcff.dot" in error
        assert error in ask(server, "/readyz")[1]["error"]
        rows = client.oip("RepositoryIndex").models
        assert error in {row.reason for row in rows}


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("sys.exit(3)", "cannot import 'leaving': SystemExit: 3"),
        ("raise KeyboardInterrupt", "raised while it was loaded"),
    ],
)
def test_a_model_whose_code_ends_the_process_does_not_load_and_nothing_else(
    tmp_path, monkeypatch, how, said
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaving.py").write_text(f"import sys\n{how}\n")
    (tmp_path / "leaves.dot").write_text(GRAPH % "leaving:leave")
    model = write_model(tmp_path / "m.onnx", 2)
    sources = {"m": model, "leaves": tmp_path / "leaves.dot"}
    with Server(sources, ServeOptions(http_port=0)) as server:
        assert predict(server) == 2.0
        state, error = states(server, "leaves")[1]
    assert state == "END"
    assert said in error


def test_where_nothing_loads_the_start_fails_with_what_is_wrong(tmp_path):
    torn = tmp_path / "torn.onnx"
    torn.write_bytes(b"torn")
    with pytest.raises(EngineError, match=r"torn\.onnx"):
        Server({"torn": torn}, ServeOptions(http_port=0)).start()
    with pytest.raises(ConfigError, match="holds no models"):
        Server(
            ServeConfig(repositories=[make_folder(tmp_path / "empty")]), ServeOptions(http_port=0)
        ).start()


def make_folder(path):
    path.mkdir()
    return path


def test_a_stop_while_models_are_loaded_loads_no_more(slow):
    flows = {str(number): slow.flow() for number in range(5)}
    ended = []
    server = Server(flows, ServeOptions(http_port=0))

    def start():
        with pytest.raises(Cancelled):
            server.start()
        ended.append(server)

    starting = threading.Thread(target=start, name="modelflow/test/start")
    starting.start()
    assert slow.opening.acquire(timeout=60)
    stopping = threading.Thread(target=server.stop, name="modelflow/test/stop")
    stopping.start()
    while not server.is_stopped:
        pass
    slow.open.set()
    stopping.join()
    starting.join()
    assert ended == [server]
    assert slow.opened == slow.closed <= 2


def test_clients_may_not_load_and_unload_unless_it_is_allowed(tmp_path):
    with serving(write_version(tmp_path / "m", 1)) as server:
        for what in ("load", "unload"):
            status, found, _ = ask(server, f"/v2/repository/models/m/{what}", {})
            assert status == 403
            assert "--allow-repository" in found["error"]
        assert predict(server) == 1.0


def load(server, name="m", what="load", document=None):
    status, found, _ = ask(server, f"/v2/repository/models/{name}/{what}", document or {})
    return status if found is None else (status, found["error"])


def test_a_model_is_unloaded_and_loaded_by_its_name(tmp_path):
    with serving(write_version(tmp_path / "m", 1), is_repository_open=True) as server:
        assert load(server, what="unload") == 200
        assert predict(server) == (404, "Servable not found for request: Latest(m)")
        until(server, 1, "END")
        assert index(server) == {("m", "1"): ("UNAVAILABLE", "")}
        assert send(server, "GET", "/readyz")[0] == 200  # the model was not requested
        write_version(tmp_path / "m", 2)
        server.refresh()  # unloaded models stay unloaded
        assert load(server) == 200
        assert predict(server) == 2.0
        status, text = load(server, "mm")
        assert (status, "did you mean 'm'" in text) == (404, True)
        assert load(server, "x", "unload")[0] == 404
        assert load(server, document={"parameters": {"config": "{}"}}) == 200


def test_what_is_unloaded_while_it_is_loaded_never_answers(slow):
    with listening({"m": slow.flow()}, is_repository_open=True) as server:
        assert slow.opening.acquire(timeout=60)
        assert load(server, what="unload") == 200
        assert states(server) == {1: ("END", "")}
        slow.open.set()
        while not slow.closed:
            pass
        assert states(server) == {1: ("END", "")}
        assert predict(server)[0] == 404
        assert server.models == ()


def test_a_load_that_fails_says_why_and_what_runs_goes_on(tmp_path):
    path = write_model(tmp_path / "m.onnx", 1)
    with serving(path, is_repository_open=True) as server:
        path.write_bytes(b"torn")
        status, text = load(server)
        assert status == 400
        assert "failed to load 'm': " in text
        assert predict(server) == 1.0
        assert states(server) == {1: ("AVAILABLE", "")}
        write_model(path, 3)
        assert load(server) == 200
        assert predict(server) == 3.0


def test_a_new_version_takes_over_and_the_old_one_ends(tmp_path):
    with serving(write_version(tmp_path / "m", 1)) as server:
        write_version(tmp_path / "m", 2)
        assert predict(server) == 1.0
        server.refresh()
        until(server, 1, "END")
        assert predict(server) == 2.0
        assert states(server) == {2: ("AVAILABLE", ""), 1: ("END", "")}
        assert predict(server, at="/versions/1")[0] == 404


def test_new_versions_are_found_by_looking_again_and_again(tmp_path):
    with serving(write_version(tmp_path / "m", 1), poll=0.01) as server:
        for number in (2, 3):
            write_version(tmp_path / "m", number)
            until(server, number, "AVAILABLE")
        assert predict(server) == 3.0


def test_a_new_version_that_does_not_load_leaves_the_old_one_and_is_tried_when_it_changes(tmp_path):
    with serving(write_version(tmp_path / "m", 1)) as server:
        (tmp_path / "m" / "2").mkdir()
        (tmp_path / "m" / "2" / "model.onnx").write_bytes(b"torn")
        server.refresh()
        until(server, 2, "END")
        assert predict(server) == 1.0
        assert states(server)[1] == ("AVAILABLE", "")
        assert "model.onnx" in states(server)[2][1]
        assert send(server, "GET", "/readyz")[0] == 200
        write_model(tmp_path / "m" / "2" / "model.onnx", 2)
        server.refresh()
        until(server, 1, "END")
        assert predict(server) == 2.0


def test_versions_that_vanish_from_the_disk_go_on(tmp_path, caplog):
    path = write_model(tmp_path / "m.onnx", 1)
    with serving(path) as server:
        path.unlink()
        server.refresh()
        while "m.onnx: there is no such file" not in caplog.text:
            pass
        assert predict(server) == 1.0


def test_an_old_version_ends_when_its_last_request_is_answered(slow, tmp_path):
    slow.open.set()
    with serving(slow.flow(), is_repository_open=True) as server:
        found = []
        asking = threading.Thread(target=lambda: found.append(predict(server)))
        asking.start()
        assert slow.working.acquire(timeout=60)
        assert load(server, what="unload") == 200
        assert states(server) == {1: ("UNLOADING", "")}
        assert index(server) == {("m", "1"): ("UNLOADING", "")}
        assert slow.closed == 0
        slow.work.set()
        asking.join()
        until(server, 1, "END")
        assert slow.closed == 1
    assert found == [1.0]


def test_a_flow_that_ends_by_itself_is_no_model_any_more(tmp_path):
    @modelflow.flowunit(name="slow")
    def ends(row):
        if row[0] < 0:
            raise EndFlow("it is enough")
        return row

    flow = modelflow.Flow(GRAPH % "slow", units=[ends])
    with contextlib.suppress(FlowFailed), serving(flow) as server:
        assert predict(server) == 1.0
        assert ask(server, "/v1/models/m:predict", {"instances": [[-1.0]]})[0] in (500, 503)
        while predict(server)[0] == 503:
            pass
        until(server, 1, "END")
        assert states(server)[1][1]
        assert predict(server)[0] == 404
        assert send(server, "GET", "/readyz")[0] == 503


def test_a_flow_that_was_unloaded_cannot_be_loaded_again(slow):
    slow.open.set()
    with serving(slow.flow(), is_repository_open=True) as server:
        assert load(server) == 200  # it is
        assert load(server, what="unload") == 200
        until(server, 1, "END")
        status, text = load(server)
        assert (status, "once" in text) == (400, True)


def test_several_versions_are_served_under_numbers_and_labels(tmp_path):
    for number in (1, 2, 3):
        write_version(tmp_path / "m", number)
    labels = {"stable": 1, "canary": 3, "gone": 7}
    with serving(tmp_path / "m", "all", labels) as server:
        assert set(states(server)) == {1, 2, 3}
        assert predict(server) == 3.0
        assert predict(server, at="/versions/2") == 2.0
        assert predict(server, at="/labels/stable") == 1.0
        assert predict(server, at="/labels/canary") == 3.0
        assert predict(server, at="/labels/gone")[0] == 400
        path = "/v1/models/m/labels/stable"
        assert ask(server, path)[1]["model_version_status"][0]["version"] == "1"


def test_a_version_that_is_named_and_not_there_says_so_and_comes_when_it_is(tmp_path):
    write_version(tmp_path / "m", 1)
    with serving(tmp_path / "m", "1,2") as server:
        state, error = states(server)[2]
        assert (state, "2: there is no such file" in error) == ("END", True)
        assert send(server, "GET", "/readyz")[0] == 503
        write_version(tmp_path / "m", 2)
        server.refresh()
        until(server, 2, "AVAILABLE")
        assert send(server, "GET", "/readyz")[0] == 200


def test_a_file_of_tensorflow_serving_is_read_and_read_again(tmp_path):
    for number in (1, 2):
        write_version(tmp_path / "m", number)
    text = """model_config_list {{ config {{ name: "m" base_path: "m"
        model_version_policy {{ specific {{ versions: 1 versions: {0} }} }}
        version_labels {{ key: "stable" value: {0} }} }} }}"""
    file = tmp_path / "models.config"
    file.write_text(text.format(1))
    catalogue = ServeConfig(config_file=file, labels={"m": {"first": 1}})
    with Server(catalogue, ServeOptions(http_port=0)) as server:
        assert predict(server, at="/labels/stable") == 1.0
        assert predict(server, at="/labels/first") == 1.0
        file.write_text(text.format(3))  # the version does not exist, so the label stays
        server.refresh()
        until(server, 3, "END")
        assert predict(server, at="/labels/stable") == 1.0
        file.write_text(text.format(2))
        server.refresh()
        until(server, 2, "AVAILABLE")
        while predict(server, at="/labels/stable") != 2.0:
            pass
        file.write_text("torn")
        server.refresh()
        assert predict(server) == 2.0


def test_a_model_that_comes_late_makes_the_server_no_less_ready(tmp_path):
    folder = make_folder(tmp_path / "models")
    write_model(folder / "m.onnx", 1)
    with Server(ServeConfig(repositories=[folder]), ServeOptions(http_port=0)) as server:
        (folder / "torn.onnx").write_bytes(b"torn")
        server.refresh()
        while index(server).get(("torn", "1"), ("",))[0] != "UNAVAILABLE":
            pass
        assert send(server, "GET", "/readyz")[0] == 200
        assert predict(server) == 1.0


def test_models_come_into_a_repository_and_go(tmp_path):
    folder = make_folder(tmp_path / "models")
    write_model(folder / "m.onnx", 1)
    with Server(ServeConfig(repositories=[folder]), ServeOptions(http_port=0)) as server:
        write_version(folder / "more", 4)
        server.refresh()
        while predict(server, "more") != 4.0:
            pass
        (folder / "m.onnx").unlink()
        server.refresh()
        until(server, 1, "END")
        assert predict(server)[0] == 404
        server.refresh()
        while ask(server, "/v1/models/m")[0] != 404:
            pass
        assert server.models == ("more",)


def test_whoever_waits_for_a_load_is_told_when_the_server_stops(slow):
    with listening({"m": slow.flow()}, is_repository_open=True) as server:
        assert slow.opening.acquire(timeout=60)
        host, port = server.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            # Sent together: when the first is answered, the second is in progress.
            path = "/v2/repository/models/m/load"
            client.sendall(request("/livez", method="GET") + request(path, b"{}"))
            assert answer(client)[0] == 200
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            assert answer(client)[0] == 503
        slow.open.set()
        stopping.join()


def test_reloads_of_a_file_under_load_fail_no_request(tmp_path):
    """Tests that every answer is of an existing version, and the newest version's comes."""
    path = write_model(tmp_path / "m.onnx", 1)
    with serving(path, is_repository_open=True) as server:
        failed, heard, is_over = [], set(), threading.Event()

        def ask_on():
            host, port = server.address.removeprefix("http://").split(":")
            client = http.client.HTTPConnection(host, int(port), timeout=60)
            with contextlib.closing(client):
                while not is_over.is_set():
                    client.request("POST", "/v1/models/m:predict", json.dumps(BODY))
                    response = client.getresponse()
                    found = json.load(response)
                    if response.status != 200:
                        failed.append(found)
                        return
                    heard.add(found["predictions"][0][0])

        threads = [threading.Thread(target=ask_on) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for factor in range(2, 8):
                write_model(path, factor)
                assert load(server) == 200
                assert predict(server) == factor
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        assert not failed
        assert heard <= set(map(float, range(1, 8)))
        assert len(heard) > 1
