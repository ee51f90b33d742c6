"""Tests of the costs of requests in `/stats`."""

import socket
import threading

import pytest

from modelflow.serve.repository.config import ServeConfig
from modelflow.serve.repository.source import ModelSettings, read_policy
from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import ask, served
from tests.serve.models_on_disk import write_version
from tests.serve.test_metrics import metrics
from tests.serve.test_server import PREDICT, Gate, asking

MODEL = (("model", "m"), ("version", "1"))


def stats(server, path="/v2/models/m"):
    status, found, _ = ask(server, f"{path}/stats")
    assert status == 200
    return found["model_stats"]


def test_a_model_that_was_asked_nothing_says_zero():
    with served() as server:
        (found,) = stats(server)
        assert (found["name"], found["version"]) == ("m", "1")
        assert (found["last_inference"], found["inference_count"]) == (0, 0)
        assert found["execution_count"] == 0
        assert all(one == {"count": 0, "ns": 0} for one in found["inference_stats"].values())
        assert found["batch_stats"] == []


def test_statistics_agree_with_what_clients_saw_and_with_the_metrics():
    # With several threads, slow calls would share the rows of a request.
    with served(node="batch_size=8, threads=1") as server:
        for _ in range(3):
            assert ask(server, PREDICT, {"instances": [[1.0], [2.0]]})[0] == 200
        assert ask(server, PREDICT, {"instances": [[]]})[0] == 400
        (found,), told = stats(server), metrics(server)
    parts = found["inference_stats"]
    assert (parts["success"]["count"], parts["fail"]["count"]) == (3, 1)
    assert found["inference_count"] == told["nv_inference_count", *MODEL] == 6
    assert found["execution_count"] == told["nv_inference_exec_count", *MODEL]
    assert sum(one["compute_infer"]["count"] for one in found["batch_stats"]) == 4
    assert (
        sum(one["batch_size"] * one["compute_infer"]["count"] for one in found["batch_stats"]) == 7
    )
    assert found["last_inference"] > 0
    for name, part in (
        ("request", "success"),
        *((name, name) for name in ("queue", "compute_input", "compute_infer", "compute_output")),
    ):
        microseconds = told[f"nv_inference_{name}_duration_us", *MODEL]
        assert parts[part]["ns"] == pytest.approx(microseconds * 1e3, abs=2)
        assert parts[part]["count"] == 3


def test_the_parts_of_a_requests_time_are_the_whole():
    gate, found = Gate(), []
    with served(gate.unit, gate.NODE) as server:
        threads = [asking(server, number, found) for number in range(3)]
        assert gate.entered.acquire(timeout=60)
        while server.model("m").admission.under_way < 3:
            pass
        gate.go.set()
        for thread in threads:
            thread.join()
        (told,) = stats(server)
    parts = {name: one["ns"] for name, one in told["inference_stats"].items()}
    whole = parts["queue"] + parts["compute_input"] + parts["compute_infer"]
    assert whole + parts["compute_output"] == pytest.approx(parts["success"], abs=4)
    assert min(parts.values()) >= 0
    assert parts["queue"] > 0  # two of them have waited for the first


def test_requests_that_are_not_taken_have_failed():
    gate, found = Gate(), []
    with served(gate.unit, gate.NODE, max_requests=1) as server:
        thread = asking(server, 1, found)
        assert gate.entered.acquire(timeout=60)
        assert ask(server, PREDICT, {"instances": [[2.0]]})[0] == 503
        gate.go.set()
        thread.join()
        (told,), samples = stats(server), metrics(server)
    assert told["inference_stats"]["fail"]["count"] == 1
    assert samples["nv_inference_request_failure", MODEL[0], ("reason", "REJECTED"), MODEL[1]] == 1


def test_a_request_whose_client_went_before_it_was_taken_counts_as_cancelled():
    gate, found = Gate(), []
    with served(gate.unit, gate.NODE) as server:
        threads = [asking(server, number, found) for number in range(3)]
        assert gate.entered.acquire(timeout=60)
        while server.model("m").admission.under_way < 3:
            pass
        host, port = server.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            body = b'{"instances": [[9.0]]}'
            head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            while server.model("m").admission.under_way < 4:
                pass
        while server.model("m").admission.under_way > 3:
            pass
        assert server.model("m").figures.outcomes["CANCELLED"] == 1
        gate.go.set()
        for thread in threads:
            thread.join()
    assert 9.0 not in gate.seen


def test_versions_are_told_alone_or_all_together(tmp_path):
    write_version(write_version(tmp_path / "m", 1), 2)
    with served() as server:
        assert [one["name"] for one in stats(server, "/v2/models")] == ["m"]
        assert [one["version"] for one in stats(server, "/v2/models/m/versions/1")] == ["1"]
        assert ask(server, "/v2/models/x/stats")[0] == 404
        assert ask(server, "/v2/models/m/versions/7/stats")[0] == 404
    catalogue = ServeConfig(
        {"m": tmp_path / "m"}, settings=ModelSettings(policy=read_policy("all"))
    )
    with Server(catalogue, ServeOptions(http_port=0)) as server:
        assert [one["version"] for one in stats(server)] == ["2", "1"]


def test_figures_may_be_read_while_requests_come():
    with served() as server:
        stop = threading.Event()

        def read():
            while not stop.is_set():
                for one in stats(server):
                    parts = one["inference_stats"]
                    assert parts["success"]["count"] == parts["queue"]["count"]

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(50):
            assert ask(server, PREDICT, {"instances": [[1.0]]})[0] == 200
        stop.set()
        reader.join()
        (found,) = stats(server)
    assert found["inference_count"] == 50


def test_of_a_model_that_is_called_stats_one_path_is_that_of_all_figures(tmp_path):
    with Server(
        {"stats": write_version(tmp_path / "stats", 1)}, ServeOptions(http_port=0)
    ) as server:
        all_stats = stats(server, "/v2/models")
        assert [one["name"] for one in all_stats] == ["stats"]
        assert stats(server, "/v2/models/stats") == all_stats
        assert ask(server, "/v2/models/stats/versions/1")[1]["name"] == "stats"
        paths = ask(server, "/openapi.json")[1]["paths"]
        assert paths["/v2/models/stats"]["get"]["summary"] == "Statistics of all models"
