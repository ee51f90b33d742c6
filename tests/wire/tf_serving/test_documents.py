import json

import numpy as np

from modelflow.wire.tensor import TensorSpec
from modelflow.wire.tf_serving.documents import (
    SignatureInfo,
    State,
    VersionStatus,
    metadata_document,
    signature_message,
    status_document,
)

INFO = SignatureInfo(
    {"x": TensorSpec("x", np.dtype(np.float32), (None, 3)), "any": None},
    {"y": TensorSpec("y", np.dtype(object))},
)


def test_status_lists_versions_the_newest_first():
    found = json.loads(
        status_document(
            [VersionStatus(1, State.END, "INTERNAL", "broken"), VersionStatus(2, State.AVAILABLE)]
        )
    )
    assert found == {
        "model_version_status": [
            {
                "version": "2",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            },
            {
                "version": "1",
                "state": "END",
                "status": {"error_code": "INTERNAL", "error_message": "broken"},
            },
        ]
    }


def test_metadata_says_dims_as_texts():
    found = json.loads(metadata_document("m", 3, {"serving_default": INFO}))
    assert found["model_spec"] == {"name": "m", "signature_name": "", "version": "3"}
    signature = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["method_name"] == "tensorflow/serving/predict"
    assert signature["inputs"]["x"] == {
        "dtype": "DT_FLOAT",
        "tensor_shape": {
            "dim": [{"size": "-1", "name": ""}, {"size": "3", "name": ""}],
            "unknown_rank": False,
        },
        "name": "serving_default_x:0",
    }
    assert signature["inputs"]["any"]["dtype"] == "DT_INVALID"
    assert signature["outputs"]["y"]["tensor_shape"] == {"dim": [], "unknown_rank": True}


def test_tensors_are_named_as_tensorflow_exports_them():
    info = SignatureInfo({"x": None}, {"b": None, "a": None})
    found = json.loads(metadata_document("m", 3, {"other": info}))
    signature = found["metadata"]["signature_def"]["signature_def"]["other"]
    assert signature["inputs"]["x"]["name"] == "other_x:0"
    names = {name: one["name"] for name, one in signature["outputs"].items()}
    assert names == {"a": "StatefulPartitionedCall:0", "b": "StatefulPartitionedCall:1"}
    message = signature_message({"other": info}).signature_def["other"]
    assert message.inputs["x"].name == "other_x:0"
    assert {name: one.name for name, one in message.outputs.items()} == names


def test_the_message_says_what_the_document_says():
    found = signature_message({"serving_default": INFO}).signature_def["serving_default"]
    assert [dim.size for dim in found.inputs["x"].tensor_shape.dim] == [-1, 3]
    assert found.inputs["any"].tensor_shape.unknown_rank
    assert found.outputs["y"].dtype == 7
