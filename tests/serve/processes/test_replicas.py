"""Tests of several replicas behind one port: common output, common actions, and lifetimes."""

import collections
import contextlib
import http.client
import os
import signal
import threading
from pathlib import Path

import grpc
import pytest

from modelflow.serve.processes.supervisor.child import describe_exit
from tests import programs
from tests.serve.grpc.stub import Stub, refused
from tests.serve.models_on_disk import write_version
from tests.serve.processes.server_processes import (
    GRAPH,
    SAID,
    serving,
    wait_until,
    who_over_grpc,
    write_graphs,
)

M = (("model", "m"), ("version", "1"))
OK = (("code", "OK"), *M)
RELOAD = "tensorflow.serving.ModelService", "HandleReloadConfigRequest"


@contextlib.contextmanager
def stubs(replica_group):
    """Yields a client over gRPC for each of two replicas."""
    with contextlib.ExitStack() as stack:
        found, seen = [], set()
        while len(seen) < 2:
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = stack.enter_context(grpc.insecure_channel(replica_group.grpc, options))
            client = Stub(channel)
            who = who_over_grpc(client)
            if who not in seen:
                seen.add(who)
                found.append(client)
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    return write_graphs(folder, m="who", n="who", broken="who")


@pytest.fixture(scope="module")
def replica_group(folder):
    graphs = ("m.dot", "n.dot", "broken.dot")
    arguments = (*graphs, "--allow-repository", "--grpc", "127.0.0.1:0")
    with serving(folder, *arguments) as replica_group:
        yield replica_group


# -- common output and actions ------------------------------------------------------------------


def test_connections_are_shared_out_evenly(replica_group):
    with replica_group.connections(8) as all_of_them, contextlib.ExitStack() as stack:
        found = [replica_group.who(one) for one in all_of_them]
        assert collections.Counter(found) == dict.fromkeys(replica_group.children(), 4)
        assert [replica_group.who(one) for one in all_of_them] == found  # each stays where it is
        gone = found[0]
        for one, pid in zip(all_of_them, found, strict=True):
            if pid == gone:
                one.close()
        # the report of fewer connections has arrived
        wait_until(lambda: replica_group.who() == gone)
        again = stack.enter_context(replica_group.connections(4))
        assert {replica_group.who(one) for one in again} == {gone}


@pytest.mark.parametrize(("path", "document"), [*SAID, ("/v2/models/m/stats", None)])
def test_every_replica_answers_everything(replica_group, path, document):
    assert {status for status, _ in replica_group.everywhere(path, document)} == {200}


def test_what_is_the_same_in_all_is_said_once(replica_group):
    said = replica_group.said
    assert sum("'m', version 1 is served" in line for line in said) == 1
    assert sum(line.startswith("serves ") and " at http://" in line for line in said) == 1


def test_figures_are_of_all(replica_group):
    figures = replica_group.metrics()
    asked = figures.get(("modelflow_requests_total", *OK), 0)
    assert {replica_group.who() for _ in range(10)} == set(replica_group.children())
    assert replica_group.ask("/v1/models/m:predict", {"instances": []})[0] == 400
    asked += 10
    figures = replica_group.metrics()
    node = ("model", "m"), ("node", "who"), ("unit", "who"), M[1]
    assert figures["modelflow_requests_total", *OK] == asked
    assert figures["modelflow_request_seconds_count", *M] == asked
    assert figures["nv_inference_request_success", *M] == asked
    assert figures["modelflow_node_buffers_total", *node] == asked
    assert (figures["modelflow_replicas_up",], figures["modelflow_replicas",]) == (2, 2)
    for status, document in replica_group.everywhere("/v2/models/m/stats"):
        (stats,) = document["model_stats"]
        assert (status, stats["inference_count"], stats["execution_count"]) == (200, asked, asked)
        assert stats["inference_stats"]["success"]["count"] == asked
    for status, document in replica_group.everywhere("/stats/m"):
        (node,) = (node for node in document["nodes"] if node["node"] == "who")
        assert (status, node["buffers"]) == (200, asked)
        assert document["process"]["resident_bytes"] > 0


