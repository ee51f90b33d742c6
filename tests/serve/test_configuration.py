"""Tests of a model's configuration in Triton's format."""

import importlib

import pytest

import modelflow
from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import TYPED, ask, mean, served
from tests.serve.grpc.test_open_inference import PARTS, Parts
from tests.serve.processes.server_processes import serving, wait_until


def config(server, path="/v2/models/m"):
    status, found, _ = ask(server, f"{path}/config")
    assert status == 200
    return found


def test_a_batched_model_is_told_without_the_batchs_axis():
    with served(node="batch_size=8, batch_timeout_ms=2") as server:
        found = config(server)
        assert config(server, "/v2/models/m/versions/1") == found
        assert ask(server, "/v2/models/x/config")[0] == 404
    assert (found["name"], found["platform"]) == ("m", "modelflow_graph")
    assert found["max_batch_size"] == 8
    (given,) = found["input"]
    assert given.pop("format") == "FORMAT_NONE"
    assert given == {"name": "input", "data_type": "TYPE_FP32", "dims": [-1]}
    assert found["output"] == [{"name": "output", "data_type": "TYPE_FP32", "dims": []}]
    assert found["dynamic_batching"]["max_queue_delay_microseconds"] == 2000
    assert found["model_transaction_policy"] == {"decoupled": False}


def test_an_input_that_passes_whole_has_its_whole_shape():
    source = TYPED.format(node="batch_size=1").replace(
        "shape = [-1]", "shape = [-1, 4]\nbatched = false"
    )
    with Server({"m": modelflow.Flow(source, units=[mean])}, ServeOptions(http_port=0)) as server:
        found = config(server)
    assert found["max_batch_size"] == 0
    assert found["input"][0]["dims"] == [-1, 4]
    assert "dynamic_batching" not in found


@pytest.mark.parametrize("option", ["--workers", "--replicas"])
def test_the_order_of_an_images_axes_is_told_by_every_process(tmp_path, option):
    grpc = importlib.import_module("tritonclient.grpc.model_config_pb2")
    (tmp_path / "same.py").write_text(
        "import modelflow\n@modelflow.flowunit\ndef same(x):\n    return x\n"
    )
    nodes, tables = "", ""
    for name, form in (("a", "NCHW"), ("b", "NHWC"), ("c", None)):
        nodes += f'{name} [type=input] n{name} [flowunit="same:same"] o{name} [type=output] '
        nodes += f"{name} -> n{name} -> o{name} "
        tables += f'[serve.input.{name}]\ndatatype = "UINT8"\nshape = [3, 5, 3]\n'
        tables += f'format = "{form}"\n' if form else ""
    (tmp_path / "m.toml").write_text(f"[graph]\ngraphconf = 'digraph {{ {nodes} }}'\n{tables}")
    with serving(tmp_path, "m.toml", option=option) as servers:
        wait_until(lambda: servers.ask("/readyz")[0] == 200)
        for _, found in servers.everywhere("/v2/models/m/config"):
            told = [one["format"] for one in found["input"]]
            assert told == ["FORMAT_NCHW", "FORMAT_NHWC", "FORMAT_NONE"]
            assert set(told) == set(grpc.ModelInput.Format.keys())


def test_a_model_of_many_buffers_a_request_is_decoupled():
    with Server({"m": modelflow.Flow(PARTS, units=[Parts])}, ServeOptions(http_port=0)) as server:
        found = config(server)
    assert found["model_transaction_policy"] == {"decoupled": True}
    assert found["output"] == [{"name": "output", "data_type": "TYPE_STRING", "dims": []}]
