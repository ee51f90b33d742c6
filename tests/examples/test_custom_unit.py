"""Tests that the three forms of an example unit behave the same, alone and in the graph."""

import importlib.util
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

import modelflow
from modelflow.testing import check_flow_unit, read_unit, run_unit
from tests import programs
from tests.in_process import run_script

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "custom_unit"
GRAPH = EXAMPLE / "graph.toml"
IMAGE = np.random.default_rng(5).integers(0, 256, (37, 50, 3), np.uint8)


def module(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # dataclasses look up their module
    spec.loader.exec_module(loaded)
    return loaded


FUNCTION = module("as_function").pixelate
CLASS = module("as_class").Pixelate
FOLDER = read_unit(EXAMPLE / "units" / "pixelate" / "pixelate.toml")
FORMS = {"function": FUNCTION.SPEC, "class": CLASS.SPEC, "folder": FOLDER}


def coarsened(image, block):
    """Returns the coarsened image, computed block by block as the specification."""
    result = image.copy()
    for y in range(0, image.shape[0], block):
        for x in range(0, image.shape[1], block):
            result[y : y + block, x : x + block] = image[y, x]
    return result


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("image", [IMAGE, IMAGE[:, :, 0], IMAGE[:1, :1]], ids=["bgr", "gray", "1"])
def test_every_form_gives_blocks_of_one_colour(form, image):
    (coarse,) = run_unit(FORMS[form], {"in_image": [image]}, block="8")["out_image"]
    np.testing.assert_array_equal(coarse.data, coarsened(image, 8))


@pytest.mark.parametrize("form", FORMS)
def test_a_bad_block_is_refused(form):
    with pytest.raises(modelflow.ConfigError, match="'block': got 'x'; expected a whole number"):
        FORMS[form].configure({"block": "x"})


@pytest.mark.parametrize("form", ["function", "class"])
def test_the_units_keep_the_contract(form):
    check_flow_unit(FORMS[form], {"in_image": [IMAGE, IMAGE[:20, :9], IMAGE[:, :, 0]]}, block=4)


@pytest.mark.parametrize("units", [(), (FUNCTION,), (CLASS,)], ids=["folder", "function", "class"])
def test_the_graph_runs_with_every_form(units):
    encoded = cv2.imencode(".png", IMAGE)[1].tobytes()
    with modelflow.Flow(GRAPH, units=units, args={"block": 5}) as flow:
        spec = flow.graph.nodes["pixelate"].spec
        answer = flow.infer(encoded, timeout=60)
    assert spec is (units[0].SPEC if units else spec)
    decoded = cv2.imdecode(np.frombuffer(answer.data, np.uint8), cv2.IMREAD_COLOR)
    np.testing.assert_array_equal(decoded, coarsened(IMAGE, 5))


def test_the_graph_names_the_function_by_its_place(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE)
    overrides = {"pixelate.flowunit": "as_function:pixelate"}
    graph = modelflow.read_graph(GRAPH, overrides=overrides)
    monkeypatch.delitem(sys.modules, "as_function")
    spec = graph.nodes["pixelate"].spec
    assert spec is not None
    assert str(spec.location).partition(":")[0].endswith("as_function.py")


@pytest.mark.parametrize("script", ["as_function.py", "as_class.py"])
def test_the_script_writes_a_coarse_image(script, tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), IMAGE)
    run_script(EXAMPLE / script, tmp_path / "a.png", tmp_path / "b.png")
    found = cv2.imread(str(tmp_path / "b.png"))
    np.testing.assert_array_equal(found, coarsened(IMAGE, 16))


def test_the_folder_passes_its_own_test():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "units"]
    programs.run(command, cwd=EXAMPLE, check=True)
