"""Tests of the findings of ``modelflow doctor`` in a graph, a profile, and a running flow."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modelflow.cli.insight.fetch import read_profile
from modelflow.cli.main import main
from modelflow.insight.doctor import Case, diagnose
from tests import programs

# The file that `modelflow profile slow.toml --input photos --seconds 0.7 --json slow_profile.json`
# wrote for the graph below.
PROFILE = Path(__file__).with_name("slow_profile.json")

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


@pytest.fixture
def seen(monkeypatch):
    """Returns the cases that were diagnosed: each gets the diagnosis of the recorded profile.

    The diagnosis of a live run depends on the load of the machine.
    """
    recorded = Case.between(*read_profile(PROFILE))
    cases = []

    def judge(case):
        cases.append(case)
        return diagnose(recorded)

    monkeypatch.setattr("modelflow.insight.doctor.diagnose", judge)
    monkeypatch.setattr("modelflow.insight.doctor.examination.diagnose", judge)
    return cases


def doctor(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *arguments])
    return ended.value.code


def test_it_names_the_node_the_evidence_and_the_change_and_tries_that(slow, seen, capsys):
    code = doctor(
        "slow.toml", "--input", "photos", "--seconds", "0.2", "--no-experiments", "--confirm"
    )
    said = capsys.readouterr()
    assert code == 3, said.err
    first, *rest = said.out.splitlines()
    assert first.startswith("sleep: capacity: its threads are always at work")
    assert any(line.startswith("  because  busy ") for line in rest)
    assert "  change   --set sleep.threads=4" in rest
    assert "  sure     low confidence" in rest
    assert any(line.startswith("  perhaps  one at a time") for line in rest)
    assert any(line.startswith("+") and "threads=4" in line for line in rest)  # the patch
    (tried,) = [line for line in rest if line.startswith("  tried ")]
    assert " rows/s as it is, " in tried
    assert "seen for 0." in said.err
    assert [node.node for node in seen[0].interval.nodes] == ["sleep"]


def test_a_change_can_be_given_back_to_it_as_it_stands(slow, seen, capsys):
    arguments = ("slow.toml", "--input", "photos", "--seconds", "0.2", "--no-experiments", "--json")
    assert doctor(*arguments) == 3
    change = json.loads(capsys.readouterr().out)["findings"][0]["change"]
    again = [f"{node}={value}" for node, value in change.items()]
    assert doctor(*arguments, "--set", *again) == 3
    assert [case.stages[0].threads for case in seen] == [1, 4]


def test_what_a_unit_prints_is_not_among_the_findings(slow, seen, capsys):
    (slow / "sleeping.py").write_text(SLEEPING.replace("    time", "    print('loud')\n    time"))
    sys.modules.pop("sleeping", None)
    arguments = ("slow.toml", "--input", "photos", "--seconds", "0.2", "--no-experiments", "--json")
    assert doctor(*arguments) == 3
    said = capsys.readouterr()
    assert json.loads(said.out)["findings"]
    assert "loud" in said.err


def test_a_profile_is_looked_at_without_the_graph(modelflow_here, slow):
    done = modelflow_here("doctor", str(PROFILE))
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("sleep: capacity:")


def test_what_profile_writes_is_read(slow, seen):
    with pytest.raises(SystemExit, match="0"):
        main(
            [
                "profile",
                "slow.toml",
                "--input",
                "photos",
                "--seconds",
                "0.2",
                "--json",
                "p.json",
            ]
        )
    assert doctor("p.json") == 3
    assert [node.node for node in seen[0].interval.nodes] == ["sleep"]


def test_a_running_flow_is_asked_where_it_answers(slow, seen, capsys):
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
        assert doctor(url.rsplit("/", 1)[0], "--seconds", "0.5") == 3
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=programs.LIMIT)
    assert capsys.readouterr().out.startswith("sleep: capacity:")
    assert [node.node for node in seen[0].interval.nodes] == ["sleep"]


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
def test_bad_input_is_said_exactly(modelflow_here, slow, arguments, code, message):
    (slow / "bad.json").write_text("{}")
    odd = {"version": 1, "machine": {}, "plan": [], "process": {}, "nodes": []}
    node = {"node": "a", "unit": "u", "stage": "b", "batch_sizes": {}, "batch_seconds": {}}
    node |= {name: {"total": 0.0, "counts": {}} for name in ("service", "wait")}
    odd["nodes"].append(node)
    odd["flow"] = {"name": "f", "time": 1.0, "seconds": 1.0, "latency": node["wait"]}
    (slow / "odd.json").write_text(json.dumps(odd))
    done = modelflow_here("doctor", *arguments, input="")
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert message in done.stderr


def test_a_ctrl_c_ends_it_at_once(slow):
    command = [sys.executable, "-m", "modelflow", "doctor", "slow.toml", "--input", "photos"]
    command += ["--seconds", "600"]
    # The signal is not sent during the import: exceptions in the interpreter's own callbacks then
    # are lost.
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
