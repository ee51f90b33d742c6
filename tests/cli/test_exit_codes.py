"""The codes of docs/reference/exit-codes.md, each by a command that ends with it."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "exit-codes.md"
GOOD = "digraph { input [type=input] output [type=output] input -> output }"
SLOW = """
import modelflow, time

@modelflow.flowunit
def slow(data):
    print("begun", flush=True)
    time.sleep({seconds})
    return 1
"""
GRAPH = 'digraph {{ input [type=input] slow [flowunit="{module}:slow"] output [type=output] '
COMMAND = [sys.executable, "-m", "modelflow"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "good.dot").write_text(GOOD)
    (tmp_path / "wrong.toml").write_text("[grpah]\n")
    (tmp_path / "a.txt").write_text("a")
    for module, seconds in (("slow", 1), ("hung", 3600)):
        (tmp_path / f"{module}.py").write_text(SLOW.format(seconds=seconds))
        graph = GRAPH.format(module=module) + "input -> slow -> output }"
        (tmp_path / f"{module}.dot").write_text(graph)
    (tmp_path / "bad.py").write_text(SLOW.format(seconds='"x"'))
    (tmp_path / "bad.dot").write_text(GRAPH.format(module="bad") + "input -> slow -> output }")
    return tmp_path


def ends(folder, line):
    return programs.run(["bash", "-c", f"{sys.executable} -m modelflow {line}"], cwd=folder)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("check good.dot", 0),
        ("run good.dot --input a.txt", 0),
        ("check wrong.toml", 1),
        ("run bad.dot --input a.txt", 1),
        ("run bad.dot --input a.txt --keep-going", 0),
        ("chek good.dot", 2),
        ("run good.dot", 2),
    ],
)
def test_a_command_ends_with_the_code_of_the_page(folder, line, code):
    done = ends(folder, line)
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("number", "module", "code"), [(signal.SIGINT, "hung", 130), (signal.SIGTERM, "slow", 143)]
)
def test_a_signal_ends_a_run_with_its_code(folder, number, module, code):
    command = [*COMMAND, "run", f"{module}.dot", "--input", "a.txt"]
    with programs.started(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        process.communicate()
    assert process.returncode == code


def test_a_reader_that_has_gone_ends_a_command_quietly(folder):
    pipe = subprocess.PIPE
    with programs.started([*COMMAND, "schema"], stdout=pipe, stderr=pipe) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_the_page_names_these_codes():
    found = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)}
    assert found == {0, 1, 2, 130, 141, 143}
