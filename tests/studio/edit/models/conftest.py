"""An editor of a new graph beside the models of the ready graph detect_classify."""

import shutil

import pytest

from modelflow.starters.ready import ready_graphs
from modelflow.studio.edit.editor import Editor
from tests.studio.edit.models.client import Client

SHAPES = ready_graphs() / "models" / "shapes"


@pytest.fixture
def home(tmp_path):
    """Returns a folder with two models and a label file."""
    (tmp_path / "models").mkdir()
    for name in ("shapes.onnx", "shape_detect.onnx", "names.txt"):
        shutil.copy(SHAPES / name, tmp_path / "models" / name)
    return tmp_path


@pytest.fixture
def client(home):
    """Yields a client of the editor of a new graph file, with the starter ``empty``."""
    with Editor(home / "graph.toml") as editor:
        yield Client(editor, home)
