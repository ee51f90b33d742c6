"""`benchmarks/gpu.py`: a step that fails or hangs costs its own time only, and loses nothing."""

import json
import os
import re
import select
import signal
import sys
import tomllib
from pathlib import Path

import pytest

from tests import programs

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"

# The program, with steps of the test's own: name -> code.
RUN = """
import json, sys
sys.path.insert(0, sys.argv.pop(1))
import gpu
steps = json.loads(sys.argv.pop(1))
gpu.STEPS = tuple(
    gpu.Step(name, name, 1, lambda *_, code=code: ["-c", code], False)
    for name, code in steps.items()
)
sys.exit(gpu.main())
"""

TABLE = 'print(\'{"title": "t", "columns": ["", "n"], "rows": [["a", 1.0]]}\', flush=True)'


def command_of(steps):
    return [sys.executable, "-c", RUN, FOLDER, json.dumps(steps), "--device", "cpu"]


@pytest.fixture
def run(tmp_path):
    """A function: runs steps, name -> code; returns the program and its results, name -> step."""

    def run_steps(steps, *options):
        done = programs.run([*command_of(steps), "--out", tmp_path, *options])
        assert (tmp_path / "results.json").is_file(), done.stderr
        found = json.loads((tmp_path / "results.json").read_text())
        return done, {step["name"]: step for step in found}

    return run_steps


def test_every_step_that_fails_is_told_and_the_next_one_runs(run, tmp_path):
    done, found = run(
        {
            "good": TABLE,
            "raises": f"{TABLE}\nraise ValueError('no such kernel')",
            "killed": "import os; os.kill(os.getpid(), 9)",
            "last": TABLE,
        }
    )
    assert done.returncode == 1
    states = {name: step["state"] for name, step in found.items()}
    assert states == {
        "good": "done",
        "raises": "failed (1)",
        "killed": "failed (-9)",
        "last": "done",
    }
    assert found["raises"]["tables"] == found["last"]["tables"]
    assert found["last"]["tables"][0]["rows"] == [["a", 1.0]]
    text = (tmp_path / "results.md").read_text()
    assert done.stdout.endswith(f"{text}\n")
    assert "| killed | failed (-9) |" in text
    assert "ValueError: no such kernel" in text
    assert "ValueError: no such kernel" in (tmp_path / "raises.log").read_text()


HANGS = f"""
import subprocess, sys, threading
{TABLE}
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
print(child.pid, flush=True)
def in_this_function():
    threading.Event().wait()
in_this_function()
"""


def has_ended(process):
    try:
        end = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    with os.fdopen(end):
        return bool(select.select([end], [], [], programs.LIMIT)[0])


def test_a_step_that_hangs_is_ended_with_what_it_started_and_says_where_it_stood(run, tmp_path):
    done, found = run({"hangs": HANGS, "last": TABLE}, "--seconds", "24")
    assert done.returncode == 1
    assert found["hangs"]["state"] == "out of time"
    assert found["hangs"]["tables"][0]["rows"] == [["a", 1.0]]
    log = (tmp_path / "hangs.log").read_text()
    assert "in in_this_function" in log
    assert has_ended(int(re.search(r"^(\d+)$", log, re.MULTILINE)[1]))
    assert found["last"]["tables"]


def test_what_was_found_is_in_the_folder_while_a_step_runs(tmp_path):
    """A command that is cut off leaves what it has."""
    told = tmp_path / "told"
    os.mkfifo(told)
    # More than a pipe holds: when it is written, what came before it has been read.
    code = f"{TABLE}\nprint('x' * 300_000, flush=True)\nopen({str(told)!r}, 'w').close()\n"
    code += "import time; time.sleep(3600)"
    out = tmp_path / "out"
    with programs.started([*command_of({"one": code}), "--out", out]) as process:
        told.read_text()
        (step,) = json.loads((out / "results.json").read_text())
        assert step["state"] == "running"
        assert step["tables"][0]["rows"] == [["a", 1.0]]
        process.send_signal(signal.SIGKILL)
        process.wait()


