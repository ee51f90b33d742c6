"""Tests of the ready graphs' models: classification of digits, and the script for ResNet-101."""

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from flowunits.file_source import SPEC as FILE_SOURCE
from flowunits.image_decoder import SPEC as IMAGE_DECODER
from flowunits.normalize import SPEC as NORMALIZE
from flowunits.resize import SPEC as RESIZE
from flowunits.top_k import SPEC as TOP_K
from modelflow import Config
from modelflow.buffer import Buffer
from modelflow.engine import ModelFile, read_model_file
from modelflow.engine.inference import inference_spec
from modelflow.testing import run_unit
from modelflow.unit.port import Port
from modelflow.unit.unit import Context
from tests.in_process import run_script

if TYPE_CHECKING:
    from modelflow.unit.spec import FlowUnitSpec

GRAPHS = Path(__file__).parents[2] / "graphs"
DIGITS = GRAPHS / "models" / "digits"
CLASSIFY = GRAPHS / "models" / "classify_infer"


@pytest.fixture(scope="module")
def results():
    """Returns the results of top_k for every sample, through the units and options of the graph."""
    text = tomllib.loads((GRAPHS / "digits.toml").read_text())["graph"]["graphconf"]
    scale = re.search(r'standard_deviation_inverse="([\d.]+)"', text)
    assert scale is not None
    spec = inference_spec(read_model_file(DIGITS / "saved_model"), "digits_infer")
    buffers = run_unit(FILE_SOURCE, path=str(DIGITS / "samples"))["out_data"]
    steps: list[tuple[FlowUnitSpec, dict[str, Any]]] = [
        (IMAGE_DECODER, {"pix_fmt": "gray"}),
        (RESIZE, {"image_width": 8, "image_height": 8}),
        (NORMALIZE, {"mean": "0", "standard_deviation_inverse": scale[1]}),
        (spec, {}),
        (TOP_K, {"k": 1}),
    ]
    for unit, options in steps:
        ((_, buffers),) = run_unit(unit, {unit.inputs[0].name: buffers}, **options).items()
    return buffers


def test_digits_are_told_apart(results):
    truth = [int(Path(b.get("path")).stem[-1]) for b in results]
    found = [b.data[0]["index"] for b in results]
    assert len(found) >= 200
    assert np.mean(np.equal(found, truth)) >= 0.97


def test_digits_samples_were_never_trained_on():
    from sklearn.datasets import load_digits

    numbers = {int(path.stem.partition("_")[0]) for path in (DIGITS / "samples").iterdir()}
    digits = load_digits()
    pixels = [image.tobytes() for image in digits.images]
    held_out = {pixels[number] for number in numbers}
    assert not held_out & {p for number, p in enumerate(pixels) if number not in numbers}


def test_digits_model_is_small():
    files = [path for path in (DIGITS / "saved_model").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 300_000


def test_digits_report_prints_the_first_files_and_the_accuracy_of_all(capsys):
    place = importlib.util.spec_from_file_location("digits_report", DIGITS / "digits_report.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    unit = module.DigitsReport()
    unit.open(Config({"lines": 2}))
    best = [[{"class": 7, "index": 7, "score": 0.9981}], [{"class": 1, "index": 1, "score": 0.5}]]
    names = ["/a/0042_7.png", "/a/0043_2.png", "/a/other.png"]
    buffers = [Buffer(b, {"path": n}) for b, n in zip([*best, best[1]], names, strict=True)]
    unit.process(Context({"in_data": buffers}, {}))
    unit.close()
    lines = ["0042_7.png 7 0.998", "0043_2.png 1 0.500", "... and 1 more"]
    found = capsys.readouterr().out.splitlines()
    assert found[:4] == [*lines, "accuracy: 50.0 % (1 of 2)"]
    assert found[4].startswith("next: ")


@pytest.mark.slow
def test_frozen_graph_script_makes_the_ports_of_the_unit(tmp_path):
    path = tmp_path / "frozen_graph.pb"
    run_script(CLASSIFY / "make_frozen_graph.py", "--tiny", "--output", path)
    unit = tomllib.loads((CLASSIFY / "classify_infer.toml").read_text())
    port, result = unit["input"]["input1"], unit["output"]["output1"]
    model = ModelFile(
        path,
        unit["base"]["virtual_type"],
        (Port(port["name"], dtype=port["type"]),),
        (Port(result["name"]),),
        unit["config"],
    )
    image = np.full((224, 224, 3), 10, np.float32)
    (found,) = run_unit(inference_spec(model, "c"), {"input": [image]})[result["name"]]
    assert found.data.shape == (1000,)
    assert found.data.sum() == pytest.approx(1, abs=1e-5)
