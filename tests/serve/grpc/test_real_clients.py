"""Tests with real clients: Triton's, TensorFlow Serving's, and gRPC's own health probe."""

import asyncio
import contextlib
import importlib
import importlib.util
import json
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests import programs
from tests.serve.grpc.stub import SECONDS, X, grpc_served
from tests.serve.models_on_disk import write_version
from tests.serve.test_repository import serving
from tests.serve.test_server import Gate

pytestmark = pytest.mark.usefixtures("grpc_server")


@pytest.fixture(scope="module")
def server(grpc_server):
    with grpc_served() as running:
        yield running


@pytest.fixture(scope="module")
def triton(grpc_server):
    return pytest.importorskip(
        "tritonclient.grpc", reason="tritonclient[grpc] is not installed", exc_type=ImportError
    )


@pytest.fixture
def client(server, triton):
    with triton.InferenceServerClient(server.grpc_address) as found:
        yield found


def inputs(triton, array=X):
    tensor = triton.InferInput("input", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    return [tensor]


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_triton_client_infers(client, triton, compression):
    outputs = [triton.InferRequestedOutput("output")]
    result = client.infer(
        "m", inputs(triton), outputs=outputs, request_id="7", compression_algorithm=compression
    )
    assert result.as_numpy("output").tolist() == [1.0, 4.0]
    assert result.get_response().id == "7"


def test_triton_client_asks_for_classes(client, triton):
    outputs = [triton.InferRequestedOutput("output", class_count=1)]
    result = client.infer("m", inputs(triton), outputs=outputs)
    assert result.as_numpy("output").tolist() == [[b"1.000000:0:small"], [b"4.000000:0:small"]]


def test_triton_client_asks_what_there_is(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("m")
    assert not client.is_model_ready("x")
    assert client.get_server_metadata().name == "modelflow"
    assert client.get_model_metadata("m").inputs[0].name == "input"
    assert client.get_model_repository_index().models[0].name == "m"


def test_triton_clients_read_statistics_and_configuration(server, client, triton):
    client.infer("m", inputs(triton))
    found = client.get_inference_statistics("m", as_json=True)["model_stats"][0]
    config = client.get_model_config("m", as_json=True)["config"]
    with importlib.import_module("tritonclient.http").InferenceServerClient(
        server.address.removeprefix("http://")
    ) as rest:
        told = rest.get_inference_statistics("m")["model_stats"][0]
        assert int(found["inference_count"]) == told["inference_count"] >= 2
        success = found["inference_stats"]["success"]
        assert int(success["count"]) == told["inference_stats"]["success"]["count"]
        assert len(rest.get_inference_statistics()["model_stats"]) == 1
        assert rest.get_model_config("m")["input"][0]["data_type"] == "TYPE_FP32"
    assert config["input"][0]["data_type"] == "TYPE_FP32"
    assert config["max_batch_size"] == 8

    async def of_asyncio():
        grpc_aio = importlib.import_module("tritonclient.grpc.aio")
        http_aio = importlib.import_module("tritonclient.http.aio")
        async with grpc_aio.InferenceServerClient(server.grpc_address) as one:
            stats = await one.get_inference_statistics("m")
            shown = await one.get_model_config("m")
        async with http_aio.InferenceServerClient(server.address.removeprefix("http://")) as two:
            other = await two.get_inference_statistics("m")
            both = shown.config.max_batch_size, (await two.get_model_config("m"))["max_batch_size"]
        return stats.model_stats[0].inference_count, other["model_stats"][0], both

    count, other, both = asyncio.run(of_asyncio())
    assert count == other["inference_count"] == told["inference_count"]
    assert both == (8, 8)


def test_triton_clients_load_and_unload_where_that_is_allowed(client, triton, tmp_path):
    utils = importlib.import_module("tritonclient.utils")
    with pytest.raises(utils.InferenceServerException, match="--allow-repository") as refused:
        client.unload_model("m")
    assert refused.value.status() == "StatusCode.PERMISSION_DENIED"
    path = write_version(tmp_path / "m", 1)
    options = {"grpc_port": 0, "is_repository_open": True}
    with (
        serving(path, **options) as server,
        contextlib.closing(triton.InferenceServerClient(server.grpc_address)) as found,
    ):
        found.unload_model("m")
        assert not found.is_model_ready("m")
        (row,) = found.get_model_repository_index().models
        assert row.state in {"UNLOADING", "UNAVAILABLE"}
        write_version(tmp_path / "m", 2)
        found.load_model("m")
        assert found.is_model_ready("m", "2")
        with pytest.raises(utils.InferenceServerException, match="no such model") as missing:
            found.load_model("x")
        assert missing.value.status() == "StatusCode.NOT_FOUND"
        with pytest.raises(utils.InferenceServerException, match="unknown key") as other:
            found.load_model("m", config='{"platform": "x"}')
        assert other.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_triton_client_sees_errors_and_timeouts(client, triton):
    utils = importlib.import_module("tritonclient.utils")
    with pytest.raises(utils.InferenceServerException, match="unknown model: 'x'") as found:
        client.infer("x", inputs(triton))
    assert found.value.status() == "StatusCode.NOT_FOUND"
    with pytest.raises(utils.InferenceServerException, match="expects 'FP32'"):
        tensor = triton.InferInput("input", [1, 1], "INT32")
        client.infer("m", [tensor.set_data_from_numpy(np.int32([[1]]))])


def test_triton_client_streams(client, triton):
    found, all_there = [], threading.Event()

    def note(result, error):
        found.append(error or result.as_numpy("output").tolist())
        if len(found) == 3:
            all_there.set()

    client.start_stream(note)
    client.async_stream_infer("m", inputs(triton), enable_empty_final_response=True)
    client.async_stream_infer("x", inputs(triton))
    client.async_stream_infer("m", inputs(triton, X[:1]))
    assert all_there.wait(SECONDS)
    client.stop_stream()
    assert (found[0], found[2]) == ([1.0, 4.0], [1.0])
    assert "unknown model" in str(found[1])


def test_triton_client_of_asyncio_infers_and_streams(server, triton):
    aio = importlib.import_module("tritonclient.grpc.aio")

    async def ask():
        async with aio.InferenceServerClient(server.grpc_address) as client:
            results = await asyncio.gather(
                *(client.infer("m", inputs(triton, X + number)) for number in range(20))
            )

            async def requests():
                for number in range(3):
                    yield {"model_name": "m", "inputs": inputs(triton, X[:1] + number)}

            stream = [
                result.as_numpy("output").tolist()
                async for result, _ in client.stream_infer(requests())
            ]
            return [result.as_numpy("output").tolist() for result in results], stream

    answers, stream = asyncio.run(ask())
    assert answers == [[1.0 + number, 4.0 + number] for number in range(20)]
    assert stream == [[1.0], [2.0], [3.0]]


@pytest.fixture
def tf_serving():
    """Returns the generated modules and stubs of tensorflow-serving-api, which bring TensorFlow."""
    names = ("predict", "get_model_metadata", "get_model_status")
    pytest.importorskip(
        "tensorflow_serving.apis.prediction_service_pb2_grpc",
        reason="tensorflow-serving-api is not installed",
        exc_type=ImportError,
    )
    found = {}
    for name in (
        *(f"{name}_pb2" for name in names),
        "prediction_service_pb2_grpc",
        "model_service_pb2_grpc",
    ):
        found |= vars(importlib.import_module(f"tensorflow_serving.apis.{name}"))
    return found


def test_tensorflow_servings_stubs_predict_and_ask(server, tf_serving):
    grpc = importlib.import_module("grpc")
    tensorflow = importlib.import_module("tensorflow")
    request = tf_serving["PredictRequest"]()
    request.model_spec.name = "m"
    request.inputs["input"].CopyFrom(tensorflow.make_tensor_proto(X))
    metadata = tf_serving["GetModelMetadataRequest"](metadata_field=["signature_def"])
    metadata.model_spec.name = "m"
    status = tf_serving["GetModelStatusRequest"]()
    status.model_spec.name = "m"
    with grpc.insecure_channel(server.grpc_address) as channel:
        prediction = tf_serving["PredictionServiceStub"](channel)
        answer = prediction.Predict(request, timeout=SECONDS)
        assert tensorflow.make_ndarray(answer.outputs["output"]).tolist() == [1.0, 4.0]
        found = prediction.GetModelMetadata(metadata, timeout=SECONDS)
        assert found.metadata["signature_def"].type_url.endswith("SignatureDefMap")
        models = tf_serving["ModelServiceStub"](channel)
        state = models.GetModelStatus(status, timeout=SECONDS).model_version_status[0].state
        assert state == 30


def test_grpcs_health_probe_is_answered(server):
    health = pytest.importorskip(
        "grpc_health.v1.health_pb2_grpc", reason="grpcio-health-checking is not installed"
    )
    messages = importlib.import_module("grpc_health.v1.health_pb2")
    grpc = importlib.import_module("grpc")
    with grpc.insecure_channel(server.grpc_address) as channel:
        request = messages.HealthCheckRequest(service="")
        answer = health.HealthStub(channel).Check(request, timeout=SECONDS)
    assert answer.status == messages.HealthCheckResponse.SERVING


@pytest.mark.skipif(
    importlib.util.find_spec("ovmsclient") is None,
    reason="ovmsclient is not installed: pip install ovmsclient (group test)",
)
def test_the_client_of_openvino_model_server_asks_over_both(server):
    program = Path(__file__).parents[1] / "foreign" / "ask_ovms.py"
    addresses = (server.address.removeprefix("http://"), server.grpc_address)
    found = json.loads(programs.run([sys.executable, program, *addresses], check=True).stdout)
    for said in found.values():
        assert said["predicted"] == said["of version"] == [2.0, 5.0]
        assert said["status"] == "AVAILABLE"
        kind, text = said["unknown"]
        assert (kind, "Servable not found for request: Latest(x)" in text) == (
            "ModelNotFoundError",
            True,
        )
    assert (
        "serving_default" in found["http"]["metadata"]["metadata"]["signature_def"]["signature_def"]
    )
    assert found["grpc"]["metadata"]["inputs"]["input"]["dtype"] == "DT_FLOAT"
    assert "Sent extra: {y}" in found["grpc"]["misfit"][1]
    assert found["http"]["misfit"] == []  # in column format, a name that is no input is ignored


def test_grpcs_health_probe_watches(server):
    health = pytest.importorskip(
        "grpc_health.v1.health_pb2_grpc", reason="grpcio-health-checking is not installed"
    )
    messages = importlib.import_module("grpc_health.v1.health_pb2")
    grpc = importlib.import_module("grpc")
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = health.HealthStub(channel)
        for name, status in (("", "SERVING"), ("inference.GRPCInferenceService", "SERVING")):
            request = messages.HealthCheckRequest(service=name)
            watch = stub.Watch(request, timeout=SECONDS)
            assert next(watch).status == messages.HealthCheckResponse.ServingStatus.Value(status)
            watch.cancel()
        with pytest.raises(grpc.RpcError) as refused:
            stub.Check(messages.HealthCheckRequest(service="x"), timeout=SECONDS)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_triton_client_gives_up_a_call_and_the_server_works_no_more_for_it(triton):
    """Tests cancellation and timeouts: cancelled requests are counted, and none is left."""
    utils, gate = importlib.import_module("tritonclient.utils"), Gate()
    with (
        grpc_served(gate.unit, gate.NODE) as server,
        triton.InferenceServerClient(server.grpc_address) as client,
    ):
        ended = threading.Event()
        call = client.async_infer("m", inputs(triton), lambda result, error: ended.set())
        assert gate.entered.acquire(timeout=SECONDS)
        call.cancel()
        assert ended.wait(SECONDS)
        figures = server.model("m").figures
        while figures.requests < 2:  # a call whose time is over on its way never reaches the server
            with pytest.raises(utils.InferenceServerException) as late:
                client.infer("m", inputs(triton), client_timeout=1.0)
            assert late.value.status() == "StatusCode.DEADLINE_EXCEEDED"
            # until the server knows of the cancellation
            while server.model("m").admission.under_way:
                pass
        gate.go.set()
        assert figures.outcomes["OK"] == 0
        assert figures.outcomes["CANCELLED"] >= 1
        assert figures.requests == 2
        assert client.infer("m", inputs(triton)).as_numpy("output").tolist() == [0.0, 3.0]
