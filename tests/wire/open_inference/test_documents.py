import json

import numpy as np

from modelflow.wire.open_inference.documents import (
    ModelInfo,
    TensorInfo,
    server_document,
    server_message,
)
from modelflow.wire.tensor import TensorSpec

INFO = ModelInfo(
    "m",
    ("1", "2"),
    "modelflow_graph",
    (
        TensorInfo.of("x", TensorSpec("x", np.dtype(np.float32), (None, 3))),
        TensorInfo.of("any", None),
    ),
    (TensorInfo.of("y", TensorSpec("y", np.dtype(object))),),
)


def test_a_model_says_its_tensors():
    assert json.loads(INFO.document()) == {
        "name": "m",
        "versions": ["1", "2"],
        "platform": "modelflow_graph",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "any", "datatype": "BYTES", "shape": [-1]},
        ],
        "outputs": [{"name": "y", "datatype": "BYTES", "shape": [-1]}],
    }


def test_the_message_says_what_the_document_says():
    found = INFO.message()
    assert [(one.name, one.datatype, list(one.shape)) for one in found.inputs] == [
        ("x", "FP32", [-1, 3]),
        ("any", "BYTES", [-1]),
    ]
    assert (found.name, list(found.versions), found.platform) == (
        "m",
        ["1", "2"],
        "modelflow_graph",
    )


def test_a_server_says_its_extensions():
    assert json.loads(server_document("s", "1", ("a", "b"))) == {
        "name": "s",
        "version": "1",
        "extensions": ["a", "b"],
    }
    assert list(server_message("s", "1", ("a", "b")).extensions) == ["a", "b"]
