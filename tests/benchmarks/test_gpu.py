"""`benchmarks/gpu.py`: a step that fails or hangs costs its own time only, and loses nothing."""

import importlib.util
import json
import os
import re
import select
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import programs
from tests.torch_as_cuda import has_gpu

pytest.importorskip("torch")  # the program ends at once without it

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"

# The program, with steps of the test's own: name -> code.
RUN = """
import json, sys
sys.path.insert(0, sys.argv.pop(1))
import gpu
steps = json.loads(sys.argv.pop(1))
gpu.STEPS = tuple(
    gpu.Step(name, name, 1, lambda *_, code=code: ["-c", code])
    for name, code in steps.items()
)
sys.exit(gpu.main())
"""

TABLE = 'print(\'{"title": "t", "columns": ["", "n"], "rows": [["a", 1.0]]}\', flush=True)'


def command_of(steps):
    return [sys.executable, "-c", RUN, FOLDER, json.dumps(steps), "--device", "cpu"]


@pytest.fixture
def run(tmp_path):
    """Returns a function that runs steps (name -> code), and returns the program and results."""

    def run_steps(steps, *options):
        done = programs.run([*command_of(steps), "--out", tmp_path, *options])
        assert (tmp_path / "results.json").is_file(), done.stderr
        found = json.loads((tmp_path / "results.json").read_text())
        return done, {step["name"]: step for step in found["steps"]}

    return run_steps


def tells(told):
    """Returns a step that prints a table, opens a FIFO when the table has been read, and hangs."""
    # A pipe holds 64 KiB: when more is written, the bytes before have been read.
    more = f"print(('x' * 1000 + '\\n') * 300, flush=True)\nopen({str(told)!r}, 'w').close()"
    return f"{TABLE}\n{more}\nimport time; time.sleep(3600)"


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


# The step's child is in its own session, keeps the pipe open, and ignores SIGTERM and SIGABRT.
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGABRT, signal.SIG_IGN)
time.sleep(3600)
"""
HANGS = f"""
import subprocess, sys, threading
{TABLE}
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True)
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


def test_a_child_that_outlives_its_step_is_killed_and_costs_no_time(run, tmp_path):
    leaves = HANGS[: HANGS.index("def in_this_function")]
    done, found = run({"leaves": leaves, "last": TABLE}, "--seconds", programs.LIMIT)
    assert done.returncode == 0
    assert found["leaves"]["tables"] == found["last"]["tables"]
    (child,) = re.findall(r"^(\d+)$", (tmp_path / "leaves.log").read_text(), re.MULTILINE)
    assert has_ended(int(child))


ENDLESS = "import os\nwhile True: os.write(1, (b'words ' * 100 + b'\\n') * 100)"
ONE_LINE = "import os\nfor _ in range(300): os.write(1, b'x' * 65536)"
NO_TABLES = """
import os
os.write(1, b'{"title": "t", "columns": ["a\\n')
os.write(1, b'{"title": 1}\\n')
os.write(1, b"\\xff\\xfe\\n")
os.write(1, b'{"title": "t", "columns": [""], "rows": [["kept"]]}')
"""


