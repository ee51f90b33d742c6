"""What several processes tell and do together, whichever of them is asked."""

import contextlib
import os
import signal

import grpc
import pytest

from modelflow.wire.proto import TF_SERVING
from tests.serve.grpc.stub import Stub, refused
from tests.serve.models_on_disk import write_version
from tests.serve.processes.server_processes import GRAPH, serving, wait_until, write_graphs

M = (("model", "m"), ("version", "1"))
OK = (("code", "OK"), *M)
RELOAD = "tensorflow.serving.ModelService", "HandleReloadConfigRequest"


@contextlib.contextmanager
def connections(replica_group, count=4):
    """Connections to all replicas, by turns."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(contextlib.closing(replica_group.connect())) for _ in range(count)
        ]


def everywhere(replica_group, path, document=None):
    """What each replica answers."""
    with connections(replica_group) as all_of_them:
        return [replica_group.ask(path, document, connection=one) for one in all_of_them]


@contextlib.contextmanager
def stubs(replica_group):
    """A client over gRPC for each of two replicas."""
    with contextlib.ExitStack() as stack:
        found, seen = [], set()
        while len(seen) < 2:
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = stack.enter_context(grpc.insecure_channel(replica_group.grpc, options))
            client = Stub(channel)
            who = _who(client)
            if who not in seen:
                seen.add(who)
                found.append(client)
        yield found


def _who(client):
    message = TF_SERVING["tensorflow.serving.PredictRequest"]()
    message.model_spec.name = "m"
    message.inputs["input"].dtype = 7
    message.inputs["input"].tensor_shape.dim.add().size = 1
    message.inputs["input"].string_val.append(b"x")
    answer = client.call("tensorflow.serving.PredictionService", "Predict", message)
    return answer.outputs["output"].string_val[0]


def test_figures_are_of_all_and_do_not_fall_when_one_dies(tmp_path):
    with serving(write_graphs(tmp_path), "m.dot") as replica_group:
        found = {replica_group.who() for _ in range(10)}
        assert found == set(replica_group.children())
        assert replica_group.ask("/v1/models/m:predict", {"instances": []})[0] == 400
        first = replica_group.metrics()
        assert first["modelflow_requests_total", *OK] == 10
        assert first["modelflow_request_seconds_count", *M] == 10
        assert first["nv_inference_request_success", *M] == 10
        assert (
            first[
                "modelflow_node_buffers_total",
                ("model", "m"),
                ("node", "who"),
                ("unit", "who"),
                M[1],
            ]
            == 10
        )
        assert (first["modelflow_replicas_up",], first["modelflow_replicas",]) == (2, 2)
        for status, document in everywhere(replica_group, "/v2/models/m/stats"):
            (stats,) = document["model_stats"]
            assert (status, stats["inference_count"], stats["execution_count"]) == (200, 10, 10)
            assert stats["inference_stats"]["success"]["count"] == 10
        for status, document in everywhere(replica_group, "/stats"):
            (node,) = (node for node in document["nodes"] if node["node"] == "who")
            assert (status, node["buffers"]) == (200, 10)
            assert document["process"]["resident_bytes"] > 0

        os.kill(replica_group.children()[0], signal.SIGKILL)
        replica_group.wait_for("another takes its place")
        wait_until(lambda: replica_group.metrics()["modelflow_replicas_up",] == 2)
        assert replica_group.metrics()["modelflow_requests_total", *OK] == 10
        replica_group.who()
        assert replica_group.metrics()["modelflow_requests_total", *OK] == 11


def test_a_replica_that_does_not_answer_is_left_out_and_said_to_be(tmp_path):
    with (
        serving(write_graphs(tmp_path), "m.dot") as replica_group,
        connections(replica_group, 2) as (one, two),
    ):
        pids = [replica_group.who(one), replica_group.who(two)]
        assert replica_group.metrics()["modelflow_requests_total", *OK] == 2
        os.kill(pids[0], signal.SIGSTOP)
        text = replica_group.ask("/metrics", connection=two)[1].decode()
        assert "modelflow_replicas_up 1.0" in text
        assert 'modelflow_requests_total{code="OK",model="m",version="1"} 2.0' in text
        os.kill(pids[0], signal.SIGCONT)
        wait_until(lambda: replica_group.metrics()["modelflow_replicas_up",] == 2)


def test_loading_and_unloading_is_done_by_all_also_by_those_that_come_later(tmp_path):
    write_graphs(tmp_path, m="who", n="who")
    with serving(tmp_path, "m.dot", "n.dot", "--allow-repository") as replica_group:
        assert replica_group.ask("/v2/repository/models/n/unload", {})[0] == 200
        assert {status for status, _ in everywhere(replica_group, "/v2/models/n")} == {404}
        os.kill(replica_group.children()[0], signal.SIGKILL)
        replica_group.wait_for("another takes its place")
        wait_until(lambda: replica_group.metrics()["modelflow_replicas_up",] == 2)
        assert {status for status, _ in everywhere(replica_group, "/v2/models/n")} == {404}
        indexes = [
            document for _, document in everywhere(replica_group, "/v2/repository/index", {})
        ]
        states = [{row["name"]: row["state"] for row in rows} for rows in indexes]
        assert [state["m"] for state in states] == ["READY"] * 4
        assert "READY" not in [state["n"] for state in states]
        assert {status for status, _ in everywhere(replica_group, "/readyz")} == {200}
        assert replica_group.ask("/v2/repository/models/n/load", {})[0] == 200
        assert {status for status, _ in everywhere(replica_group, "/v2/models/n")} == {200}


def test_what_loads_in_one_alone_is_said_with_who_it_is(tmp_path):
    """The unit takes what only one can have."""
    write_graphs(tmp_path, m="who", only="Only")
    with serving(tmp_path, "m.dot", "only.dot", "--allow-repository") as replica_group:
        assert "somebody has it" in replica_group.wait_for("somebody has it")
        assert {status for status, _ in everywhere(replica_group, "/v2/models/m/ready")} == {200}
        assert {status for status, _ in everywhere(replica_group, "/v2/models/only/ready")} == {
            200,
            404,
        }
        status, document = replica_group.ask("/v2/repository/models/only/load", {})
        assert status >= 400
        assert document["error"].count("failed to load 'only'") == 1
        assert "replica" in document["error"]


def test_what_does_not_load_is_told_once(tmp_path):
    write_graphs(tmp_path)
    with serving(tmp_path, "m.dot", "--allow-repository") as replica_group:
        status, document = replica_group.ask("/v2/repository/models/x/load", {})
        assert (status, document["error"].count("there is no such model")) == (404, 1)
        (tmp_path / "m.dot").write_text(GRAPH % "gone")
        status, document = replica_group.ask("/v2/repository/models/m/load", {})
        assert status >= 400
        assert document["error"].count("failed to load 'm'") == 1
        assert replica_group.who() in replica_group.children()  # what ran goes on
        (tmp_path / "m.dot").write_text(GRAPH % "who")
        assert replica_group.ask("/v2/repository/models/m/load", {})[0] == 200


def test_models_may_not_be_loaded_where_that_is_not_allowed(tmp_path):
    with serving(write_graphs(tmp_path), "m.dot") as replica_group:
        assert replica_group.ask("/v2/repository/models/m/unload", {})[0] == 403
        assert {status for status, _ in everywhere(replica_group, "/v2/models/m")} == {200}


def test_grpc_is_answered_by_all_and_its_figures_are_of_all(tmp_path):
    arguments = ("m.dot", "--grpc", "127.0.0.1:0", "--allow-repository")
    with (
        serving(write_graphs(tmp_path), *arguments) as replica_group,
        stubs(replica_group) as clients,
    ):
        asked = replica_group.metrics()["modelflow_requests_total", *OK]
        for client in clients:
            assert client.oip("ServerReady").ready
            (found,) = client.oip("ModelStatistics", name="m").model_stats
            assert found.inference_count == asked
        clients[0].oip("RepositoryModelUnload", model_name="m")
        for client in clients:
            assert not client.oip("ModelReady", name="m").ready
        with refused("NOT_FOUND", "there is no such model"):
            clients[0].oip("RepositoryModelUnload", model_name="x")
        clients[1].oip("RepositoryModelLoad", model_name="m")
        for client in clients:
            assert client.oip("ModelReady", name="m").ready


def test_another_configuration_holds_for_all_also_for_those_that_come_later(tmp_path):
    write_version(tmp_path / "a", 1)
    write_version(tmp_path / "b", 1)
    write_graphs(tmp_path)
    (tmp_path / "models.config").write_text(
        f'model_config_list {{ config {{ name: "a" base_path: "{tmp_path / "a"}" }} }}'
    )
    more = ("--model-config-file", "models.config", "--grpc", "127.0.0.1:0", "--allow-repository")
    with serving(tmp_path, "m.dot", *more) as replica_group, stubs(replica_group) as clients:
        config = {"config": [{"name": "b", "base_path": str(tmp_path / "b")}]}
        clients[0].call(*RELOAD, config={"model_config_list": config})
        for name, status in (("a", 404), ("b", 200)):
            path = f"/v2/models/{name}"
            assert {found for found, _ in everywhere(replica_group, path)} == {status}
        with refused("INVALID_ARGUMENT", "expected an absolute path"):
            config = {"config": [{"name": "b", "base_path": "b"}]}
            clients[0].call(*RELOAD, config={"model_config_list": config})
        os.kill(replica_group.children()[0], signal.SIGKILL)
        replica_group.wait_for("another takes its place")
        wait_until(lambda: replica_group.metrics()["modelflow_replicas_up",] == 2)
        for name, status in (("a", 404), ("b", 200)):
            path = f"/v2/models/{name}"
            assert {found for found, _ in everywhere(replica_group, path)} == {status}


@pytest.mark.parametrize("how", [("--poll", "0.05"), ()], ids=["poll", "signal"])
def test_new_versions_take_over_in_all(tmp_path, how):
    write_graphs(tmp_path)
    write_version(tmp_path / "times", 1)
    with serving(tmp_path, "times", *how) as replica_group:
        write_version(tmp_path / "times", 2)
        if not how:
            replica_group.process.send_signal(signal.SIGHUP)

        def versions():
            found = everywhere(
                replica_group, "/v1/models/times:predict", {"instances": [[1.0, 1.0]]}
            )
            return {row for _, document in found for row in document["predictions"][0]}

        wait_until(lambda: versions() == {2.0})


def test_one_that_cannot_take_its_place_is_tried_again_later_and_others_go_on(tmp_path):
    write_graphs(tmp_path)
    with serving(tmp_path, "m.dot") as replica_group:
        graph = tmp_path / "m.dot"
        graph.rename(tmp_path / "away")
        victim, other = replica_group.children()
        os.kill(victim, signal.SIGKILL)
        replica_group.wait_for("there is no such file or folder")
        replica_group.wait_for("another takes its place in 1 s")
        with connections(replica_group, 3) as all_of_them:
            assert {replica_group.who(one) for one in all_of_them} == {other}
        (tmp_path / "away").rename(graph)
        wait_until(lambda: replica_group.metrics()["modelflow_replicas_up",] == 2)
        assert replica_group.end(signal.SIGTERM) == 143


def test_clients_are_told_to_come_again_while_no_replica_is_there(tmp_path):
    write_graphs(tmp_path)
    with serving(tmp_path, "m.dot") as replica_group:
        before = replica_group.children()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        replica_group.wait_for("another takes its place", count=2)
        assert replica_group.who_is_back() not in before
