"""Tests that all ways to call the ready graphs give the same answers to the same inputs."""

import base64
import importlib
import json
import struct

import cv2
import numpy as np
import pytest

import modelflow
from modelflow.serve.server import ServeOptions, Server
from modelflow.starters.ready import ready_graphs
from modelflow.wire.proto import OPEN_INFERENCE, TF_SERVING
from modelflow.wire.tf_serving.tensor_proto import fill_proto
from tests.serve.clients import ask, send
from tests.serve.grpc.stub import OIP, PREDICTION, SECONDS, stub
from tests.serve.processes.linked import Linked

pytest.importorskip("tensorflow")
INPUTS = {"digit": "image", "detect_classify": "image", "sentiment": "text"}
OUTPUTS = {"digit": "digit", "detect_classify": "objects", "sentiment": "mood"}
ONE, ALL = 1, 16  # the number of items of a request


def digits():
    folder = ready_graphs() / "models" / "digits" / "samples"
    return [file.read_bytes() for file in sorted(folder.glob("*.png"))[:12]]


def shapes():
    make_video = importlib.import_module("make_video")
    pictures = [make_video.picture(number, 320, 240)[0] for number in range(6)]
    return [cv2.imencode(".png", one)[1].tobytes() for one in pictures]


def sentiment():
    texts, _ = importlib.import_module("sentences").reviews(12, seed=5)
    return [text.encode() for text in texts]


@pytest.fixture(scope="module")
def items():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("shapes", "sentiment"):
            patch.syspath_prepend(ready_graphs() / "models" / name)
        return {"digit": digits(), "detect_classify": shapes(), "sentiment": sentiment()}


@pytest.fixture(scope="module", params=[Server, Linked], ids=["one process", "worker"])
def server(request, grpc_server):
    graphs = {name: ready_graphs() / f"{name}.toml" for name in INPUTS}
    with request.param(graphs, ServeOptions(http_port=0, grpc_port=0)) as running:
        yield running


@pytest.fixture(scope="module")
def expected(items):
    """Returns the results of a program that runs the graphs itself."""
    found = {}
    for name, values in items.items():
        with modelflow.Flow(ready_graphs() / f"{name}.toml") as flow:
            found[name] = [plain(flow.infer(value).data) for value in values]
    return found


def plain(value):
    """Returns a graph's result as lists, dicts, numbers and texts."""
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def b64(value):
    return {"b64": base64.b64encode(value).decode()}


def predict_rows(server, name, values):
    body = {"instances": [b64(value) for value in values]}
    status, found, _ = ask(server, f"/v1/models/{name}:predict", body)
    assert status == 200, found
    return found["predictions"]


def predict_columns(server, name, values):
    body = {"inputs": {INPUTS[name]: [b64(value) for value in values]}}
    status, found, _ = ask(server, f"/v1/models/{name}:predict", body)
    assert status == 200, found
    return found["outputs"]


def predict_grpc(server, name, values):
    request = TF_SERVING["tensorflow.serving.PredictRequest"]()
    request.model_spec.name = name
    fill_proto(request.inputs[INPUTS[name]], np.array(values, object))
    with stub(server) as client:
        answer = client.call(PREDICTION, "Predict", request)
    return list(answer.outputs[OUTPUTS[name]].string_val)


def infer_json(server, name, values):
    tensor = {"name": INPUTS[name], "datatype": "BYTES", "shape": [len(values)]}
    body = {"inputs": [{**tensor, "data": [value.decode() for value in values]}]}
    status, found, _ = ask(server, f"/v2/models/{name}/infer", body)
    assert status == 200, found
    return found["outputs"][0]["data"]


def infer_binary(server, name, values):
    raw = with_lengths(values)
    tensor = {
        "name": INPUTS[name],
        "datatype": "BYTES",
        "shape": [len(values)],
        "parameters": {"binary_data_size": len(raw)},
    }
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    length = "Inference-Header-Content-Length"
    path = f"/v2/models/{name}/infer"
    status, headers, found = send(server, "POST", path, head + raw, {length: str(len(head))})
    assert status == 200, found
    return without_lengths(found[int(headers[length.lower()]) :])


def infer_grpc(server, name, values):
    with stub(server) as client:
        return raw_of(client.oip("ModelInfer", infer_request(name, values)))


def infer_stream(server, name, values):
    with stub(server) as client:
        requests = iter([infer_request(name, values)])
        (answer,) = client.method(OIP, "ModelStreamInfer")(requests, timeout=SECONDS)
    assert not answer.error_message
    return raw_of(answer.infer_response)


def generate(server, name, values):
    found = []
    for value in values:
        status, answer, _ = ask(server, f"/v2/models/{name}/generate", {INPUTS[name]: b64(value)})
        assert status == 200, answer
        found.append(answer[OUTPUTS[name]])
    return found


def infer_request(name, values):
    request = OPEN_INFERENCE["inference.ModelInferRequest"](model_name=name)
    request.inputs.add(name=INPUTS[name], datatype="BYTES", shape=[len(values)])
    request.raw_input_contents.append(with_lengths(values))
    return request


def raw_of(answer):
    return without_lengths(answer.raw_output_contents[0])


def with_lengths(values):
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def without_lengths(raw):
    found = []
    while raw:
        (length,) = struct.unpack_from("<I", raw)
        found.append(raw[4 : 4 + length])
        raw = raw[4 + length :]
    return found


WAYS = (
    predict_rows,
    predict_columns,
    predict_grpc,
    infer_binary,
    infer_grpc,
    infer_stream,
    generate,
)


@pytest.mark.parametrize("count", [ONE, ALL])
@pytest.mark.parametrize(
    ("way", "name"),
    [
        *((way, name) for way in WAYS for name in INPUTS),
        (infer_json, "sentiment"),  # this protocol has no form for bytes that are no text
    ],
)
def test_every_way_to_ask_has_the_answers_of_the_graph_itself(
    server, items, expected, way, name, count
):
    found = way(server, name, items[name][:count])
    read = [json.loads(one) if isinstance(one, str | bytes) else one for one in found]
    assert len(read) == len(items[name][:count])
    for one, right in zip(read, expected[name], strict=False):
        assert_same(one, right)


def assert_same(one, right):
    """Compares results; a batch of another size may round a score differently."""
    if isinstance(right, list):
        assert len(one) == len(right)
        for part, of_right in zip(one, right, strict=True):
            assert_same(part, of_right)
    elif isinstance(right, dict):
        assert one.keys() == right.keys()
        for key, value in right.items():
            assert_same(one[key], value)
    elif isinstance(right, float):
        assert one == pytest.approx(right, rel=1e-4, abs=1e-5)
    else:
        assert one == right
