"""Tests of a model's configuration in Triton's format."""

import modelflow
from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import TYPED, ask, mean, served
from tests.serve.grpc.test_open_inference import PARTS, Parts


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
    assert found["input"] == [{"name": "input", "data_type": "TYPE_FP32", "dims": [-1]}]
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


def test_a_model_of_many_buffers_a_request_is_decoupled():
    with Server({"m": modelflow.Flow(PARTS, units=[Parts])}, ServeOptions(http_port=0)) as server:
        found = config(server)
    assert found["model_transaction_policy"] == {"decoupled": True}
    assert found["output"] == [{"name": "output", "data_type": "TYPE_STRING", "dims": []}]
