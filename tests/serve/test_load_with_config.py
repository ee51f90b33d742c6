"""Tests of loading a model with settings in place of the settings of its files."""

import contextlib
import importlib
import json

import pytest

from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import ask
from tests.serve.models_on_disk import GRAPH, write_model, write_version
from tests.serve.processes.server_processes import serving, wait_until

LOAD = "/v2/repository/models/m/load"
UNITS = """
import modelflow

@modelflow.flowunit
def double(x):
    return 2 * x
"""
TWO_NODES = """
[graph]
format = "graphviz"
graphconf = '''digraph g {
    x [type=input]
    first [flowunit="load_units:double", batch_size=2]
    last [flowunit="load_units:double", batch_size=4]
    y [type=output]
    x -> first -> last -> y
}'''
[serve.input.x]
datatype = "FP32"
shape = []
[serve.output.y]
datatype = "FP32"
shape = []
"""


def load(server, config=None, name="m"):
    parameters = {} if config is None else {"parameters": {"config": json.dumps(config)}}
    status, found, _ = ask(server, f"/v2/repository/models/{name}/load", parameters)
    return status, (found or {}).get("error", "")


def config_of(server, name="m"):
    found = ask(server, f"/v2/models/{name}/config")[1]
    return {key: one["string_value"] for key, one in found.get("parameters", {}).items()}


def settings_of(server, node="model", name="m"):
    """Returns the largest batch and the timeout of a node, and its threads and queue."""
    (model,) = [one for one in server._stock.models if one.name == name]
    found = model.flow.graph.nodes[node].settings
    return found.batch_size, found.batch_timeout_ms, found.threads, found.queue_size


@pytest.fixture
def server(tmp_path):
    write_version(tmp_path / "m", 1)
    (tmp_path / "load_units.py").write_text(UNITS)
    (tmp_path / "g.toml").write_text(TWO_NODES)
    options = ServeOptions(http_port=0, grpc_port=0, is_repository_open=True)
    with Server({"m": tmp_path / "m", "g": tmp_path / "g.toml"}, options) as server:
        yield server


def test_settings_reach_the_node_of_the_model_until_the_next_load(server):
    before = settings_of(server)
    config = {"batch_size": 5, "batch_timeout_ms": 1.5, "threads": 2, "queue_size": 77}
    assert load(server, config) == (200, "")
    assert settings_of(server) == (5, 1.5, 2, 77)
    assert config_of(server) == {key: str(one) for key, one in config.items()}
    assert ask(server, "/v2/models/m/config")[1]["max_batch_size"] == 5
    assert load(server) == (200, "")
    assert settings_of(server) == before
    assert config_of(server) == {}


def test_settings_reach_the_last_node_of_a_graph(server):
    assert load(server, {"batch_size": 3}, "g") == (200, "")
    assert [settings_of(server, node, "g")[0] for node in ("first", "last")] == [2, 3]


def test_settings_stay_when_the_disk_is_scanned(server):
    assert load(server, {"batch_size": 5}) == (200, "")
    (model,) = [one for one in server._stock.models if one.name == "m"]
    server.refresh()
    assert ask(server, "/v2/repository/models/g/load", {})[0] == 200  # after the scan
    assert settings_of(server)[0] == 5
    assert model in set(server._stock.models)


def test_equal_settings_load_nothing(server):
    assert load(server, {"batch_size": 5}) == (200, "")
    before = {one for one in server._stock.models if one.name == "m"}
    assert load(server, {"batch_size": 5}) == (200, "")
    assert {one for one in server._stock.models if one.name == "m"} == before


