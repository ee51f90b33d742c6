"""Tests that follow the README of an application from ``modelflow init``, as a new user does."""

import contextlib
import json
import os
import re
import runpy
import shlex
import sys
import warnings
from unittest import mock

import pytest

from modelflow.starters.template import TEMPLATES
from tests import programs
from tests.console import run_session, sessions
from tests.in_process import run_here

NEEDS = {"flask": "flask", "video": "av", "http": "httptools", "text": "tensorflow"}


def run(words, folder):
    """Runs a line of the README in this process, and the application's tests in a program."""
    if words[0] == "modelflow":
        with contextlib.chdir(folder):
            done = run_here(tuple(words[1:]), env={})
    elif words[1] == "-m":
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = programs.run([sys.executable, *words[1:]], cwd=folder, env=environment, text=True)
    else:
        with (
            contextlib.chdir(folder),
            warnings.catch_warnings(action="ignore"),  # TensorFlow's own
            mock.patch.object(sys, "path", [str(folder), *sys.path]),
        ):
            runpy.run_path(words[1], run_name="__main__")
        return
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"


def made(template, folder):
    """Returns the application of a template after each line of its README was run."""
    run(["modelflow", "init", "mine", "--template", template], folder)
    place = folder / "mine"
    readme = (place / "README.md").read_text()
    (block,) = re.findall(r"^```bash\n(.*?)^```$", readme, re.M | re.S)
    for line in block.splitlines():
        # Its tests equal those of the graph that two other templates share.
        if (template, line) != ("batch", "python -m pytest -q"):
            run(shlex.split(line), place)
    for session in sessions(readme):
        run_session(session, place)
    return place


@pytest.mark.parametrize("template", TEMPLATES["application"])
def test_an_application_does_what_its_readme_says(template, tmp_path):
    pytest.importorskip(NEEDS.get(template, "tensorflow"))
    if template != "video":
        pytest.importorskip("tensorflow")
    place = made(template, tmp_path)
    texts = {path: path.read_text() for path in place.rglob("*.toml")}
    assert not [path for path, text in texts.items() if "@NAME@" in text]
    if template == "batch":
        answers = [json.loads(line) for line in (place / "answers.jsonl").read_text().splitlines()]
        good = [line for line in answers if "error" not in line]
        assert len(good) == 30
        assert all(line["data"]["colour"] in line["path"] for line in good)
        (bad,) = (place / "bad.jsonl").read_text().splitlines()
        assert json.loads(bad)["path"] == "pictures/broken.jpg"
    if template == "text":
        assert len((place / "topics.jsonl").read_text().splitlines()) == 20
    if template == "video":
        assert (place / "out.mp4").stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["init", "Mine"], "name: got 'Mine'; expected lower-case letters, digits and '_'"),
        (["init", "full"], "full: is there already; nothing was written"),
        (["init", "mine", "--template", "htpp"], "htpp"),
    ],
)
def test_what_cannot_be_begun_is_said(words, message, modelflow_here, folder):
    (folder / "full").mkdir()
    (folder / "full" / "mine.txt").touch()
    done = modelflow_here(*words)
    assert message in done.stderr
    assert done.returncode in (1, 2)
    assert not (folder / "mine").exists()
    assert os.listdir(folder / "full") == ["mine.txt"]
