"""Tests of a model without inputs, whose requests have no inputs and make one call."""

import shutil
from pathlib import Path

import pytest

import modelflow
from modelflow.errors import FlowFailed
from modelflow.registry.folder import read_unit_folder
from modelflow.serve.server import ServeOptions, Server
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.tf_serving.tensor_proto import array_of_proto
from tests.serve.clients import ask
from tests.serve.grpc.stub import PREDICTION, stub
from tests.serve.half_plus_two import tensorflow

PREDICT = "/v1/models/m:predict"
THREE = [1.0, 2.0, 3.0]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Writes a model with numbers and a text as outputs; its other signature has an input."""
    tf = tensorflow()
    module, path = tf.Module(), tmp_path_factory.mktemp("constant") / "model"
    module.numbers = tf.Variable(THREE)

    @tf.function(input_signature=[])
    def constant():
        return {"numbers": module.numbers.read_value(), "text": tf.constant("three")}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def double(x):
        return {"y": 2 * x}

    tf.saved_model.save(module, str(path), {"serving_default": constant, "double": double})
    return path


@pytest.fixture(scope="module")
def server(grpc_server, model):
    with Server({"m": model}, ServeOptions(http_port=0, grpc_port=0)) as running:
        yield running


def test_over_rest_the_columns_are_an_empty_object(server):
    found = ask(server, PREDICT, {"inputs": {}})
    assert found[:2] == (200, {"outputs": {"numbers": THREE, "text": "three"}})


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"instances": [{}]}, "takes no inputs, so there are no instances"),
        ({"instances": [1.0]}, "takes no inputs, so there are no instances"),
        ({"inputs": 3.0}, "the signature takes no inputs"),
    ],
)
def test_rows_and_values_are_refused(server, body, text):
    status, found, _ = ask(server, PREDICT, body)
    assert status == 400
    assert text in found["error"]


def test_over_grpc_the_request_has_no_inputs(server):
    with stub(server) as client:
        answer = client.call(PREDICTION, "Predict", model_spec={"name": "m"})
        assert array_of_proto(answer.outputs["numbers"], "numbers").tolist() == THREE
        answer = client.oip("ModelInfer", model_name="m")
    assert [(one.name, [*one.shape]) for one in answer.outputs] == [("numbers", [3]), ("text", [])]


def test_open_inference_takes_an_empty_list(server):
    status, found, _ = ask(server, "/v2/models/m/infer", {"inputs": []})
    assert status == 200
    assert [one["data"] for one in found["outputs"]] == [THREE, ["three"]]
    status, found, _ = ask(server, "/v2/models/m/infer", {"inputs": [tensor()]})
    assert status == 400
    assert "Sent extra: {x}" in found["error"]


def tensor():
    return {"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}


def test_generate_takes_an_empty_object(server):
    status, found, _ = ask(server, "/v2/models/m/generate", {})
    assert (status, found["numbers"], found["text"]) == (200, THREE, "three")


def test_metadata_name_tensors_as_tensorflow_has_exported_them(server, model):
    tf = tensorflow()
    exported = tf.saved_model.load(str(model)).signatures
    found = ask(server, "/v1/models/m/metadata")[1]["metadata"]["signature_def"]["signature_def"]
    assert found.keys() == exported.keys()
    assert found["double"]["inputs"]["x"]["name"] == "double_x:0"
    names = {one["name"] for one in found["serving_default"]["outputs"].values()}
    assert len(names) == 2
    assert all("PartitionedCall" in name for name in names)


def test_metadata_and_configuration_know_no_input_and_no_batch(server):
    _, metadata, _ = ask(server, "/v2/models/m")
    assert metadata["inputs"] == []
    assert metadata["outputs"][0]["shape"] == [3]
    _, configuration, _ = ask(server, "/v2/models/m/config")
    assert (configuration["input"], configuration["max_batch_size"]) == ([], 0)


def test_the_description_of_the_interface_shows_how_to_ask(server):
    _, found, _ = ask(server, "/openapi.json")
    (body,) = found["paths"][PREDICT]["post"]["requestBody"]["content"].values()
    assert body["example"] == {"inputs": {}}
    assert ask(server, PREDICT, body["example"])[0] == 200


def test_a_recorded_request_without_inputs_is_run_before_a_version_is_served(model, tmp_path):
    path = Path(shutil.copytree(model, tmp_path / "model"))
    (path / "assets.extra").mkdir()
    log = TF_SERVING["tensorflow.serving.PredictionLog"]()
    log.predict_log.request.model_spec.name = "m"
    with tensorflow().io.TFRecordWriter(
        str(path / "assets.extra" / "tf_serving_warmup_requests")
    ) as writer:
        writer.write(log.SerializeToString())
    with Server({"m": path}, ServeOptions(http_port=0)) as server:
        assert server.model("m").flow.stats()["model"].buffers == 1


def unit_in(folder, model, inputs=""):
    """Writes a unit file for a model, in its own folder."""
    output = "[output.output1]\nname = 'numbers'\ntype = 'float'\n"
    base = f"name = 'constant'\ntype = 'inference'\nvirtual_type = 'tensorflow'\nentry = '{model}'"
    (folder / "constant.toml").write_text(f"[base]\n{base}\n{inputs}{output}")
    return folder


def test_in_a_graph_each_item_at_the_trigger_is_a_call(model, tmp_path):
    spec = read_unit_folder(unit_in(tmp_path, model))
    graph = "digraph g { a [type=input] b [type=output] n [flowunit=constant, batch_size=4] "
    with modelflow.Flow(graph + "a -> n:trigger n:numbers -> b }", units=[spec]) as flow:
        answers = [flow.infer(value).data.tolist() for value in (None, 7, b"x")]
    assert answers == [THREE] * 3


def test_a_unit_file_without_the_inputs_of_its_model_is_refused(model, tmp_path):
    folder = unit_in(tmp_path, model, "[config]\nsignature = 'double'\n")
    (folder / "constant.toml").write_text(
        (folder / "constant.toml").read_text().replace("'numbers'", "'y'")
    )
    with pytest.raises(FlowFailed) as caught, modelflow.Model(folder):
        pass
    assert "declares no input, but the model" in str(caught.value.exceptions)
