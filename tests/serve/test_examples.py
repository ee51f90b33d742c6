"""Classify, regress and several signatures of SavedModels, against TensorFlow itself."""

import importlib

import grpc
import numpy as np
import pytest

from modelflow.serve.repository.config import ServeConfig
from modelflow.serve.repository.source import ModelSettings, read_policy
from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import ask
from tests.serve.grpc.stub import SECONDS
from tests.serve.half_plus_two import (
    CLASSIFY,
    REGRESS,
    apis,
    example,
    tensorflow,
    write_saved_model,
)

NUMBERS = (1.0, 2.5, -3.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m"
    write_saved_model(path / "1", 2.0)
    write_saved_model(path / "2", 3.0)
    return path


@pytest.fixture(scope="module")
def server(grpc_server, folder):
    catalogue = ServeConfig({"m": folder}, settings=ModelSettings(policy=read_policy("all")))
    with Server(catalogue, ServeOptions(http_port=0, grpc_port=0)) as running:
        yield running


@pytest.fixture(scope="module")
def called(folder):
    """Returns a call into TensorFlow itself: (version, signature, examples) -> outputs."""
    tf = tensorflow()
    loaded = {version: tf.saved_model.load(str(folder / str(version))) for version in (1, 2)}

    def call(version, signature):
        texts = [example(x=number).SerializeToString() for number in NUMBERS]
        found = loaded[version].signatures[signature](tf.constant(texts))
        return {name: value.numpy() for name, value in found.items()}

    return call


def document(signature, **more):
    return {"signature_name": signature, "examples": [{"x": one} for one in NUMBERS], **more}


@pytest.mark.parametrize("version", [1, 2])
def test_classes_over_rest_are_those_of_tensorflow(server, called, version):
    found = ask(server, f"/v1/models/m/versions/{version}:classify", document("classify"))
    expected = called(version, "classify")
    assert found[:2] == (
        200,
        {
            "results": [
                [[label.decode(), float(score)] for label, score in zip(*row, strict=True)]
                for row in zip(expected["classes"], expected["scores"], strict=True)
            ]
        },
    )


@pytest.mark.parametrize("version", [1, 2])
def test_regressions_over_rest_are_those_of_tensorflow(server, called, version):
    status, found, _ = ask(server, f"/v1/models/m/versions/{version}:regress", document("regress"))
    assert (status, found["results"]) == (200, called(version, "regress")["outputs"][:, 0].tolist())


def test_features_of_the_context_belong_to_each_example(server):
    body = {"signature_name": "regress", "context": {"x": 4.0}, "examples": [{}, {"x": 2.0}]}
    assert ask(server, "/v1/models/m/versions/1:regress", body)[:2] == (
        200,
        {"results": [4.0, 3.0]},
    )


def test_scores_without_labels_have_empty_ones(server):
    body = {"signature_name": "scores", "examples": [{"x": 2.0}]}
    found = ask(server, "/v1/models/m/versions/1:classify", body)[1]
    assert found == {"results": [[["", 3.0]]]}


@pytest.mark.parametrize(
    ("verb", "body", "text"),
    [
        (
            "classify",
            {"examples": [{"x": 1.0}]},
            "Expected a signature that takes serialized tf.Example",
        ),
        ("regress", document("classify"), "Expected one output Tensor 'outputs'"),
        ("classify", document("x"), '"x" not found in signature def'),
        ("predict", {"instances": [[1.0]], "signature_name": "y"}, '"y" not found in signature'),
        ("classify", {"examples": []}, "'examples' value is an empty array"),
        ("classify", {}, "key 'examples' is expected"),
        ("regress", {"signature_name": "regress", "examples": [{"z": 1.0}]}, ""),
        ("regress", {"signature_name": "regress", "examples": [{"x": [1.0, "a"]}]}, "JSON type"),
    ],
)
def test_what_is_wrong_is_said(server, verb, body, text):
    status, found, _ = ask(server, f"/v1/models/m:{verb}", body)
    assert status in ({400} if text else {400, 500})
    assert text in found["error"]
    assert ask(server, "/v1/models/m:regress", document("regress"))[0] == 200


def test_the_default_signature_answers_where_none_is_named(server):
    for more in ({}, {"signature_name": "serving_default"}):
        body = {"instances": [[1.0], [2.0]], **more}
        found = ask(server, "/v1/models/m/versions/1:predict", body)[1]
        assert found == {"predictions": [[2.5], [3.0]]}


def test_metadata_name_tensors_as_the_model_does(server):
    found = ask(server, "/v1/models/m/metadata")[1]["metadata"]["signature_def"]["signature_def"]
    assert found["serving_default"]["inputs"]["x"]["name"] == "x:0"
    assert found["serving_default"]["outputs"]["y"]["name"] == "y:0"
    assert found["regress"]["inputs"]["inputs"]["name"] == "examples:0"
    assert found["regress"]["outputs"]["outputs"]["name"] == "r:0"


def test_metadata_names_every_signature(server):
    found = ask(server, "/v1/models/m/metadata")[1]["metadata"]["signature_def"]["signature_def"]
    methods = {name: one["method_name"] for name, one in found.items()}
    assert methods == {
        "serving_default": "tensorflow/serving/predict",
        "classify": CLASSIFY,
        "regress": REGRESS,
        "scores": CLASSIFY,
    }
    assert found["classify"]["inputs"]["inputs"]["dtype"] == "DT_STRING"


def test_without_a_default_signature_a_request_names_one(tmp_path):
    path = write_saved_model(tmp_path / "m", has_default=False)
    with Server({"m": path}, ServeOptions(http_port=0)) as server:
        status, found, _ = ask(server, "/v1/models/m:predict", {"instances": [[1.0]]})
        assert (status, '"serving_default" not found' in found["error"]) == (400, True)
        body = {"instances": [[1.0]], "signature_name": "predict"}
        assert ask(server, "/v1/models/m:predict", body)[1] == {"predictions": [[2.5]]}


def test_a_signature_that_the_node_names_is_the_only_one(folder):
    settings = ModelSettings(overrides={"model.signature": "serving_default"})
    with Server(ServeConfig({"m": folder}, settings=settings), ServeOptions(http_port=0)) as server:
        assert len(server.model("m").all_signatures()) == 1


def test_a_version_ends_when_the_requests_of_all_its_signatures_are_answered(tmp_path):
    write_saved_model(tmp_path / "m" / "1")
    options = ServeOptions(http_port=0, is_repository_open=True)
    with Server({"m": tmp_path / "m"}, options) as server:
        flows = [one.flow for one in server.model("m").all_signatures()]
        assert len(flows) == 4
        assert ask(server, "/v2/repository/models/m/unload", {})[0] == 200
        while ask(server, "/v1/models/m")[1]["model_version_status"][0]["state"] != "END":
            pass
        assert not any(flow.is_running for flow in flows)


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.grpc_address) as found:
        yield found


