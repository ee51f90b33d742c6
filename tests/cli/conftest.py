import os
import sys

import cv2
import numpy as np
import pytest

from tests import programs
from tests.in_process import run_here

GRAPH = """
[flow]
name = "small"
[args.width]
default = 8
[graph]
graphconf = '''digraph small {
    input  [type=input]
    decode [flowunit=image_decoder, scaled_decode=false]
    shrink [flowunit=resize, image_width="$width", image_height=6]
    output [type=output]
    input -> decode -> shrink -> output
}'''
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Returns a working folder with a graph and two pictures in ``photos``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(GRAPH)
    (tmp_path / "photos").mkdir()
    for number in (9, 10):
        picture = np.full((20, 30, 3), number, np.uint8)
        cv2.imwrite(str(tmp_path / "photos" / f"{number}.png"), picture)
    return tmp_path


@pytest.fixture
def modelflow(folder):
    """Returns a function that runs the command line in a separate process, in the folder."""

    def run(*arguments, **more):
        return programs.run(
            [sys.executable, "-m", "modelflow", *arguments],
            cwd=folder,
            env={**os.environ, "COLUMNS": "200"},
            **{"text": True, **more},
        )

    return run


@pytest.fixture
def modelflow_here(folder):
    """Returns a function that runs the command line in the tests' process, in the folder."""

    def run(*arguments, env=None, **more):
        return run_here(arguments, env={"COLUMNS": "200", **(env or {})}, **more)

    return run
