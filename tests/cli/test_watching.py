"""Tests of ``run --watch`` from the user's view: files are edited, and the graph runs again."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from modelflow.cli.run.watch import FileWatch
from modelflow.errors import MissingDependencyError
from modelflow.image import Image, encode_image
from tests import programs

ROOT = Path(__file__).resolve().parents[2]
GRAPH = """
[graph]
graphconf = '''digraph {
    text [type=input]
    shout [flowunit="units:shout"]
    loud [type=output]
    text -> shout -> loud
}'''
"""
UNITS = """
import modelflow
from words import word

@modelflow.flowunit
def shout(text: bytes):
    return word() + text.decode().upper()
"""
WAITS = "note: waits for a change of its"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "graph.toml").write_text(GRAPH)
    (tmp_path / "units.py").write_text(UNITS)
    (tmp_path / "words.py").write_text("def word():\n    return 'one '\n")
    (tmp_path / "a.txt").write_text("hello")
    return tmp_path


class Watched:
    """The program and its output."""

    def __init__(self, process):
        self.process = process

    def said_until(self, begin):
        lines = []
        for line in self.process.stderr:
            lines.append(line.rstrip())
            if line.startswith(begin):
                return lines
        raise AssertionError(lines)

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        self.process.communicate()
        return self.process.returncode


@pytest.fixture
def watched(folder):
    command = [sys.executable, "-m", "modelflow", "run", "graph.toml", "--watch"]
    pipe = subprocess.PIPE
    with programs.started(
        [*command, "--input", "a.txt"], cwd=folder, stdout=pipe, stderr=pipe, text=True
    ) as process:
        yield Watched(process)


def edit(path, before, after):
    text = path.read_text()
    assert before in text
    save(path, text.replace(before, after))


def save(path, text):
    """Writes a file as editors do, with a rename; readers never see half a file."""
    beside = path.with_name("beside")
    beside.write_text(text)
    beside.replace(path)


def test_a_change_of_a_module_runs_the_graph_anew(watched, folder):
    assert watched.answer()["data"] == "one HELLO"
    watched.said_until(WAITS)
    edit(folder / "words.py", "one", "two")
    assert watched.answer()["data"] == "two HELLO"
    assert "note: words.py changed" in watched.said_until(WAITS)
    assert watched.end() == 130


def test_what_is_wrong_is_said_and_mended(watched, folder):
    watched.said_until(WAITS)
    edit(folder / "graph.toml", "units:shout", "units:shuot")
    said = watched.said_until(WAITS)
    assert "did you mean 'shout'?" in "".join(said)
    edit(folder / "graph.toml", "units:shuot", "units:shout")
    watched.said_until(WAITS)
    edit(folder / "units.py", "upper()", "upper(")
    assert "SyntaxError" in "".join(watched.said_until(WAITS))
    edit(folder / "units.py", "upper(", "lower()")
    watched.said_until(WAITS)
    assert [watched.answer()["data"] for _ in range(3)] == ["one HELLO", "one HELLO", "one hello"]
    assert watched.end(signal.SIGTERM) == 143


def test_a_change_while_a_run_is_under_way_loses_nothing(watched, folder):
    os.mkfifo(folder / "go")
    watched.said_until(WAITS)
    assert watched.answer()["data"] == "one HELLO"
    waits = "def word():\n    print('{}', flush=True)\n    return open('go').read()\n"
    save(folder / "words.py", waits)
    assert watched.process.stdout.readline() == "{}\n"
    edit(folder / "words.py", "open('go').read()", "'last '")
    (folder / "go").write_text("late ")
    assert watched.answer()["data"] == "late HELLO"
    assert watched.answer() == {}
    assert watched.answer()["data"] == "last HELLO"
    # Whether the run had ended before the change was noticed depends on the machine.
    last = "note: words.py changed"
    assert watched.said_until(last)[-1] == watched.said_until(last)[-1] == last
    assert watched.said_until(WAITS)[-2].startswith("1 item, 0 errors")
    assert watched.end() == 130


def test_models_that_have_not_changed_stay_loaded(tmp_path):
    shutil.copytree(ROOT / "graphs" / "models" / "shapes", tmp_path / "models" / "shapes")
    shutil.copy(ROOT / "graphs" / "detect_classify.toml", tmp_path / "graph.toml")
    image = encode_image(Image(np.zeros((32, 32, 3), np.uint8), "bgr"), "png")
    (tmp_path / "a.png").write_bytes(image)
    command = [sys.executable, "-m", "modelflow", "--log-level", "info", "run", "graph.toml"]
    pipe = subprocess.PIPE
    with programs.started(
        [*command, "--input", "a.png", "--watch"],
        cwd=tmp_path,
        stdout=pipe,
        stderr=pipe,
        text=True,
    ) as process:
        watched = Watched(process)
        assert not any("stays loaded" in line for line in watched.said_until(WAITS))
        edit(tmp_path / "graph.toml", "k=1", "k=2")
        assert "INFO: model models/shapes/shapes.onnx stays loaded" in watched.said_until(WAITS)
        (tmp_path / "models" / "shapes" / "shapes.onnx").touch()
        said = watched.said_until(WAITS)
        assert "note: models/shapes/shapes.onnx changed" in said
        assert "INFO: model models/shapes/shape_detect.onnx stays loaded" in said
        assert "INFO: model models/shapes/shapes.onnx stays loaded" not in said
        assert watched.end() == 130


def test_a_graph_that_is_not_there_is_an_error_at_once(tmp_path):
    command = [sys.executable, "-m", "modelflow", "run", "no.toml", "--watch"]
    done = programs.run(command, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "no.toml: there is no such file to watch\n")


@pytest.mark.parametrize("other", [["--sync"], ["--resume", "list"]])
def test_what_cannot_be_watched_is_said(folder, other):
    command = [sys.executable, "-m", "modelflow", "run", "graph.toml", "--watch", *other]
    done = programs.run(command, cwd=folder)
    assert done.returncode == 2
    assert f"--watch: cannot be used with {other[0]}" in done.stderr


def test_a_change_before_the_watch_has_begun_is_seen(tmp_path):
    path, told, is_told = tmp_path / "a", [], threading.Event()
    path.write_text("new")

    def tell(changed):
        told.extend(changed)
        is_told.set()

    with FileWatch([path], {path: (0, 0)}, tell):
        assert is_told.wait(60)
    assert told == [path]


def test_without_its_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'modelflow-graph\[watch\]'"):
        FileWatch([], {}, print)
