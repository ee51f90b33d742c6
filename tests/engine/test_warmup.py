"""Tests of recorded requests, in modelflow's own form and in TensorFlow Serving's."""

import numpy as np
import pytest

from modelflow.engine import read_model_file
from modelflow.engine.inference import inference_spec
from modelflow.engine.warmup import read_recorded_requests
from modelflow.errors import EngineError
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.tf_serving.tensor_proto import fill_proto
from tests.engine.numpy_engine import DoublingModel


@pytest.fixture
def model():
    return DoublingModel((None, 2))


def write_serving(tf, path, requests, field="predict_log"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in requests:
            log = TF_SERVING["tensorflow.serving.PredictionLog"]()
            log.predict_log.SetInParent()
            for name, array in request.items():
                fill_proto(log.predict_log.request.inputs[name], array)
            writer.write(log.SerializeToString() if field else b"")
    return path


def test_arrays_beside_the_model_are_one_request_a_row(model, tmp_path):
    np.savez(tmp_path / "warmup.npz", x=np.arange(6, dtype=np.float32).reshape(3, 2))
    requests = read_recorded_requests(model, tmp_path / "m.onnx", "")
    assert [request["x"].tolist() for request in requests] == [[[0, 1]], [[2, 3]], [[4, 5]]]


def test_serving_requests_are_read_as_they_were_sent(tf, model, tmp_path):
    given = [{"x": np.ones((4, 2), np.float32)}, {"x": np.zeros((1, 2), np.float32)}]
    write_serving(tf, tmp_path / "assets.extra" / "tf_serving_warmup_requests", given)
    requests = read_recorded_requests(model, tmp_path, "")
    assert [request["x"].shape for request in requests] == [(4, 2), (1, 2)]
    np.testing.assert_array_equal(requests[0]["x"], given[0]["x"])


def test_no_requests_names_the_places(model, tmp_path):
    with pytest.raises(EngineError, match=r"tf_serving_warmup_requests or .*warmup\.npz"):
        read_recorded_requests(model, tmp_path, "")
    with pytest.raises(EngineError, match=r"expected .*other\.npz, or another"):
        read_recorded_requests(model, tmp_path, str(tmp_path / "other.npz"))


@pytest.mark.parametrize(
    ("arrays", "what"),
    [
        (
            {"y": np.zeros((1, 2), np.float32)},
            r"it has the inputs \['y'\]; the model's are \['x'\]",
        ),
        ({"x": np.zeros((1, 3), np.float32)}, r"request 0: got float32 \(1, 3\) for the input x"),
        ({"x": np.zeros((1, 2))}, r"got float64 \(1, 2\) for the input x \(float32 \(\?, 2\)\)"),
        ({"x": np.zeros((0, 2), np.float32)}, "the arrays have {'x': 0} requests"),
        ({}, "there is none in it"),
    ],
)
def test_requests_that_do_not_fit_are_errors(model, tmp_path, arrays, what):
    np.savez(tmp_path / "warmup.npz", **arrays)
    with pytest.raises(EngineError, match=what):
        read_recorded_requests(model, tmp_path, "")


def test_files_of_another_form_are_errors(tf, model, tmp_path):
    (tmp_path / "warmup.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(EngineError, match=r"not a \.npz file of arrays"):
        read_recorded_requests(model, tmp_path, "")
    np.savez(tmp_path / "warmup.npz", x=np.array([{}], object))
    with pytest.raises(EngineError, match=r"not a \.npz file of arrays"):
        read_recorded_requests(model, tmp_path, "")
    odd = tmp_path / "requests"
    odd.write_bytes(b"no records at all")
    with pytest.raises(EngineError, match="expected TFRecords"):
        read_recorded_requests(model, tmp_path, str(odd))
    write_serving(tf, odd, [{}], field=None)
    with pytest.raises(EngineError, match="a record without a predict_log"):
        read_recorded_requests(model, tmp_path, str(odd))


def test_recorded_warm_up_runs_before_the_node_is_ready(frozen_graph, tmp_path):
    spec = inference_spec(read_model_file(frozen_graph), "net")
    file = tmp_path / "requests.npz"
    np.savez(file, **{"net/in": np.zeros((2, 4), np.float32)})
    unit = spec.create("cpu")
    unit.open(spec.configure({"warmup": "recorded", "warmup_requests": str(file)}))
    unit.close()
    np.savez(file, **{"net/in": np.zeros((2, 5), np.float32)})
    with pytest.raises(EngineError, match=r"got float32 \(1, 5\)"):
        unit.open(spec.configure({"warmup": "recorded", "warmup_requests": str(file)}))