def test_wrong_value_leaves_the_running_version(server):
    assert load(server, {"batch_size": 5}) == (200, "")
    before = {one for one in server._stock.models if one.name == "m"}
    status, error = load(server, {"batch_size": 0})
    assert status == 400
    assert "batch_size: got" in error and "expected a number from 1" in error  # noqa: PT018
    assert {one for one in server._stock.models if one.name == "m"} == before
    assert config_of(server) == {"batch_size": "5"}
    assert ask(server, "/v1/models/m:predict", {"instances": [[1.0, 2.0]]})[0] == 200
    assert load(server, {"batch_size": 6}) == (200, "")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"config": '{"max_batch_size": "4.5"}'}, "batch_size: got '4.5'; expected a whole number"),
        ({"config": '{"max_batch_size": 4, "batch_size": 4}'}, "expected one of them"),
        ({"config": '{"instance_group": []}'}, "a key of Triton; its counterpart is threads"),
        ({"config": '{"dynamic_batching": {}}'}, "counterpart is batch_size and batch_timeout_ms"),
        ({"config": '{"batchsize": 4}'}, "unknown key 'batchsize'; did you mean 'batch_size'?"),
        ({"config": '{"batch_size": "4"}'}, "batch_size: got '4'; expected a whole number"),
        ({"config": '{"threads": true}'}, "threads: got True; expected a whole number"),
        ({"config": "[]"}, "expected the text of a JSON object"),
        ({"config": {"batch_size": 4}}, "expected the text of a JSON object"),
        ({"config": "{"}, "JSON"),
        ({"file:1/model.onnx": "AAAA"}, "files of clients are not loaded"),
        ({"other": 1}, "unknown parameter 'other'; expected config"),
        ([], "expected a JSON object"),
    ],
)
def test_wrong_parameters_are_refused_by_name(server, parameters, message):
    if parameters == []:
        parameters = [1]
    status, found, _ = ask(server, LOAD, {"parameters": parameters})
    assert status == 400
    assert message in found["error"]
    assert parameters == [1] or found["error"].startswith("failed to load 'm': ")


def test_triton_clients_send_settings(server):
    utils = importlib.import_module("tritonclient.utils")
    grpc, http = (importlib.import_module(f"tritonclient.{one}") for one in ("grpc", "http"))
    with (
        contextlib.closing(grpc.InferenceServerClient(server.grpc_address)) as one,
        contextlib.closing(
            http.InferenceServerClient(server.address.removeprefix("http://"))
        ) as two,
    ):
        one.load_model("m", config='{"batch_size": 5}')
        shown = one.get_model_config("m").config
        assert (shown.max_batch_size, shown.parameters["batch_size"].string_value) == (5, "5")
        one.load_model("m", config='{"max_batch_size": "7"}')  # as protobuf writes numbers
        assert one.get_model_config("m").config.max_batch_size == 7
        two.load_model("m", config='{"max_batch_size": 6}')
        assert two.get_model_config("m")["max_batch_size"] == 6
        for client in (one, two):
            with pytest.raises(utils.InferenceServerException, match="failed to load 'm': JSON"):
                client.load_model("m", config='"parameters": {}')
            with pytest.raises(utils.InferenceServerException, match="counterpart is threads"):
                client.load_model("m", config='{"instance_group": []}')
            with pytest.raises(utils.InferenceServerException, match="files of clients"):
                client.load_model("m", config="{}", files={"file:1/model.onnx": b"x"})


@pytest.mark.parametrize(
    ("option", "more"),
    [("--replicas", ()), ("--workers", ()), ("--replicas", ("--isolate", "m"))],
    ids=["replicas", "workers", "isolated"],
)
def test_settings_reach_every_process_also_a_later_one(tmp_path, option, more):
    write_model(tmp_path / "m.onnx", 2)
    (tmp_path / "who.py").write_text(
        "import os, modelflow\n@modelflow.flowunit\ndef who(x):\n    return str(os.getpid())\n"
    )
    (tmp_path / "w.dot").write_text(GRAPH % "who:who")
    given = ("m=m.onnx", "w=w.dot", "--allow-repository", *more)

    def sizes(servers):
        found = servers.everywhere("/v2/models/m/config")
        return {one.get("max_batch_size") for _, one in found}

    with serving(tmp_path, *given, option=option) as servers:
        wait_until(lambda: servers.ask("/readyz")[0] == 200)
        parameters = {"config": '{"batch_size": 5}'}
        assert servers.ask(LOAD, {"parameters": parameters}) == (200, None)
        assert sizes(servers) == {5}
        for pid in servers.children():
            servers.kill(pid)
        wait_until(lambda: servers.ask("/readyz")[0] == 200 and sizes(servers) == {5})
        assert servers.ask(LOAD, {}) == (200, None)
        assert 5 not in sizes(servers)
