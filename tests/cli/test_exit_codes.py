"""Tests of the codes of docs/reference/exit-codes.md, each by a command that ends so."""

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from modelflow.signals import ExitCode
from tests import programs
from tests.cli import impatient
from tests.in_process import run_here

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "exit-codes.md"
PROFILE = Path(__file__).with_name("slow_profile.json")
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
LOAD = "load good.dot --input a.txt --clients 1 --requests 1 --warm-up 0"
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


def ends_here(folder, line):
    with contextlib.chdir(folder):
        return run_here(tuple(line.split()), env={})


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
        (f"doctor {PROFILE}", 3),
    ],
)
def test_a_command_ends_with_the_code_of_the_page(folder, line, code):
    done = ends_here(folder, line)
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("number", "module", "command", "code"),
    [(signal.SIGINT, "hung", impatient.COMMAND, 130), (signal.SIGTERM, "slow", COMMAND, 143)],
)
def test_a_signal_ends_a_run_with_its_code(folder, number, module, command, code):
    line = [*command, "run", f"{module}.dot", "--input", "a.txt"]
    with programs.started(
        line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        process.communicate()
    assert process.returncode == code


@pytest.mark.parametrize("numbers", [(signal.SIGINT,), (signal.SIGINT,) * 2, (signal.SIGTERM,)])
@pytest.mark.parametrize("more", [(), ("--sync",)])
def test_a_signal_ends_a_run_that_waits_for_standard_input(folder, numbers, more):
    if "--sync" in more and signal.SIGTERM in numbers:
        pytest.skip("which ends the process")
    (folder / "first.py").write_text("print('begun', flush=True)\n" + SLOW.format(seconds=0))
    (folder / "first.dot").write_text(GRAPH.format(module="first") + "input -> slow -> output }")
    command = [*COMMAND, "run", "first.dot", "--input", "-", *more]
    pipe = subprocess.PIPE
    with programs.started(
        command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdout.readline() == "begun\n"
        process.stdin.write("some")
        process.stdin.flush()
        # not all input has been read
        while any(fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))):
            os.sched_yield()
        for number in numbers:
            process.send_signal(number)
        process.wait(programs.LIMIT)
        told = process.stderr.read()
    # The second signal may arrive when Python has ended; a shell shows the same code.
    codes = (128 + numbers[0], -numbers[0])[: len(numbers)]
    assert (process.returncode in codes, "Fatal" in told) == (True, False), told


def test_standard_input_may_be_a_file_or_nothing_that_can_be_read(folder):
    assert ends(folder, "run good.dot --input - < a.txt").stdout.count('"text": "a"') == 1
    assert ends(folder, "run good.dot --input - < /dev/null").stdout.count('"bytes": 0') == 1
    for closed in ("0> /dev/null", "0<&-"):
        done = ends(folder, f"run good.dot --input - {closed}")
        assert done.returncode == 1
        assert (
            "error: -: node 'input' (unit 'input') failed in read: OSError: [Errno 9]"
            in done.stderr
        )


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("run good.dot --input a.txt --output o.jsonl >&-", 0, "1 item, 0 errors"),
        ("run good.dot --input a.txt --output o.jsonl 2>&-", 0, ""),
        ("run good.dot --input a.txt --output o.jsonl <&- >&- 2>&-", 0, ""),
        ("run bad.dot --input a.txt --output o.jsonl 2>&-", 1, ""),
        ("check good.dot 2>&-", 0, ""),
        ("check wrong.toml 2>&-", 1, ""),
        ("chek good.dot 2>&-", 2, ""),
        ("run good.dot --input a.txt >&-", 1, "--output -: standard output is closed; give a file"),
        ("convert good.dot >&-", 1, "-o -: standard output is closed; give a file"),
        ("draw good.dot -o - >&-", 1, "-o -: standard output is closed; give a file"),
        ("run good.dot --input a.txt >/dev/full", 1, "cannot write standard output: No space left"),
        ("schema >&-", 0, ""),
        ("schema >/dev/full", 1, "standard output: cannot be written: No space left on device\n"),
        ("convert good.dot >/dev/full", 1, "standard output: cannot be written: No space left"),
        ("draw good.dot -o - >/dev/full", 1, "standard output: cannot be written: No space left"),
    ],
)
def test_streams_that_are_closed_or_full(folder, line, code, message):
    done = ends(folder, line)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr
    if "o.jsonl" in line:
        assert len((folder / "o.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "option", "file"),
    [
        ("convert good.dot -o o.toml", "-o", "o.toml"),
        ("draw good.dot -o o.svg", "-o", "o.svg"),
        (f"{LOAD} --json o.json", "--json", "o.json"),
    ],
)
def test_what_an_option_names_is_written_whole_or_not_at_all(folder, line, option, file):
    full = ends_here(folder, line.replace(file, f"full/{file}"))
    assert full.stderr.endswith(
        f"{option} full/{file}: cannot be written: No such file or directory\n"
    )
    (folder / file).write_text("before")
    (folder / file).chmod(0o600)
    (folder / "link").symlink_to(file)
    program = f"ulimit -f 0; {sys.executable} -m modelflow {line}"  # like a full disk
    done = programs.run(["bash", "-c", program], cwd=folder)
    assert done.returncode == 1
    assert done.stderr.endswith(f"{option} {file}: cannot be written: File too large\n")
    assert "Traceback" not in done.stderr
    assert (folder / file).read_text() == "before"
    linked = f"link{os.path.splitext(file)[1]}"
    os.rename(folder / "link", folder / linked)
    assert ends_here(folder, line.replace(file, linked)).returncode == 0
    assert (folder / linked).is_symlink()
    assert len((folder / file).read_text()) > len("before")
    assert (folder / file).stat().st_mode & 0o777 == 0o600
    assert not list(folder.glob(".*.part"))
    device = "/dev/null" if option == "--json" else "/dev/null --format dot"
    assert ends_here(folder, line.replace(file, device)).returncode == 0
    assert Path("/dev/null").is_char_device()


def test_no_file_takes_the_number_of_a_stream_that_is_closed(folder):
    text = (
        "import os, modelflow\n"
        "names = ' '.join(os.readlink(f'/proc/self/fd/{number}') for number in range(3))\n"
        "@modelflow.flowunit\n"
        "def names_of(data):\n"
        "    return names\n"
    )
    (folder / "names.py").write_text(text)
    graph = GRAPH.format(module="names").replace(":slow", ":names_of") + "input -> slow -> output }"
    (folder / "names.dot").write_text(graph)
    ends(folder, "run names.dot --input a.txt --output o.jsonl <&- >&- 2>&-")
    (line,) = (folder / "o.jsonl").read_text().splitlines()
    assert json.loads(line)["data"] == "/dev/null /dev/null /dev/null"


def test_a_reader_that_has_gone_ends_a_command_quietly(folder):
    pipe = subprocess.PIPE
    with programs.started([*COMMAND, "schema"], stdout=pipe, stderr=pipe) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_the_page_names_these_codes():
    found = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert [int(code) for code in found] == list(ExitCode) == [0, 1, 2, 3, 130, 141, 143]
