"""Tests of the output, the changes and the leftovers of ``modelflow tune``."""

import signal
import subprocess
import sys

import pytest

from tests import programs

GRAPH = """# kept as it is\r
[graph]\r
graphconf = '''digraph slow {\r
    input [type=input]  # here too\r
    sleep [flowunit="sleeping:sleep", threads=1,  batch_size=2]\r
    output [type=output]\r
    input -> sleep -> output }'''\r
"""
SLEEPING = """
import time
import modelflow

@modelflow.flowunit(max_batch_size=2)
def sleep(value):
    time.sleep(0.01)
    return value
"""


@pytest.fixture
def slow(folder):
    (folder / "slow.toml").write_bytes(GRAPH.encode())
    (folder / "sleeping.py").write_text(SLEEPING)
    return folder


BRIEF = ("--input", "photos", "--clients", "8", "--seconds", "0.2")


def test_it_shows_a_diff_and_changes_that_line_alone_if_asked_to(modelflow_here, slow):
    done = modelflow_here("tune", "slow.toml", *BRIEF, "--write", "--html", "t.html")
    assert done.returncode == 0, done.stderr
    assert "The rate is +" in done.stdout
    assert "--- a/slow.toml" in done.stdout
    before = GRAPH.encode().split(b"\n")
    after = (slow / "slow.toml").read_bytes().split(b"\n")
    changed = [place for place, line in enumerate(after) if line != before[place]]
    assert changed == [4]
    assert b"threads=1," not in after[4]
    assert after[4].endswith(b"]\r")
    assert "<svg" in (slow / "t.html").read_text()
    again = modelflow_here("check", "slow.toml")
    assert again.returncode == 0, again.stderr


def test_a_bound_that_cannot_be_kept_is_an_exit_code_and_changes_nothing(modelflow_here, slow):
    done = modelflow_here("tune", "slow.toml", *BRIEF, "--latency", "p99=1ms", "--write")
    assert done.returncode == 3, done.stderr
    assert "No settings keep p99 at 1 ms under this load. The nearest settings give " in done.stdout
    assert "note: the present settings break the bound: p99 is " in done.stderr
    assert (slow / "slow.toml").read_bytes() == GRAPH.encode()


def test_a_link_stays_one_and_the_mode_too(modelflow_here, slow):
    (slow / "slow.toml").rename(slow / "real.toml")
    (slow / "real.toml").chmod(0o600)
    (slow / "slow.toml").symlink_to("real.toml")
    done = modelflow_here("tune", "slow.toml", *BRIEF, "--write")
    assert done.returncode == 0, done.stderr
    assert (slow / "slow.toml").is_symlink()
    assert (slow / "real.toml").read_bytes() != GRAPH.encode()
    assert (slow / "real.toml").stat().st_mode & 0o777 == 0o600


def test_without_write_the_file_stays(modelflow_here, slow):
    done = modelflow_here("tune", "slow.toml", *BRIEF, "--fix", "sleep.batch_size")
    assert done.returncode == 0, done.stderr
    assert (slow / "slow.toml").read_bytes() == GRAPH.encode()
    assert "add --write to change the file" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_stopped_leaves_the_file_untouched(slow, number):
    command = [sys.executable, "-m", "modelflow", "tune", "slow.toml", "--write", *BRIEF[:4]]
    command += ["--seconds", "60"]
    with programs.started(
        command, cwd=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr.readline().startswith("measuring")
        process.send_signal(number)
        _, errors = process.communicate(timeout=programs.LIMIT)
    assert process.returncode == 128 + number, errors
    assert "Traceback" not in errors
    assert (slow / "slow.toml").read_bytes() == GRAPH.encode()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--latency", "fast"], 2, "--latency fast: expected a time as 80ms or 1.5s"),
        (["--latency", "p100=1s"], 2, "--latency p100=1s: expected"),
        (["--rate", "5", "--clients", "3"], 2, "--rate and --clients: give one"),
        (["--fix", "slep"], 2, "--fix slep: there is no node 'slep'; did you mean 'sleep'"),
        (["--fix", "sleep.device"], 2, "got 'device'; expected threads or batch_size"),
        (["--input", "none"], 1, "--input none: there is no such file"),
    ],
)
def test_bad_input_is_said_exactly(modelflow_here, slow, arguments, code, message):
    if "--input" not in arguments:
        arguments = ["--input", "photos", *arguments]
    done = modelflow_here("tune", "slow.toml", *arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert message in done.stderr


def test_a_graph_with_sources_cannot_be_sent_requests(modelflow_here):
    done = modelflow_here("tune", "digits")
    assert done.returncode == 1
    assert "has no inputs, so no requests can be sent" in done.stderr


WAITING = """
import time
import modelflow

@modelflow.flowunit(max_batch_size=1)
def sleep(value, *, wait: float = 0.05):
    time.sleep(wait)
    return value
"""


def test_values_that_take_a_new_start_are_tried_first(modelflow_here, slow):
    (slow / "sleeping.py").write_text(WAITING)
    done = modelflow_here(
        *("tune", "slow.toml", *BRIEF[:4], "--seconds", "0.4", "--fix", "sleep", "--write"),
        *("--vary", "sleep.wait=0.001", "--vary", "sleep.wait=0.1"),
    )
    assert done.returncode == 0, done.stderr
    assert "The best variant is +" in done.stdout
    assert ": sleep.wait=0.001. The next trials use it." in done.stdout
    assert "sleep.wait=0.1" in done.stderr
    assert b"wait=0.001" in (slow / "slow.toml").read_bytes()


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (["sleep"], 2, "--vary sleep: expected NODE.KEY=VALUE"),
        (["sleep.threads=2"], 2, "--vary sleep.threads=2: threads is tuned anyway; --fix keeps"),
        (["slep.wait=1"], 1, "did you mean 'sleep'?"),
        (["sleep.wait=x"], 1, "got 'x'"),
        ([f"sleep.wait={number}" for number in range(1, 17)], 2, "these are 17 combinations"),
    ],
)
def test_what_cannot_be_varied_is_said(modelflow_here, slow, given, code, message):
    (slow / "sleeping.py").write_text(WAITING)
    done = modelflow_here("tune", "slow.toml", *BRIEF, *(f"--vary={text}" for text in given))
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