def filled(request, signature, version=1):
    request.model_spec.name = "m"
    request.model_spec.signature_name = signature
    request.model_spec.version.value = version
    request.input.example_list.examples.extend(example(x=one) for one in NUMBERS)
    return request


def test_tensorflow_servings_stubs_classify_and_regress(channel, called):
    found = apis()
    stub = found["PredictionServiceStub"](channel)
    classes = stub.Classify(filled(found["ClassificationRequest"](), "classify"), timeout=SECONDS)
    expected = called(1, "classify")
    assert [
        [(one.label, one.score) for one in row.classes] for row in classes.result.classifications
    ] == [
        [(label.decode(), score) for label, score in zip(*row, strict=True)]
        for row in zip(expected["classes"], expected["scores"], strict=True)
    ]
    assert (classes.model_spec.signature_name, classes.model_spec.version.value) == ("classify", 1)
    values = stub.Regress(filled(found["RegressionRequest"](), "regress", 2), timeout=SECONDS)
    assert np.float32([one.value for one in values.result.regressions]).tolist() == (
        called(2, "regress")["outputs"][:, 0].tolist()
    )


def tasks(*wanted):
    request = apis()["MultiInferenceRequest"]()
    for name, signature, method in wanted:
        task = request.tasks.add(method_name=method)
        task.model_spec.name, task.model_spec.signature_name = name, signature
    request.input.example_list.examples.extend(example(x=one) for one in NUMBERS)
    return request


def test_several_signatures_are_asked_at_once(channel, called):
    stub = apis()["PredictionServiceStub"](channel)
    request = tasks(("m", "regress", REGRESS), ("m", "classify", CLASSIFY))
    first, second = stub.MultiInference(request, timeout=SECONDS).results
    assert first.model_spec.signature_name == "regress"
    assert [one.value for one in first.regression_result.regressions] == (
        called(2, "regress")["outputs"][:, 0].tolist()
    )
    assert second.classification_result.classifications[0].classes[0].label == "less"


@pytest.mark.parametrize(
    ("wanted", "code", "text"),
    [
        ((), "INVALID_ARGUMENT", "no tasks"),
        ((("m", "regress", REGRESS),) * 2, "INVALID_ARGUMENT", "Duplicate evaluation"),
        ((("m", "regress", "x"),), "UNIMPLEMENTED", "Unsupported signature method_name"),
        ((("m", "regress", REGRESS), ("x", "r", REGRESS)), "INVALID_ARGUMENT", "same model name"),
        (
            (("m", "regress", REGRESS), ("m", "classify", REGRESS)),
            "FAILED_PRECONDITION",
            "Expected one output Tensor 'outputs'",
        ),
        ((("x", "regress", REGRESS),), "NOT_FOUND", "Latest(x)"),
    ],
)
def test_tasks_that_do_not_fit_are_refused(server, channel, wanted, code, text):
    stub = apis()["PredictionServiceStub"](channel)
    with pytest.raises(grpc.RpcError) as refused:
        stub.MultiInference(tasks(*wanted), timeout=SECONDS)
    assert (refused.value.code().name, text in refused.value.details()) == (code, True)
    while server.model("m").admission.under_way:
        pass  # waits until the requests that the clients gave up have ended


def test_predict_over_grpc_chooses_a_signature(channel):
    tf = importlib.import_module("tensorflow")
    found = apis()
    request = found["PredictRequest"]()
    request.model_spec.name, request.model_spec.signature_name = "m", "regress"
    texts = [example(x=one).SerializeToString() for one in NUMBERS]
    request.inputs["inputs"].CopyFrom(tf.make_tensor_proto(texts))
    answer = found["PredictionServiceStub"](channel).Predict(request, timeout=SECONDS)
    assert answer.model_spec.signature_name == "regress"
    assert tf.make_ndarray(answer.outputs["outputs"]).shape == (3, 1)
