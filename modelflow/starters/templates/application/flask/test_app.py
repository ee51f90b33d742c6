"""Tests the application with Flask's own client."""

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def client():
    """A client of the application with a running graph."""
    if not (HERE / "units" / "colour" / "colour.keras").exists():
        subprocess.run([sys.executable, "make_model.py"], cwd=HERE, check=True)
    from app import app, flow

    with flow, app.test_client() as found:
        yield found


def test_a_picture_is_answered_with_its_colour(client):
    jpeg = cv2.imencode(".jpg", np.full((240, 320, 3), (0, 255, 0), np.uint8))[1].tobytes()
    assert client.post("/colour", data=jpeg).json["colour"] == "green"


def test_what_is_no_picture_is_answered_with_400(client):
    answer = client.post("/colour", data=b"no picture")
    assert answer.status_code == 400
    assert "expected JPEG" in answer.json["error"]
