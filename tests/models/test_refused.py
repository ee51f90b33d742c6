"""A model of a kind that its engine cannot run is refused when it is described, with the reason."""

import pytest
import torch

from modelflow import EngineError, Model
from tests.models.files import write_onnx
from tests.models.kind import Kind, Port


class Nothing(torch.nn.Module):
    def forward(self):
        return torch.ones(2)


def scripted(folder):
    torch.jit.save(torch.jit.script(Nothing()), str(folder / "m.pt"))
    return folder / "m.pt"


def exported(folder):
    torch.export.save(torch.export.export(Nothing(), ()), str(folder / "m.pt2"))
    return folder / "m.pt2"


def without_inputs(folder):
    nodes = [("RandomNormal", [], ["output"], {"shape": [2]})]
    output = {"output": Port(shape=(2,), is_batched=False)}
    return write_onnx(folder, Kind([], {}, output, onnx=nodes), "")


def of_bfloat16(folder):
    ports = {"x": Port("bfloat16")}, {"output": Port("bfloat16")}
    return write_onnx(folder, Kind([], *ports, onnx=[("Identity", ["x"], ["output"], {})]), "")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (scripted, "it takes no input; expected one at least"),
        (exported, "it takes no input; expected one at least"),
        (without_inputs, "it takes no input; expected one at least"),
        (of_bfloat16, r"port 'x' is of type tensor\(bfloat16\); expected an array"),
    ],
)
def test_a_kind_that_an_engine_cannot_run_is_refused(make, words, tmp_path):
    with pytest.raises(EngineError, match=words):
        Model(make(tmp_path))
