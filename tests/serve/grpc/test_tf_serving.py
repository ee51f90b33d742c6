"""TensorFlow Serving over gRPC."""

import pytest

from modelflow.serve.repository.config import ServeConfig
from modelflow.serve.server import ServeOptions, Server
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.tf_serving.tensor_proto import array_of_proto
from tests.serve.clients import ask
from tests.serve.grpc.stub import PREDICTION, X, grpc_served, predict, refused, stub
from tests.serve.models_on_disk import write_version

pytestmark = pytest.mark.usefixtures("grpc_server")

MODELS = "tensorflow.serving.ModelService"
CLASSIFY = {"method_name": "tensorflow/serving/classify"}


@pytest.fixture(scope="module")
def server(grpc_server):
    with grpc_served() as running:
        yield running


@pytest.fixture
def client(server):
    with stub(server) as found:
        yield found


def filtered(*names):
    message = predict()
    message.output_filter.extend(names)
    return message


@pytest.mark.parametrize(
    "message",
    [
        predict(),
        predict(version=1),
        predict(version=0),
        predict(signature_name="serving_default"),
        filtered("output"),
    ],
)
def test_predict_answers_with_the_outputs_and_who_gave_them(client, message):
    answer = client.call(PREDICTION, "Predict", message)
    spec = answer.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("m", 1, "serving_default")
    assert array_of_proto(answer.outputs["output"], "output").tolist() == [1.0, 4.0]


def without_input():
    message = predict()
    message.inputs["other"].CopyFrom(message.inputs.pop("input"))
    return message


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        (predict(name=""), "INVALID_ARGUMENT", "no name specified"),
        (predict(name="x"), "NOT_FOUND", "Servable not found for request: Latest(x)"),
        (predict(version=5), "NOT_FOUND", "Servable not found for request: Specific(m, 5)"),
        (predict(version=-1), "NOT_FOUND", "Specific(m, -1)"),
        (predict(version_label="stable"), "INVALID_ARGUMENT", "version label: stable"),
        (predict(signature_name="x"), "INVALID_ARGUMENT", '"x" not found in signature def'),
        (predict(X.astype("f8")), "INVALID_ARGUMENT", "dtype DT_DOUBLE; expected DT_FLOAT"),
        (predict(X[0]), "INVALID_ARGUMENT", "got items of shape ()"),
        (without_input(), "INVALID_ARGUMENT", "Sent extra: {other}. Missing but required: {input}"),
        (filtered("x"), "INVALID_ARGUMENT", "output tensor alias not found in signature: x"),
        (filtered("output", "output"), "INVALID_ARGUMENT", "duplicate output tensor alias"),
    ],
)
def test_what_is_wrong_is_said_as_clients_expect_it(client, message, code, text):
    with refused(code, text):
        client.call(PREDICTION, "Predict", message)


def test_metadata_tells_the_signature(client):
    spec = {"name": "m"}
    answer = client.call(
        PREDICTION, "GetModelMetadata", model_spec=spec, metadata_field=["signature_def"]
    )
    assert answer.model_spec.version.value == 1
    found = TF_SERVING["tensorflow.serving.SignatureDefMap"]()
    assert answer.metadata["signature_def"].Unpack(found)
    signature = found.signature_def["serving_default"]
    assert [dim.size for dim in signature.inputs["input"].tensor_shape.dim] == [-1, -1]
    with refused("INVALID_ARGUMENT", "no metadata_field"):
        client.call(PREDICTION, "GetModelMetadata", model_spec=spec)
    with refused("INVALID_ARGUMENT", "Metadata field 'x' is not supported"):
        client.call(PREDICTION, "GetModelMetadata", model_spec=spec, metadata_field=["x"])


@pytest.mark.parametrize(
    ("name", "fields", "verb"),
    [
        ("Classify", {"model_spec": {"name": "m"}}, "classify"),
        ("Regress", {"model_spec": {"name": "m"}}, "regress"),
        ("MultiInference", {"tasks": [{**CLASSIFY, "model_spec": {"name": "m"}}]}, "classify"),
    ],
)
def test_what_needs_another_signature_is_refused_as_over_rest(server, client, name, fields, verb):
    _, rest, _ = ask(server, f"/v1/models/m:{verb}", {"examples": [{}]})
    examples = {"example_list": {"examples": [{}]}}
    with refused("INVALID_ARGUMENT", rest["error"]):
        client.call(PREDICTION, name, input=examples, **fields)


