"""Triton's client over HTTP, and its twin of asyncio."""

import asyncio
import importlib

import numpy as np
import pytest

from tests.serve.clients import served
from tests.serve.grpc.stub import X
from tests.serve.models_on_disk import write_version
from tests.serve.test_repository import serving


@pytest.fixture(scope="module")
def server():
    with served() as running:
        yield running


@pytest.fixture(scope="module")
def triton():
    return pytest.importorskip(
        "tritonclient.http", reason="tritonclient[http] is not installed", exc_type=ImportError
    )


@pytest.fixture
def client(server, triton):
    with triton.InferenceServerClient(place(server), concurrency=8) as found:
        yield found


def place(server):
    return server.address.removeprefix("http://")


def inputs(triton, array=X, *, is_binary=True):
    tensor = triton.InferInput("input", list(array.shape), "FP32")
    return [tensor.set_data_from_numpy(array, binary_data=is_binary)]


@pytest.mark.parametrize("is_answered_binary", [True, False])
@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_it_infers(client, triton, is_binary, is_answered_binary, compression):
    rows = np.tile(X, (300, 1))  # answers of some length are compressed
    result = client.infer(
        "m",
        inputs(triton, rows, is_binary=is_binary),
        outputs=[triton.InferRequestedOutput("output", binary_data=is_answered_binary)],
        request_id="7",
        request_compression_algorithm=compression,
        response_compression_algorithm=compression,
    )
    assert result.as_numpy("output").tolist() == [1.0, 4.0] * 300
    assert result.get_response()["id"] == "7"


def test_it_asks_for_classes(client, triton):
    outputs = [triton.InferRequestedOutput("output", class_count=1)]
    result = client.infer("m", inputs(triton), outputs=outputs)
    assert result.as_numpy("output").tolist() == [[b"1.000000:0:small"], [b"4.000000:0:small"]]


def test_many_requests_are_under_way_at_once(client, triton):
    waiting = [client.async_infer("m", inputs(triton, X + number)) for number in range(64)]
    answers = [one.get_result().as_numpy("output").tolist() for one in waiting]
    assert answers == [[1.0 + number, 4.0 + number] for number in range(64)]


def test_it_asks_what_there_is(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("m", "1")
    assert not client.is_model_ready("x")
    assert client.get_server_metadata()["name"] == "modelflow"
    assert client.get_model_metadata("m")["inputs"][0]["datatype"] == "FP32"
    assert client.get_model_repository_index()[0]["name"] == "m"
    assert client.get_model_config("m")["max_batch_size"] == 8
    assert client.get_inference_statistics("m")["model_stats"][0]["name"] == "m"


def test_it_sees_errors(client, triton):
    utils = importlib.import_module("tritonclient.utils")
    with pytest.raises(utils.InferenceServerException, match="unknown model: 'x'") as found:
        client.infer("x", inputs(triton))
    assert found.value.status() == "404"
    with pytest.raises(utils.InferenceServerException, match="expects 'FP32'"):
        tensor = triton.InferInput("input", [1, 1], "INT32")
        client.infer("m", [tensor.set_data_from_numpy(np.int32([[1]]))])
    with pytest.raises(utils.InferenceServerException, match="--allow-repository"):
        client.unload_model("m")


def test_it_loads_and_unloads(triton, tmp_path):
    root = write_version(tmp_path / "m", 1)
    with (
        serving(root, is_repository_open=True) as server,
        triton.InferenceServerClient(place(server)) as client,
    ):
        client.unload_model("m")
        assert not client.is_model_ready("m")
        write_version(root, 2)
        client.load_model("m")
        assert client.is_model_ready("m", "2")


def test_its_twin_of_asyncio_infers(server, triton):
    aio = importlib.import_module("tritonclient.http.aio")

    async def ask():
        async with aio.InferenceServerClient(place(server)) as client:
            assert await client.is_server_ready()
            results = await asyncio.gather(
                *(
                    client.infer("m", inputs(triton, X + number, is_binary=bool(number % 2)))
                    for number in range(20)
                )
            )
            return [result.as_numpy("output").tolist() for result in results]

    assert asyncio.run(ask()) == [[1.0 + number, 4.0 + number] for number in range(20)]
