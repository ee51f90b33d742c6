"""Tests of models at URLs that processes serve: copied once, found again, and without network."""

import subprocess
import sys

import numpy as np
import pytest

from tests.engine.conftest import save_onnx
from tests.serve.models_on_disk import GRAPH, write_model
from tests.serve.processes.server_processes import serving, wait_until

UNITS = """import modelflow

@modelflow.flowunit
def double(x):
    return [2 * one for one in x]
"""
PATH = "/models/m/1/model.onnx"


def write_large(path, megabytes):
    """Writes a model that multiplies by 2, with large weights."""
    weights = np.zeros((megabytes, 1 << 18), np.float32)
    weights[0, 0] = 2
    nodes = [("ReduceSum", ["weights"], ["factor"]), ("Mul", ["x", "factor"], ["y"])]
    return save_onnx(path, nodes, {"x": ["n", 2]}, {"y": ["n", 2]}, {"weights": weights})


def predict(servers, name="m"):
    status, found = servers.ask(f"/v1/models/{name}:predict", {"instances": [[1.0, 2.0]]})
    return found["predictions"] if status == 200 else (status, found)


@pytest.fixture
def model(bucket, tmp_path):
    bucket.put("m/1/model.onnx", write_model(tmp_path / "one.onnx", 2).read_bytes())
    return bucket


def cached(tmp_path, *more):
    return ("--cache-dir", tmp_path / "cache", *more)


@pytest.mark.parametrize(
    ("option", "count", "more"),
    [("--replicas", 3, ()), ("--workers", 2, ()), ("--replicas", 2, ("--isolate", "m"))],
    ids=["replicas", "workers", "isolated"],
)
def test_processes_copy_a_large_model_once(bucket, tmp_path, option, count, more):
    bucket.put("m/1/model.onnx", write_large(tmp_path / "large.onnx", 30).read_bytes())
    given = ("s3://models/m", *cached(tmp_path, *more))
    with serving(tmp_path, *given, option=option, count=count) as servers:
        wait_until(lambda: servers.ask("/readyz")[0] == 200)
        assert predict(servers) == [[2.0, 4.0]]
        assert sum("copied in" in line for line in servers.said) == 1
    assert bucket.count(PATH) == 1


def test_start_without_the_network_serves_the_copy(model, tmp_path):
    with serving(tmp_path, "s3://models/m", *cached(tmp_path), count=1) as servers:
        assert predict(servers) == [[2.0, 4.0]]
    model.stop()
    with serving(tmp_path, "s3://models/m", *cached(tmp_path), count=1) as servers:
        assert predict(servers) == [[2.0, 4.0]]
        assert any("Could not connect" in line and "revision" in line for line in servers.said)


def test_poll_finds_a_changed_model_and_a_new_version(model, tmp_path):
    more = cached(tmp_path, "--poll", "0.2")
    with serving(tmp_path, "s3://models/m", *more, count=2) as servers:
        model.put("m/1/model.onnx", write_model(tmp_path / "two.onnx", 3).read_bytes())
        wait_until(lambda: predict(servers) == [[3.0, 6.0]])
        model.put("m/7/model.onnx", write_model(tmp_path / "seven.onnx", 7).read_bytes())
        wait_until(lambda: predict(servers) == [[7.0, 14.0]])


def test_unreachable_model_ends_with_its_reason_and_is_found_later(model, place, tmp_path):
    url = f"http://{place.address}/late.onnx"
    more = cached(tmp_path, "--poll", "0.2")
    with serving(tmp_path, "s3://models/m", f"late={url}", *more, count=1) as servers:
        assert predict(servers) == [[2.0, 4.0]]
        _, index = servers.ask("/v2/repository/index", {})
        (late,) = [one for one in index if one["name"] == "late"]
        assert late["reason"] == f"{url}: the server answers 404 Not Found"
        place.answers["/late.onnx"] = (tmp_path / "one.onnx").read_bytes()
        wait_until(lambda: predict(servers, "late") == [[2.0, 4.0]])


def test_repository_and_graph_folder_of_a_bucket_are_served(model, tmp_path):
    model.put("all/g/graph.dot", (GRAPH % "far_units:double").encode())
    model.put("all/g/far_units.py", UNITS.encode())
    model.put("all/n.onnx", (tmp_path / "one.onnx").read_bytes())
    with serving(tmp_path, "s3://models/all/", *cached(tmp_path), count=1) as servers:
        assert [predict(servers, name) for name in ("g", "n")] == [["[2.0, 4.0]"], [[2.0, 4.0]]]


def test_models_config_takes_a_url(model, tmp_path):
    path = tmp_path / "models.config"
    path.write_text('model_config_list { config { name: "c" base_path: "s3://models/m" } }')
    with serving(tmp_path, "--model-config-file", path, *cached(tmp_path), count=1) as servers:
        assert predict(servers, "c") == [[2.0, 4.0]]


def test_describe_copies_the_model(model, tmp_path):
    command = [sys.executable, "-m", "modelflow", "serve", "s3://models/m", "--describe"]
    found = subprocess.run(
        [*command, *cached(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "/v1/models/m:predict" in found.stdout or "/m/" in found.stdout
