"""Tests the server with its client."""

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from modelflow.serve.server import ServeOptions, Server

import client

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def server():
    """A server of the graph on a free port."""
    if not (HERE / "units" / "colour" / "colour.keras").exists():
        subprocess.run([sys.executable, "make_model.py"], cwd=HERE, check=True)
    with Server({"@NAME@": HERE / "graph.toml"}, ServeOptions(http_port=0)) as running:
        yield running


def test_the_client_is_told_the_colour(server, monkeypatch):
    monkeypatch.setattr(client, "URL", server.address)
    jpeg = cv2.imencode(".jpg", np.full((240, 320, 3), (0, 0, 255), np.uint8))[1].tobytes()
    assert client.ask(jpeg)["colour"] == "red"