def test_status_lists_the_versions(client):
    answer = client.call(MODELS, "GetModelStatus", model_spec={"name": "m"})
    (one,) = answer.model_version_status
    assert (one.version, one.state, one.status.error_code) == (1, 30, 0)
    with refused("NOT_FOUND", "Could not find any versions of model x"):
        client.call(MODELS, "GetModelStatus", model_spec={"name": "x"})


def reload(client, *models):
    """Requests these models: name, folder, and further fields of a ``ModelConfig``."""
    config = {
        "config": [{"name": name, "base_path": str(path), **more} for name, path, more in models]
    }
    return client.call(MODELS, "HandleReloadConfigRequest", config={"model_config_list": config})


@pytest.fixture
def configured(tmp_path):
    """Yields a server with the model "a" of a models.config, and the folders "a" and "b"."""
    for name in ("a", "b"):
        write_version(write_version(tmp_path / name, 1), 2)
    file = tmp_path / "models.config"
    file.write_text('model_config_list { config { name: "a" base_path: "a" } }')
    options = ServeOptions(http_port=0, grpc_port=0, is_repository_open=True)
    with Server(ServeConfig(config_file=file), options) as server, stub(server) as client:
        yield tmp_path, server, client


def test_a_client_puts_other_models_in_the_place_of_the_files(configured):
    path, server, client = configured
    both = {"model_version_policy": {"all": {}}, "version_labels": {"stable": 1}}
    reload(client, ("b", path / "b", both))
    found = ask(server, "/v1/models/b/labels/stable:predict", {"instances": [[1.0, 2.0]]})[1]
    assert found == {"predictions": [[1.0, 2.0]]}
    while ask(server, "/v1/models/a")[0] == 200 and server.models != ("b",):
        pass
    assert ask(server, "/v1/models/a:predict", {"instances": [[1.0, 2.0]]})[0] == 404
    write_version(path / "b", 3)
    server.refresh()  # uses the client's configuration
    while ask(server, "/v1/models/b/versions/3:predict", {"instances": [[1.0, 2.0]]})[0] != 200:
        pass


def test_a_label_may_be_moved_only_to_a_version_that_is_loaded(configured):
    path, server, client = configured
    with refused("FAILED_PRECONDITION", "not currently available for inference"):
        reload(client, ("a", path / "a", {"version_labels": {"stable": 1}}))
    reload(client, ("a", path / "a", {"version_labels": {"stable": 2}}))
    with refused("FAILED_PRECONDITION", "'stable' to version 7"):
        reload(client, ("a", path / "a", {"version_labels": {"stable": 7}}))
    assert ask(server, "/v1/models/a/labels/stable")[0] == 200


@pytest.mark.parametrize(
    ("models", "text"),
    [
        ((("b", "b", {}),), "expected an absolute path"),
        ((("b", "/nowhere/at/all", {}),), "there is no such file or folder"),
        ((("", "/b", {}),), "has no name"),
    ],
)
def test_what_cannot_be_served_changes_nothing(configured, models, text):
    _, server, client = configured
    with refused("INVALID_ARGUMENT", text):
        reload(client, *models)
    assert ask(server, "/v1/models/a:predict", {"instances": [[1.0, 2.0]]})[0] == 200
    with refused("INVALID_ARGUMENT", "no config"):
        client.call(MODELS, "HandleReloadConfigRequest")


def test_a_client_may_not_where_the_repository_is_closed(client, tmp_path):
    with refused("PERMISSION_DENIED", "--allow-repository"):
        reload(client, ("a", tmp_path, {}))


def test_rest_and_grpc_give_the_same_answers(server, client):
    _, rest, _ = ask(server, "/v1/models/m:predict", {"inputs": {"input": X.tolist()}})
    answer = client.call(PREDICTION, "Predict", predict())
    assert rest["outputs"] == array_of_proto(answer.outputs["output"], "output").tolist()
    _, rest, _ = ask(server, "/v1/models/m/versions/5:predict", {"inputs": X.tolist()})
    with refused("NOT_FOUND", rest["error"]):
        client.call(PREDICTION, "Predict", predict(version=5))
