"""Tests of recorded requests, which run before a version is served."""

import shutil

import pytest

from modelflow.errors import EngineError, FlowFailed
from modelflow.serve.server import ServeOptions, Server
from modelflow.wire.tf_serving.warmup_records import read_records
from tests.serve.clients import ask
from tests.serve.half_plus_two import (
    CLASSIFY,
    REGRESS,
    apis,
    example,
    tensorflow,
    write_saved_model,
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return write_saved_model(tmp_path_factory.mktemp("saved") / "m")


def write_records(model, *logs):
    """Writes the records that TensorFlow Serving replays."""
    path = model / "assets.extra" / "tf_serving_warmup_requests"
    path.parent.mkdir(exist_ok=True)
    with tensorflow().io.TFRecordWriter(str(path)) as writer:
        for log in logs:
            writer.write(log.SerializeToString())
    return path


def log(kind, signature, feature="x"):
    found = apis()["PredictionLog"]()
    request = getattr(found, kind).request
    if kind == "multi_inference_log":
        for name, method in (("regress", REGRESS), ("classify", CLASSIFY)):
            request.tasks.add(method_name=method).model_spec.signature_name = name
    else:
        request.model_spec.signature_name = signature
    if kind == "predict_log":
        request.inputs[feature].CopyFrom(tensorflow().make_tensor_proto([[1.0], [2.0]]))
    else:
        request.input.example_list.examples.add().CopyFrom(example(**{feature: 1.0}))
    return found


ALL = (
    ("predict_log", ""),
    ("predict_log", "serving_default"),
    ("classify_log", "classify"),
    ("regress_log", "regress"),
    ("multi_inference_log", ""),
)


def test_every_kind_of_record_is_run_before_a_version_is_served(tmp_path, saved):
    model = shutil.copytree(saved, tmp_path / "m")
    path = write_records(model, *(log(*one) for one in ALL))
    assert len(list(read_records(path))) == 5
    with Server({"m": model}, ServeOptions(http_port=0)) as server:
        found = {one.signature_name: one for one in server.model("m").all_signatures()}
        rows = {name: one.flow.stats()["model"].buffers for name, one in found.items()}
        assert rows == {"serving_default": 4, "classify": 2, "regress": 2, "scores": 0}
        assert server.model("m").figures.requests == 0  # no client has sent a request


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (("predict_log", "x"), '"x" not found in signature def'),
        (("predict_log", "", "z"), "Sent extra: {z}"),
        (("regress_log", "regress", "z"), "record 1: "),
    ],
)
def test_a_version_whose_record_fails_is_not_served(tmp_path, saved, bad, text):
    model = shutil.copytree(saved, tmp_path / "m")
    write_records(model, log("predict_log", ""), log(*bad))
    with pytest.raises((EngineError, FlowFailed)) as refused:
        Server({"m": model}, ServeOptions(http_port=0)).start()
    assert "record 1: " in str(refused.value)
    assert text in str(refused.value)


def test_what_runs_goes_on_where_the_record_of_a_new_version_fails(tmp_path, saved):
    shutil.copytree(saved, tmp_path / "m" / "1")
    options = ServeOptions(http_port=0, is_repository_open=True)
    with Server({"m": tmp_path / "m"}, options) as server:
        new = shutil.copytree(saved, tmp_path / "new")
        write_records(new, log("predict_log", "x"))
        new.rename(tmp_path / "m" / "2")
        status, found, _ = ask(server, "/v2/repository/models/m/load", {})
        assert (status, "record 0: " in found["error"]) == (400, True)
        assert ask(server, "/v1/models/m:predict", {"instances": [[2.0]]})[0] == 200
        states = ask(server, "/v1/models/m")[1]["model_version_status"]
        assert [one["state"] for one in states] == ["END", "AVAILABLE"]


@pytest.mark.parametrize("cut", [1, 8, 12, 20, -1, -5])
def test_a_torn_file_says_so(tmp_path, cut):
    path = tmp_path / "assets.extra" / "x"
    path.parent.mkdir()
    whole = write_records(tmp_path, log("predict_log", "")).read_bytes()
    path.write_bytes(whole[:cut])
    with pytest.raises(EngineError, match=r"record 0: it is torn; expected TFRecords"):
        list(read_records(path))


def test_a_record_of_something_else_says_so(tmp_path):
    path = write_records(tmp_path, log("predict_log", ""))
    with tensorflow().io.TFRecordWriter(str(path)) as writer:
        writer.write(b"\xff\xff")
    with pytest.raises(EngineError, match="record 0: 2 bytes: no tensorflow"):
        list(read_records(path))