def test_a_replica_that_does_not_answer_is_left_out_and_said_to_be(replica_group):
    with replica_group.connections(2) as (one, two):
        pids = [replica_group.who(one), replica_group.who(two)]
        asked = replica_group.metrics()["modelflow_requests_total", *OK]
        os.kill(pids[0], signal.SIGSTOP)
        text = replica_group.ask("/metrics", connection=two)[1].decode()
        assert "modelflow_replicas_up 1.0" in text
        assert f'modelflow_requests_total{{code="OK",model="m",version="1"}} {asked}' in text
        os.kill(pids[0], signal.SIGCONT)
        replica_group.wait_until_whole()


def test_what_does_not_load_is_told_once(replica_group, folder):
    status, document = replica_group.ask("/v2/repository/models/x/load", {})
    assert (status, document["error"].count("there is no such model")) == (404, 1)
    (folder / "broken.dot").write_text(GRAPH % "gone")
    status, document = replica_group.ask("/v2/repository/models/broken/load", {})
    assert status >= 400
    assert document["error"].count("failed to load 'broken'") == 1
    who = replica_group.who(name="broken")
    assert who in replica_group.children()  # the running version goes on
    (folder / "broken.dot").write_text(GRAPH % "who")
    assert replica_group.ask("/v2/repository/models/broken/load", {})[0] == 200


def test_grpc_is_answered_by_all_and_its_figures_are_of_all(replica_group):
    with stubs(replica_group) as clients:
        asked = replica_group.metrics()["modelflow_requests_total", *OK]
        for client in clients:
            assert client.oip("ServerReady").ready
            (found,) = client.oip("ModelStatistics", name="m").model_stats
            assert found.inference_count == asked
        clients[0].oip("RepositoryModelUnload", model_name="n")
        for client in clients:
            assert not client.oip("ModelReady", name="n").ready
        with refused("NOT_FOUND", "there is no such model"):
            clients[0].oip("RepositoryModelUnload", model_name="x")
        clients[1].oip("RepositoryModelLoad", model_name="n")
        for client in clients:
            assert client.oip("ModelReady", name="n").ready


def test_the_supervisor_imports_nothing_that_runs_models():
    program = """if True:
        import sys
        import modelflow.cli.main, modelflow.cli.serve.replicas
        heavy = {"modelflow.runtime.scheduler", "modelflow.flow", "modelflow.engine"}
        heavy |= {"grpc", "uvloop", "cv2"}
        print(*heavy & set(sys.modules))
    """
    assert programs.run(["python", "-c", program], check=True).stdout == "\n"


# -- those that come later ----------------------------------------------------------------------


