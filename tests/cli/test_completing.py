"""Tests of shell completion, by click's own completion and by bash."""

import subprocess
import sys

import pytest
from click.shell_completion import BashComplete

from modelflow.cli.main import cli
from modelflow.unit.function import forget_declared

GRAPH = """
[args]
size = 4
[graph]
graphconf = '''digraph {
    picture [type=input]
    decode [flowunit=image_decoder]
    shrink [flowunit=resize, image_width="$size", image_height=4]
    small [type=output]
    picture -> decode -> shrink -> small
}'''
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "graph.toml").write_text(GRAPH)
    (tmp_path / "wrong.toml").write_text("[grpah]")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").touch()
    (tmp_path / "photos" / ".hidden.jpg").touch()
    monkeypatch.chdir(tmp_path)
    forget_declared(sys.modules)  # units that other tests' modules declared are offered, too
    return tmp_path


def offered(*words):
    *before, begun = words
    found = BashComplete(cli, {}, "modelflow", "_").get_completions(before, begun)
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["check", "g"], ["graph.toml"]),
        (["run", "photos/"], []),
        (["run", "dig"], ["digit", "digits"]),
        (["run", "nosuch/"], []),
        (["run", "graph.toml", "--set", ""], ["*.", "decode.", "shrink."]),
        (["run", "graph.toml", "--set", "shrink.image_w"], ["shrink.image_width="]),
        (["run", "graph.toml", "--set", "*.dev"], ["*.device=", "*.deviceid="]),
        (
            ["run", "graph.toml", "--set", "shrink.threads=2", "--set", "decode.strict="],
            ["decode.strict=true", "decode.strict=false"],
        ),
        (["run", "graph.toml", "--set", "shrink.image_width="], []),
        (["run", "graph.toml", "--set", "shrnk.image_w"], []),
        (["run", "graph.toml", "--arg", ""], ["size="]),
        (["run", "graph.toml", "--input", "p"], ["photos/", "picture="]),
        (["run", "graph.toml", "--input", "photos/"], ["photos/a.jpg"]),
        (["run", "graph.toml", "--output", "s"], ["small="]),
        (["profile", "graph.toml", "--input", "pic"], ["picture="]),
        (["run", "wrong.toml", "--set", ""], []),
        (["run", "wrong.toml", "--input", "p"], ["photos/"]),
        (["run", "nosuch.toml", "--arg", ""], []),
        (["run", "--set", ""], []),
        (["units", "resi"], ["resize"]),
        (["units", "--dir", "photos", "resi"], ["resize"]),
        (["serve", "gra"], ["graph.toml"]),
    ],
)
def test_what_may_follow_is_offered(words, expected):
    assert offered(*words) == expected


def test_units_are_offered_with_what_they_do():
    found = BashComplete(cli, {}, "modelflow", "_").get_completions(["units"], "mea")
    assert [(item.value, bool(item.help)) for item in found] == [("mean", True)]


def test_bash_is_given_what_is_offered(tmp_path):
    printed = subprocess.run(
        [sys.executable, "-m", "modelflow", "completion", "bash"],
        capture_output=True,
        text=True,
        check=True,
    )
    (tmp_path / "modelflow").write_text(f'#!/bin/sh\nexec {sys.executable} -m modelflow "$@"\n')
    (tmp_path / "modelflow").chmod(0o755)
    script = f"""
        PATH={tmp_path}:$PATH
        compopt() {{ printf '%s ' compopt "$@"; echo; }}
        {printed.stdout}
        COMP_WORDS=(modelflow run graph.toml --set shrink.image_h) COMP_CWORD=4
        _modelflow_completion modelflow
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["compopt -o nospace ", "shrink.image_height="]
