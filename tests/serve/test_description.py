"""Tests of the printed description of a model."""

import json

import numpy as np
import pytest

from modelflow.graph.graph_port import GraphPort, Signature
from modelflow.serve.http.schemas import description
from modelflow.wire.tensor import TensorSpec
from tests.serve.clients import mean, send, served


def port(name, dtype=None, shape=(), *, is_batched=True):
    tensor = None if dtype is None else TensorSpec(name, np.dtype(dtype), shape)
    return GraphPort(name, "", tensor, True, is_batched)


def told(*inputs):
    signature = Signature(inputs, (port("scores", "float32", (10,)),))
    return description("a b", 3, signature, "http://x:1").splitlines()


def test_every_input_and_output_is_told_as_clients_see_it():
    lines = told(port("image", "uint8", (None, None, 3)), port("hint"))
    assert lines[:4] == [
        "a b, version 3",
        "  input  image: UINT8 (?, ?, ?, 3)",
        "  input  hint: any type",
        "  output scores: FP32 (?, 10)",
    ]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ([port("x", "float32", (2,))], """-d '{"x": [0.0, 0.0]}' http://x:1/v2/models/a%20b/gen"""),
        ([port("x", "int64"), port("y", "bool", (None,))], """-d '{"x": 0, "y": [false]}' """),
        ([port("image", "uint8", (224, 224, 3))], "-H 'Inference-Header-Content-Length: 0' "),
        ([port("jpeg", "object")], "-H 'Content-Type: application/octet-stream' "),
        ([port("x", "uint8", (224, 224)), port("y", "int8")], "curl -d @FILE "),
    ],
)
def test_the_call_is_one_that_the_model_takes(inputs, expected):
    assert expected in told(*inputs)[-1]


def test_the_call_is_answered():
    with served(mean) as server:
        model = server.model("m")
        line = description("m", 1, model.signature, server.address).splitlines()[-1]
        body = line.split("'")[1]
        status, _, found = send(server, "POST", "/v2/models/m/generate", body)
    assert (status, json.loads(found)) == (200, {"output": 0.0})
