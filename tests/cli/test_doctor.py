"""``modelflow doctor``: what it says of a graph, a profile, a running flow."""

import json
import signal
import subprocess
import sys

import pytest

from tests import programs

WAITING = """
[graph]
graphconf = '''digraph slow {
    input [type=input]
    sleep [flowunit="sleeping:sleep", threads=1]
    output [type=output]
    input -> sleep -> output }'''
"""
SLEEPING = """
import time
import modelflow

@modelflow.flowunit
def sleep(value):
    time.sleep(0.02)
    return value
"""


@pytest.fixture
def slow(folder):
    (folder / "slow.toml").write_text(WAITING)
    (folder / "sleeping.py").write_text(SLEEPING)
    return folder


def test_it_names_the_node_the_evidence_and_the_change_and_tries_that(modelflow, slow):
    done = modelflow(*("doctor", "slow.toml", "--input", "photos", "--seconds", "0.7", "--confirm"))
    assert done.returncode == 3, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith("sleep: capacity: its threads are always at work")
    assert any(line.startswith("  because  busy ") for line in rest)
    assert any(line.startswith("  change   --set sleep.threads=") for line in rest)
    (tried,) = [line for line in rest if line.startswith("  tried ")]
    assert " rows/s as it is, " in tried
    assert "seen for 0." in done.stderr


def test_a_change_can_be_given_back_to_it_as_it_stands(modelflow, slow):
    done = modelflow(
        *("doctor", "slow.toml", "--input", "photos", "--seconds", "0.5", "--json"),
        *("--set", "sleep.threads=2"),
    )
    assert done.returncode == 3, done.stderr
    document = json.loads(done.stdout)
    assert document["findings"][0]["node"] == "sleep"
    assert document["findings"][0]["change"]["sleep.threads"] > 2


def test_a_profile_is_looked_at_without_the_graph(modelflow, slow):
    modelflow(
        *("profile", "slow.toml", "--input", "photos", "--seconds", "0.7"), "--json", "p.json"
    )
    done = modelflow("doctor", "p.json")
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("sleep: capacity:")


def test_a_running_flow_is_asked_where_it_answers(slow):
    command = [sys.executable, "-m", "modelflow", "run", "slow.toml", "--metrics", "0"]
    command += ["--input", "many/*.png"]
    (slow / "many").mkdir()
    for number in range(400):
        (slow / "many" / f"{number}.png").write_bytes(b"x")
    with programs.started(
        command, cwd=slow, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        line = next(line for line in process.stderr if "http://" in line)
        url = next(word for word in line.split() if word.startswith("http://")).rstrip(".,")
        found = programs.run(
            [
                sys.executable,
                "-m",
                "modelflow",
                "doctor",
                url.rsplit("/", 1)[0],
                "--seconds",
                "0.5",
            ],
            text=True,
        )
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=programs.LIMIT)
    assert found.returncode == 3, found.stderr
    assert found.stdout.startswith("sleep: capacity:")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none.json"], 1, "none.json: is no profile: No such file or directory"),
        (["bad.json"], 1, "bad.json: is no profile: this is no snapshot of a flow"),
        (["1"], 1, "http://127.0.0.1:1/stats: no answer: "),
        (["bad.json", "--input", "x"], 2, "bad.json is no graph: --input"),
        (["slow.toml"], 2, "the graph's input 'input' gets nothing"),
        (["slow.toml", "--input", "-"], 2, "standard input can be read once"),
        (["slow.tom"], 1, "slow.tom"),
        (["http://127.0.0.1:abc/"], 1, "http://127.0.0.1:abc/: expected a port (1 to 65535)"),
        (["99999999"], 1, "99999999: expected a port (1 to 65535)"),
        (["odd.json"], 1, "odd.json: the figures are damaged: "),
        (["slow.toml", "--input", "photos", "--seconds", "nan"], 2, "nan is no finite number"),
    ],
)
def test_bad_input_is_said_exactly(modelflow, slow, arguments, code, message):
    (slow / "bad.json").write_text("{}")
    odd = {"version": 1, "machine": {}, "plan": [], "process": {}, "nodes": []}
    node = {"node": "a", "unit": "u", "stage": "b", "batch_sizes": {}, "batch_seconds": {}}
    node |= {name: {"total": 0.0, "counts": {}} for name in ("service", "wait")}
    odd["nodes"].append(node)
    odd["flow"] = {"name": "f", "time": 1.0, "seconds": 1.0, "latency": node["wait"]}
    (slow / "odd.json").write_text(json.dumps(odd))
    done = modelflow("doctor", *arguments, input="")
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert message in done.stderr


def test_a_ctrl_c_ends_it_at_once(slow):
    command = [sys.executable, "-m", "modelflow", "doctor", "slow.toml", "--input", "photos"]
    command += ["--seconds", "600"]
    # Not while it is imported: what is raised in the interpreter's own callbacks then is lost.
    marked = SLEEPING.replace("    return", "    open('here', 'w').close()\n    return")
    (slow / "sleeping.py").write_text(marked)
    with programs.started(
        command, cwd=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not (slow / "here").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        text, errors = process.communicate(timeout=programs.LIMIT)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert text == ""
