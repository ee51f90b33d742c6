"""Tests the graph with pictures of known colours: ``python -m pytest``."""

import subprocess
import sys
from pathlib import Path

import cv2
import modelflow
import numpy as np
import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def flow():
    """The running graph; a missing model is made first."""
    if not (HERE / "units" / "colour" / "colour.keras").exists():
        subprocess.run([sys.executable, "make_model.py"], cwd=HERE, check=True)
    with modelflow.Flow(HERE / "graph.toml") as running:
        yield running


@pytest.mark.parametrize(
    ("bgr", "colour"), [((255, 0, 0), "blue"), ((0, 255, 0), "green"), ((0, 0, 255), "red")]
)
def test_the_main_colour_is_told(flow, bgr, colour):
    picture = np.full((240, 320, 3), bgr, np.uint8)
    jpeg = cv2.imencode(".jpg", picture)[1].tobytes()
    answer = flow.infer(jpeg, timeout=60).data
    assert (answer["colour"], answer["is_sure"]) == (colour, True)


def test_what_is_no_picture_is_an_error_of_its_own(flow):
    with pytest.raises(modelflow.FlowUnitError, match="expected JPEG"):
        flow.infer(b"no picture", timeout=60)