def test_whatever_a_step_writes_ends_neither_the_command_nor_its_time(run, tmp_path):
    done, found = run({"endless": ENDLESS, "long": ONE_LINE, "odd": NO_TABLES}, "--seconds", "20")
    assert done.returncode == 1
    assert [step["state"] for step in found.values()] == ["out of time", "done", "done"]
    for name in ("endless", "long"):
        log = (tmp_path / f"{name}.log").read_text()
        assert len(log) < 13 << 20
        assert log.count("\n... the log is full\n") == 1
    (table,) = found["odd"]["tables"]  # of the last line, which has no end
    assert table["rows"] == [["kept"]]
    assert '{"title": 1}' in (tmp_path / "odd.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_step_and_prints_what_was_found(tmp_path, number):
    told = tmp_path / "told"
    os.mkfifo(told)
    code = tells(told)
    out = tmp_path / "out"
    command = [*command_of({"one": code, "two": TABLE}), "--out", out]
    with programs.started(command, stdout=subprocess.PIPE, text=True) as process:
        told.read_text()
        process.send_signal(number)
        output, _ = process.communicate(timeout=programs.LIMIT)
    assert process.returncode == 128 + number
    (step,) = json.loads((out / "results.json").read_text())["steps"]
    assert step["state"] == "cut off"
    assert (out / "results.md").read_text() in output
    assert "| a | 1 |" in output


def test_the_results_say_what_they_are_of_and_are_not_overwritten_by_another_run(run, tmp_path):
    done, found = run({"one": TABLE, "two": TABLE}, "--seconds", "1000")
    before = (tmp_path / "results.json").read_text()
    about = json.loads(before)["about"]
    assert about["command"].endswith("--seconds 1000")
    assert about["device"] == "cpu"
    assert re.fullmatch("[0-9a-f]{16}", about["sources (SHA-256)"])
    assert f"| sources (SHA-256) | {about['sources (SHA-256)']} |" in done.stdout
    assert 490 < found["one"]["limit"] < 500
    assert found["two"]["limit"] > 600, "time that a step leaves goes to the next"
    done, _ = run({"two": TABLE})
    assert done.returncode == 2
    assert "File exists" in done.stderr
    assert "give a folder without results" in done.stderr
    assert (tmp_path / "results.json").read_text() == before


def test_what_was_found_is_in_the_folder_while_a_step_runs(tmp_path):
    """Tests that an interrupted command leaves its results so far."""
    told = tmp_path / "told"
    os.mkfifo(told)
    code = tells(told)
    out = tmp_path / "out"
    command = [*command_of({"one": code}), "--out", out]
    # A killed command leaves the folder of its temporary files.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with programs.started(command, env=environment) as process:
        told.read_text()
        (step,) = json.loads((out / "results.json").read_text())["steps"]
        assert step["state"] == "running"
        assert step["tables"][0]["rows"] == [["a", 1.0]]
        process.send_signal(signal.SIGKILL)
        process.wait()


SAMPLE = """
import sys, time
sys.path.insert(0, sys.argv[1])
from machine import GpuSamples
with GpuSamples() as samples:
    while samples.between(0, time.perf_counter())[0] != 75.0:
        pass
    print(samples.between(0, time.perf_counter()))
    print(samples.between(0, 1e-9))
"""


def test_use_and_memory_of_the_gpu_are_sampled(tmp_path):
    smi = tmp_path / "nvidia-smi"
    lines = r"Unable to ask\n50, 1234, [N/A], 100.5\n100, 34, [N/A], 200.5\n"
    smi.write_text(f"#!/bin/sh\nprintf '{lines}'\nexec sleep 3600\n")
    smi.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = programs.run([sys.executable, "-c", SAMPLE, FOLDER], env=environment, check=True)
    assert done.stdout == "[75.0, 1234.0, '', 150.5]\n['', '', '', '']\n"


PYTEST = """
print("4 workers [9 items]")
print("[gw0] [ 10%] PASSED tests/gpu/test_a.py::test_one[a b] ")
print("[gw1] [ 20%] FAILED tests/gpu/test_a.py::test_two[x - y] ")
print("[gw1] [ 30%] SKIPPED tests/gpu/test_a.py::test_three ")
print("[gw1] [ 40%] PASSED tests/gpu/test_a.py::test_four ")
print("=== short test summary info ===")
print("SKIPPED [2] tests/gpu/test_a.py:3: needs a GPU")
print("FAILED tests/gpu/test_a.py::test_two[x - y] - AssertionError: half | a copy")
raise SystemExit(1)
"""


def test_outcomes_of_tests_become_tables(run, tmp_path):
    _, found = run({"tests": PYTEST})
    outcomes, failures = found["tests"]["tables"]
    assert outcomes["rows"] == [["all", 9], ["failed", 1], ["passed", 2], ["skipped", 1]]
    assert failures["rows"] == [
        ["skipped: 2", "tests/gpu/test_a.py:3", "needs a GPU"],
        ["failed", "tests/gpu/test_a.py::test_two[x - y]", "AssertionError: half | a copy"],
    ]
    assert "| AssertionError: half / a copy |" in (tmp_path / "results.md").read_text()


def test_the_real_steps_run_without_a_gpu(tmp_path):
    options = ["--device", "cpu", "--quick", "--seconds", programs.LIMIT, "--out", tmp_path]
    command = [sys.executable, FOLDER / "gpu.py", "--steps", "machine,cpu_chain", *options]
    done = programs.run(list(map(str, command)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| machine | done |" in done.stdout
    for row in ("1 threads, pool", "1 threads, graph", "1 processes a node, graph"):
        assert f"| {row} | " in done.stdout


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--steps", "tests, pipelin"], "got 'pipelin'; expected some of machine,tests,pipeline,"),
        (["--seconds", "nan"], "got 'nan'; expected a number of at least 16"),
        (["--seconds", "-5"], "got '-5'; expected a number of at least 16"),
        (["--device", "cuda"], "the driver sees no GPU; --device cpu shows that the program runs"),
    ],
)
def test_what_cannot_begin_is_told_at_once(tmp_path, options, text):
    if "cuda" in options and (importlib.util.find_spec("torchvision") is None or has_gpu()):
        pytest.skip("needs torchvision, and no GPU")
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


def test_the_page_names_every_step():
    code = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import gpu; "
    code += "print(*(step.name for step in gpu.STEPS))"
    steps = programs.run([sys.executable, "-c", code], check=True).stdout.split()
    page = (FOLDER / "gpu_machine.md").read_text()
    table = page[page.index("| step | program |") : page.index("The folder of `--out`")]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == steps


def names(requirements):
    return {re.split(r"[\[<>=;!~ ]", line)[0].lower() for line in requirements}


def test_the_wheels_are_all_that_modelflow_needs_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = names(project["dependencies"]) | names(project["optional-dependencies"]["serve"])
    of_the_machine = {"numpy", "opencv-python-headless"}
    not_used = {"grpcio"}  # the benchmark's servers speak only HTTP
    lines = (FOLDER / "gpu_wheels.txt").read_text().splitlines()
    listed = names(line for line in lines if line and not line.startswith("#"))
    assert needed - of_the_machine - not_used <= listed