def test_one_that_dies_hurts_its_own_connections_alone_and_the_next_does_as_told(tmp_path):
    """Tests that the next replica has the same models, and that counters do not fall.

    If a new replica fails to start, the supervisor tries again later, and the other replicas go on.
    """
    for name in "ab":
        write_version(tmp_path / name, 1)
    write_graphs(tmp_path, m="who", n="who")
    (tmp_path / "models.config").write_text(
        f'model_config_list {{ config {{ name: "a" base_path: "{tmp_path / "a"}" }} }}'
    )
    more = ("--model-config-file", "models.config", "--grpc", "127.0.0.1:0", "--allow-repository")
    with serving(tmp_path, "m.dot", "n.dot", *more) as replica_group:

        def is_as_told():
            paths = {f"/v2/models/{name}": 404 if name in "an" else 200 for name in "abnm"}
            assert {path: replica_group.statuses(path) for path in paths} == {
                path: {status} for path, status in paths.items()
            }
            assert replica_group.statuses("/readyz") == {200}
            for _, rows in replica_group.everywhere("/v2/repository/index", {}):
                states = {row["name"]: row["state"] for row in rows}
                assert (states["m"], states["n"] == "READY") == ("READY", False)

        with stubs(replica_group) as clients:
            config = {"config": [{"name": "b", "base_path": str(tmp_path / "b")}]}
            clients[0].call(*RELOAD, config={"model_config_list": config})
            with refused("INVALID_ARGUMENT", "expected an absolute path"):
                wrong = {"config": [{"name": "b", "base_path": "b"}]}
                clients[0].call(*RELOAD, config={"model_config_list": wrong})
        assert replica_group.ask("/v2/repository/models/n/unload", {})[0] == 200
        is_as_told()
        descriptors = Path(f"/proc/{replica_group.process.pid}/fd")
        before = len(list(descriptors.iterdir()))
        with replica_group.connections(6) as all_of_them:
            found = {one: replica_group.who(one) for one in all_of_them}
            asked = replica_group.metrics()["modelflow_requests_total", *OK]
            victim, other = replica_group.children()
            said = replica_group.kill(victim, "ended by")
            assert "was ended by SIGKILL; another takes its place at once" in said
            for one, pid in found.items():
                if pid == other:
                    assert replica_group.who(one) == other
                    asked += 1
                else:
                    with pytest.raises((ConnectionError, OSError)):
                        replica_group.who(one)
            replica_group.wait_until_whole()
            (new,) = set(replica_group.children()) - {other}
            assert new != victim
            with replica_group.connections(3) as again:
                # the new replica has the fewest
                assert {replica_group.who(one) for one in again} == {new}
            assert replica_group.metrics()["modelflow_requests_total", *OK] == asked + 3
        is_as_told()
        assert replica_group.ask("/v2/repository/models/n/load", {})[0] == 200
        assert replica_group.statuses("/v2/models/n") == {200}
        wait_until(lambda: len(list(descriptors.iterdir())) == before)

        graph = tmp_path / "m.dot"
        graph.rename(tmp_path / "away")
        replica_group.kill(other, "there is no such file or folder")
        replica_group.wait_for("another takes its place in 1 s")
        with replica_group.connections(3) as all_of_them:
            assert {replica_group.who(one) for one in all_of_them} == {new}
        (tmp_path / "away").rename(graph)
        replica_group.wait_until_whole()
        assert replica_group.end(signal.SIGTERM) == 143


@pytest.fixture(scope="module")
def one_has_it(tmp_path_factory):
    """Yields two replicas, of which only the first can load a model."""
    folder = write_graphs(tmp_path_factory.mktemp("only"), m="who", only="Only")
    with serving(folder, "m.dot", "only.dot", "--allow-repository") as replica_group:
        yield replica_group


def test_what_loads_in_one_alone_is_said_with_who_it_is(one_has_it):
    """Tests the message if only the first replica can take an exclusive resource."""
    assert "somebody has it" in one_has_it.wait_for("somebody has it")
    assert one_has_it.statuses("/v2/models/m/ready") == {200}
    assert one_has_it.statuses("/v2/models/only/ready") == {200, 404}
    status, document = one_has_it.ask("/v2/repository/models/only/load", {})
    assert status >= 400
    assert document["error"].count("failed to load 'only'") == 1
    assert "replica" in document["error"]


def test_a_replica_that_is_told_to_end_loses_nothing_and_is_replaced(one_has_it):
    amiss, stop, answered = [], threading.Event(), collections.Counter()

    def load():
        try:
            while not stop.is_set():
                answered[one_has_it.who()] += 1
        except (OSError, http.client.HTTPException, AssertionError) as error:
            amiss.append(error)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    first = one_has_it.children()[0]
    wait_until(lambda: answered[first])
    os.kill(first, signal.SIGTERM)
    one_has_it.wait_for("has ended with exit code 143; another takes its place at once")
    wait_until(lambda: len(answered) == 3)
    stop.set()
    for thread in threads:
        thread.join()
    assert amiss == []


@pytest.mark.parametrize(
    ("code", "text"), [(3, "has ended with exit code 3"), (-9, "was ended by SIGKILL")]
)
def test_how_a_process_ended_is_said_in_words(code, text):
    assert describe_exit(code) == text