SAMPLE = """
import sys, time
sys.path.insert(0, sys.argv[1])
from machine import GpuSamples
with GpuSamples() as samples:
    while samples.between(0, time.perf_counter())[0] == "":
        pass
    print(samples.between(0, time.perf_counter()), samples.between(0, 1e-9))
"""


def test_use_and_memory_of_the_gpu_are_sampled(tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf '[N/A], 7\\n97, 1234\\n'\nexec sleep 3600\n")
    smi.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = programs.run([sys.executable, "-c", SAMPLE, FOLDER], env=environment, check=True)
    assert done.stdout == "(97.0, 1234.0) ('', '')\n"


PYTEST = """
print("[gw0] [ 10%] PASSED tests/gpu/test_a.py::test_one[a b] ")
print("[gw1] [ 20%] FAILED tests/gpu/test_a.py::test_two[x - y] ")
print("[gw1] [ 30%] SKIPPED tests/gpu/test_a.py::test_three ")
print("[gw1] [ 40%] PASSED tests/gpu/test_a.py::test_four ")
print("=== short test summary info ===")
print("FAILED tests/gpu/test_a.py::test_two[x - y] - AssertionError: half | a copy")
raise SystemExit(1)
"""


def test_outcomes_of_tests_become_tables(run, tmp_path):
    _, found = run({"tests": PYTEST})
    outcomes, failures = found["tests"]["tables"]
    assert outcomes["rows"] == [["failed", 1], ["passed", 2], ["skipped", 1]]
    assert failures["rows"] == [
        ["tests/gpu/test_a.py::test_two[x - y]", "AssertionError: half | a copy"]
    ]
    assert "| AssertionError: half / a copy |" in (tmp_path / "results.md").read_text()


def test_the_real_steps_run_without_a_gpu(tmp_path):
    options = ["--device", "cpu", "--quick", "--seconds", programs.LIMIT, "--out", tmp_path]
    command = [sys.executable, FOLDER / "gpu.py", "--steps", "machine,cpu_chain", *options]
    done = programs.run(list(map(str, command)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| machine | done |" in done.stdout
    assert "| 1 threads, graph | " in done.stdout


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--steps", "tests,pipelin"], "got 'pipelin'; expected some of machine,tests,pipeline,"),
        (["--device", "cuda"], "the driver sees no GPU; --device cpu shows that the program runs"),
    ],
)
def test_what_cannot_begin_is_told_at_once(tmp_path, options, text):
    if "cuda" in options:
        pytest.importorskip("torchvision")
    done = programs.run([sys.executable, FOLDER / "gpu.py", "--out", tmp_path / "out", *options])
    assert done.returncode == 2
    assert text in done.stderr
    assert not (tmp_path / "out").exists()


def test_packages_that_are_missing_are_named_at_once(tmp_path):
    code = (
        "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
        "runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    )
    command = [sys.executable, "-I", "-S", "-c", code, FOLDER, FOLDER / "gpu.py"]
    done = programs.run([*map(str, command), "--out", tmp_path / "out"])
    assert done.returncode == 2
    assert "not installed: torch, torchvision, numpy" in done.stderr
    assert "tomlkit" in done.stderr
    assert "see benchmarks/gpu_machine.md" in done.stderr


def names(requirements):
    return {re.split(r"[\[<>=;!~ ]", line)[0].lower() for line in requirements}


def test_the_wheels_are_all_that_modelflow_needs_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = names(project["dependencies"]) | names(project["optional-dependencies"]["serve"])
    of_the_machine = {"numpy", "opencv-python-headless"}
    not_used = {"grpcio"}  # the servers of the benchmark speak HTTP alone
    lines = (FOLDER / "gpu_wheels.txt").read_text().splitlines()
    listed = names(line for line in lines if line and not line.startswith("#"))
    assert needed - of_the_machine - not_used <= listed
