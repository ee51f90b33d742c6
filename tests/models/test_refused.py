"""Tests that the description of a model which its engine cannot run fails with the reason."""

import pytest

from modelflow import EngineError, Model
from tests.models.files import write_onnx
from tests.models.kind import Kind, Port


def of_bfloat16(folder):
    ports = {"x": Port("bfloat16")}, {"output": Port("bfloat16")}
    return write_onnx(folder, Kind([], *ports, onnx=[("Identity", ["x"], ["output"], {})]), "")


def test_a_kind_that_an_engine_cannot_run_is_refused(tmp_path):
    with pytest.raises(EngineError, match=r"port 'x' is of type tensor\(bfloat16\); expected an"):
        Model(of_bfloat16(tmp_path))
