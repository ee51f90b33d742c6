"""Tests of a shape that only the engine rejects: the client gets the engine's message."""

import grpc
import numpy as np
import pytest

from modelflow.serve.server import ServeOptions, Server
from tests.engine.conftest import save_onnx
from tests.serve.clients import ask
from tests.serve.grpc.stub import stub

SAID = "MatMul dimension mismatch"


@pytest.fixture(scope="module")
def server(grpc_server, tmp_path_factory):
    nodes, ports = [("MatMul", ["x", "w"], ["y"])], ({"x": ["n", "k"]}, {"y": ["n", 3]})
    path = tmp_path_factory.mktemp("secret-folder") / "net.onnx"
    save_onnx(path, nodes, *ports, {"w": np.ones((4, 3), np.float32)})
    with Server({"m": path}, ServeOptions(http_port=0, grpc_port=0)) as running:
        yield running


def tensor(width):
    return {"name": "x", "datatype": "FP32", "shape": [1, width]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/models/m:predict", lambda width: {"instances": [[0.0] * width]}),
        ("/v1/models/m:predict", lambda width: {"instances": [[0.0] * width, [1.0] * width]}),
        (
            "/v2/models/m/infer",
            lambda width: {"inputs": [{**tensor(width), "data": [0.0] * width}]},
        ),
        ("/v2/models/m/generate", lambda width: {"x": [0.0] * width}),
    ],
    ids=["one row", "rows", "tensor", "item"],
)
def test_over_rest_it_is_400_with_the_engines_text(server, path, body):
    assert ask(server, path, body(4))[0] == 200
    status, document, _ = ask(server, path, body(5))
    assert status == 400
    assert SAID in document["error"]
    assert "secret-folder" not in document["error"]


def test_over_grpc_it_is_an_invalid_argument_with_the_engines_text(server):
    def infer(client, width):
        raw = [np.zeros(width, np.float32).tobytes()]
        return client.oip(
            "ModelInfer", model_name="m", inputs=[tensor(width)], raw_input_contents=raw
        )

    with stub(server) as client:
        assert infer(client, 4).outputs[0].shape == [1, 3]
        with pytest.raises(grpc.RpcError) as caught:
            infer(client, 5)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert SAID in caught.value.details()
    assert "secret-folder" not in caught.value.details()
