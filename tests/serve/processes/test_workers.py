"""Tests of workers before a process with the models: real processes, and plain clients."""

import contextlib
import http.client
import json
import os
import signal
import threading
from pathlib import Path

import grpc
import pytest

from tests import programs
from tests.serve.grpc.stub import Stub
from tests.serve.processes.server_processes import (
    SAID,
    serving,
    wait_until,
    who_over_grpc,
    write_graphs,
)

M = (("model", "m"), ("version", "1"))
AT_ONCE = "was ended by SIGKILL; another takes its place at once"


@pytest.fixture(scope="module")
def replica_group(tmp_path_factory):
    folder = write_graphs(tmp_path_factory.mktemp("graphs"), m="who", n="who")
    arguments = ("m.dot", "n.dot", "--allow-repository", "--grpc", "127.0.0.1:0")
    with serving(folder, *arguments, option="--workers") as replica_group:
        yield replica_group


def test_one_process_runs_the_models_of_all_workers(replica_group):
    with replica_group.connections(8) as all_of_them:
        (who,) = {replica_group.who(one) for one in all_of_them}
    assert who in replica_group.children()
    assert len(replica_group.children()) == 3
    for _ in range(3):
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(replica_group.grpc, options) as channel:
            assert int(who_over_grpc(Stub(channel))) == who


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Yields one process that serves the same models."""
    folder = write_graphs(tmp_path_factory.mktemp("graphs"), m="who", n="who")
    arguments = ("m.dot", "n.dot", "--allow-repository", "--grpc", "127.0.0.1:0")
    with serving(folder, *arguments, count=1) as one:
        yield one


@pytest.mark.parametrize(("path", "document"), SAID)
def test_every_worker_says_what_one_process_says(replica_group, alone, path, document):
    status, expected = alone.ask(path, document)
    for found in replica_group.everywhere(path, document):
        assert (found[0], sorted_rows(found[1])) == (status, sorted_rows(expected))


def sorted_rows(document):
    """Sorts the rows of an index, whose order is that of loading."""
    return sorted(document, key=str) if isinstance(document, list) else document


def test_requests_are_counted_once_wherever_they_come_in(replica_group):
    ok = "modelflow_requests_total", ("code", "OK"), *M
    buffers = "modelflow_node_buffers_total", M[0], ("node", "who"), ("unit", "who"), M[1]
    asked = replica_group.metrics().get(ok, 0)
    with replica_group.connections() as all_of_them:
        for one in all_of_them * 3:
            replica_group.who(one)
        asked += 12
        for one in all_of_them:
            status, _ = replica_group.ask("/v1/models/m:predict", {"instances": []}, connection=one)
            assert status == 400
        figures = replica_group.metrics()
        assert (figures[ok], figures[buffers]) == (asked, asked)
        for one in all_of_them:
            (stats,) = replica_group.ask("/v2/models/m/stats", connection=one)[1]["model_stats"]
            assert stats["inference_count"] == asked
            snapshot = replica_group.ask("/stats/m", connection=one)[1]
            assert [node["buffers"] for node in snapshot["nodes"] if node["node"] == "who"] == [
                asked
            ]


def test_what_is_loaded_and_unloaded_every_worker_sees_at_once(replica_group):
    with replica_group.connections() as all_of_them:
        first, *others = all_of_them
        for _ in range(3):
            path = "/v2/repository/models/n"
            assert replica_group.ask(f"{path}/unload", method="POST", connection=first)[0] == 200
            for one in others:
                document = {"instances": ["x"]}
                found = replica_group.ask("/v1/models/n:predict", document, connection=one)
                assert found[0] == 404
            assert replica_group.ask(f"{path}/load", method="POST", connection=first)[0] == 200
            assert len({replica_group.who(one, "n") for one in all_of_them}) == 1
    status, found = replica_group.ask("/v2/repository/models/x/unload", method="POST")
    assert (status, "there is no such model" in found["error"]) == (404, True)


def test_a_worker_loads_nothing_that_runs_models():
    program = """if True:
        import sys
        import modelflow.cli.main, modelflow.cli.serve.replica, modelflow.cli.serve.server_setup
        import modelflow.serve.processes.member.worker, modelflow.serve.server
        import modelflow.serve.grpc.grpcio_server
        import modelflow.http.connection
        heavy = ("runtime.scheduler", "flow", "engine", "plan", "request", "graph.graph")
        print(*[one for one in heavy if f"modelflow.{one}" in sys.modules])
    """
    assert programs.run(["python", "-c", program], check=True).stdout == "\n"


# -- crashes ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_graphs(tmp_path_factory.mktemp("crashing"), m="stuck", n="who")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.fixture(scope="module")
def crashing(folder):
    with serving(folder, "m.dot", "n.dot", option="--workers") as replica_group:
        yield replica_group
        assert replica_group.end(signal.SIGTERM) == 143


@pytest.fixture
def open_files(crashing):
    """Checks that the supervisor has as many descriptors in the end as before."""
    descriptors = Path(f"/proc/{crashing.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    yield
    wait_until(lambda: len(list(descriptors.iterdir())) == before)


def ask_what_sticks(folder, *connections):
    for entered in folder.glob("entered.*"):
        entered.unlink()
    for one in connections:
        one.request("POST", "/v1/models/m:predict", json.dumps({"instances": ["x"]}))
    wait_until(lambda: list(folder.glob("entered.*")))


def let_on(folder):
    """Lets the stuck call return if a unit reads the pipe at this moment."""
    with contextlib.suppress(OSError):
        os.close(os.open(folder / "pipe", os.O_WRONLY | os.O_NONBLOCK))


@pytest.mark.usefixtures("open_files")
def test_a_worker_that_dies_hurts_its_own_connections_alone_and_is_replaced(folder, crashing):
    """Tests that the requests of the dead worker are cancelled."""
    under_way = "modelflow_requests_under_way", *M
    cancelled = "modelflow_requests_total", ("code", "CANCELLED"), *M
    with crashing.connections(6) as all_of_them, crashing.connections(2) as stuck:
        who = crashing.who(name="n")
        assert {crashing.who(one, "n") for one in all_of_them} == {who}
        victim = next(pid for pid in crashing.children() if pid != who)
        ask_what_sticks(folder, *stuck)
        wait_until(lambda: crashing.metrics()[under_way] == 2)
        assert AT_ONCE in crashing.kill(victim)
        hurt = 0
        for one in all_of_them:
            try:
                assert crashing.who(one, "n") == who
            except (ConnectionError, http.client.HTTPException):
                hurt += 1
        assert hurt == 3
        wait_until(lambda: crashing.metrics().get(cancelled) == 1)
        ended = []
        for one in stuck:
            asking = threading.Thread(target=lambda one=one: ended.append(answer_of(one)))
            asking.start()
            wait_until(lambda asking=asking: let_on(folder) or not asking.is_alive())
        assert sorted(ended) == [0, 200]
    wait_until(lambda: len(crashing.children()) == 3 and crashing.ask("/readyz")[0] == 200)
    assert victim not in crashing.children()
    with crashing.connections(6) as again:
        assert {crashing.who(one, "n") for one in again} == {who}


def answer_of(connection):
    """Returns the status; 0 means that the connection was lost."""
    try:
        return connection.getresponse().status
    except (ConnectionError, http.client.HTTPException):
        return 0


@pytest.mark.usefixtures("open_files")
def test_without_the_models_workers_say_to_come_again_until_they_are_back(folder, crashing):
    """Tests that repeated kills from outside blame no model."""
    with crashing.connections(3) as all_of_them:
        who = crashing.who(all_of_them[0], "n")
        ok = "modelflow_requests_total", ("code", "OK"), ("model", "n"), M[1]
        answered = crashing.metrics()[ok]
        under_way = all_of_them[1]
        ask_what_sticks(folder, under_way)
        assert AT_ONCE in crashing.kill(who, "the process of the models was ended")
        response = under_way.getresponse()
        assert response.status == 503
        assert response.getheader("retry-after") == "1"
        assert "another takes its place" in json.loads(response.read())["error"]
        for one in all_of_them:  # each worker learns separately that they are back
            assert crashing.who_is_back(one, "n") not in (who, *crashing.children()[:2])
        # Earlier requests still count.
        wait_until(lambda: crashing.metrics().get(ok, 0) == answered + 3)
        assert "in 1 s" in crashing.kill(crashing.who(name="n"))
        assert crashing.who_is_back(name="n") in crashing.children()
        assert not any("out of service" in line for line in crashing.said)
