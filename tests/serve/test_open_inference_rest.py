"""The Open Inference Protocol over REST."""

import gzip
import json
import zlib

import numpy as np
import pytest

from tests.serve.clients import ask, send, served


@pytest.fixture(scope="module")
def server():
    with served() as running:
        yield running


INFER = "/v2/models/m/infer"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def tensor(data=None, **more):
    data = X.tolist() if data is None else data
    return {"name": "input", "shape": [2, 3], "datatype": "FP32", "data": data, **more}


def test_json_in_json_out(server):
    status, found, headers = ask(server, INFER, {"id": "7", "inputs": [tensor()]})
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert found == {
        "id": "7",
        "model_name": "m",
        "model_version": "1",
        "outputs": [{"name": "output", "datatype": "FP32", "shape": [2], "data": [1.0, 4.0]}],
    }


def binary_request(**parameters):
    head = {
        "inputs": [
            {
                "name": "input",
                "shape": [2, 3],
                "datatype": "FP32",
                "parameters": {"binary_data_size": X.nbytes},
            }
        ],
        **({"parameters": parameters} if parameters else {}),
    }
    document = json.dumps(head).encode()
    return document + X.tobytes(), {"Inference-Header-Content-Length": str(len(document))}


def test_binary_in_binary_out(server):
    body, headers = binary_request(binary_data_output=True)
    status, found, answer = send(server, "POST", INFER, body, headers)
    assert status == 200
    length = int(found["inference-header-content-length"])
    (output,) = json.loads(answer[:length])["outputs"]
    assert output["parameters"] == {"binary_data_size": 8}
    assert np.frombuffer(answer[length:], "<f4").tolist() == [1.0, 4.0]


def test_a_raw_body_is_the_only_input_and_answered_in_binary(server):
    body = np.float32([1, 2, 6]).tobytes()
    headers = {"Inference-Header-Content-Length": "0"}
    status, found, answer = send(server, "POST", INFER, body, headers)
    length = int(found["inference-header-content-length"])
    assert (status, found["content-type"]) == (200, "application/octet-stream")
    (output,) = json.loads(answer[:length])["outputs"]
    assert output["parameters"] == {"binary_data_size": 4}
    assert np.frombuffer(answer[length:], "<f4").tolist() == [3.0]


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_bodies_may_be_compressed_both_ways(server, encoding, compress):
    rows = np.ones((500, 3), np.float32)
    document = {"inputs": [{**tensor(rows.tolist()), "shape": [500, 3]}]}
    body = compress(json.dumps(document).encode())
    headers = {"Content-Encoding": encoding, "Accept-Encoding": encoding}
    status, found, answer = send(server, "POST", INFER, body, headers)
    assert (status, found["content-encoding"]) == (200, encoding)
    text = gzip.decompress(answer) if encoding == "gzip" else zlib.decompress(answer)
    assert json.loads(text)["outputs"][0]["data"] == [1.0] * 500


def test_outputs_are_those_that_are_asked_for_as_classes_if_they_say_so(server):
    asked = {"name": "output", "parameters": {"classification": 1}}
    scores = {"inputs": [tensor()], "outputs": [asked]}
    status, found, _ = ask(server, INFER, scores)
    assert status == 200
    assert found["outputs"][0]["datatype"] == "BYTES"


@pytest.mark.parametrize(
    ("document", "status", "text"),
    [
        (b"{", 400, ""),
        (b"", 400, ""),
        ({}, 400, "no 'inputs'"),
        ({"inputs": [tensor(datatype="FP64")]}, 400, "data-type is 'FP64', but model 'm' expects"),
        ({"inputs": [tensor(shape=[3, 3])]}, 400, ""),
        ({"inputs": [tensor(data=[[1.0, "x", 2.0], [1.0, 2.0, 3.0]])]}, 400, ""),
        ({"inputs": [tensor(name="other")]}, 400, "Missing but required: {input}"),
        ({"inputs": [tensor()], "outputs": [{"name": "x"}]}, 400, "unexpected inference output"),
        ({"inputs": [tensor()], "parameters": {"timeout": -1}}, 400, "timeout -1"),
    ],
)
def test_what_is_wrong_is_said(server, document, status, text):
    found = ask(server, INFER, document)
    assert found[0] == status
    assert text in found[1]["error"]


@pytest.mark.parametrize(
    ("body", "headers", "status", "text"),
    [
        (b"x" * 10, {"Inference-Header-Content-Length": "11"}, 400, "11"),
        (b"x" * 10, {"Inference-Header-Content-Length": "-1"}, 400, "expected a number of bytes"),
        (b"", {"Inference-Header-Content-Length": "9" * 5000}, 400, "expected a number of bytes"),
        (b"12345", {"Inference-Header-Content-Length": "0"}, 400, ""),
        (b"x", {"Content-Encoding": "br"}, 415, "expected gzip"),
        (b"x" * 20, {"Content-Encoding": "gzip"}, 400, "no gzip"),
        (
            gzip.compress(b"x" * 100, mtime=0)[:-9],
            {"Content-Encoding": "gzip"},
            400,
            "ends in the middle",
        ),
    ],
)
def test_every_lie_about_a_body_is_said(server, body, headers, status, text):
    found, _, answer = send(server, "POST", INFER, body, headers)
    assert found == status
    assert text in json.loads(answer)["error"]


def test_a_body_that_grows_too_long_is_refused():
    with served(max_body=10_000) as server:
        bomb = gzip.compress(bytes(1 << 20))
        status, _, _ = send(server, "POST", INFER, bomb, {"Content-Encoding": "gzip"})
        assert status == 400
        assert ask(server, INFER, {"inputs": [tensor()]})[0] == 200


def test_an_unknown_model_is_said_as_clients_expect_it(server):
    for path in ("/v2/models/x", "/v2/models/x/ready"):
        status, found, _ = ask(server, path)
        assert (status, found["error"]) == (404, "Request for unknown model: 'x' is not found")
    status, found, _ = ask(server, "/v2/models/m/versions/3/infer", {"inputs": [tensor()]})
    assert (status, "'m' version 3" in found["error"]) == (404, True)


def test_what_is_served_is_told(server):
    assert ask(server, "/v2/models/m")[1] == {
        "name": "m",
        "versions": ["1"],
        "platform": "modelflow_graph",
        "inputs": [{"name": "input", "datatype": "FP32", "shape": [-1, -1]}],
        "outputs": [{"name": "output", "datatype": "FP32", "shape": [-1]}],
    }
    assert ask(server, "/v2")[1]["name"] == ask(server, "/v2/")[1]["name"] == "modelflow"
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/m/ready"):
        assert ask(server, path)[0] == 200
    assert ask(server, "/v2/repository/index", b"")[1][0]["state"] == "READY"


def test_both_protocols_give_the_same_answers(server):
    one = ask(server, "/v1/models/m:predict", {"instances": X.tolist()})[1]["predictions"]
    other = ask(server, INFER, {"inputs": [tensor()]})[1]["outputs"][0]["data"]
    assert one == other == [1.0, 4.0]
