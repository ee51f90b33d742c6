"""Tests of the runtime's cost per item against bounds, in counts, which do not depend on load."""

import re
import sys
from pathlib import Path

import pytest

from tests import programs

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
WORKLOAD = "64 rows a session, batch 8, threads=0"


def bounds(*options):
    return programs.run([sys.executable, str(FOLDER / "bounds.py"), *options], text=True)


def test_the_standard_workloads_cost_no_more_than_their_bounds():
    done = bounds()
    if done.returncode == 3:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Returns the bounds of one workload, written on this machine."""
    file = tmp_path_factory.mktemp("bounds") / "bounds.toml"
    done = bounds("calls", "--workload", WORKLOAD, "--write", "--bounds", str(file))
    assert done.returncode == 0, done.stderr
    return file.read_text()


@pytest.fixture
def written(text, tmp_path):
    """Returns a file with the bounds."""
    file = tmp_path / "bounds.toml"
    file.write_text(text)
    return file


def test_bounds_that_were_just_written_hold(written):
    done = bounds("calls", "--bounds", str(written))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{WORKLOAD}: " in done.stdout


def test_what_costs_more_than_its_bound_is_told_with_both_figures(written):
    (cost,) = re.findall(r"bound = ([\d.]+)", written.read_text())
    bound = f"{float(cost) * 0.97:.2f}"
    written.write_text(written.read_text().replace(cost, bound))
    done = bounds("calls", "--bounds", str(written))
    assert done.returncode == 1
    last = done.stdout.split("Too dear:\n")[1]
    assert last.startswith(f"{WORKLOAD}: {cost} calls an item, the bound is {bound} (1.03")
    assert last.endswith("If it is worth that: python benchmarks/bounds.py --write\n")


def test_bounds_of_another_python_are_not_held(written):
    written.write_text(re.sub(r'python = ".*"', 'python = "2.7"', written.read_text()))
    done = bounds("calls", "--bounds", str(written))
    assert done.returncode == 3
    assert "calls: the bounds are those of Python 2.7, this is 3" in done.stdout


# The test must notice one more call in the path of every batch.
DEARER = """
import runpy, sys
from modelflow.runtime.workers.worker import Worker

take = Worker.run

def dearer(worker, batch):
    (lambda: None)()
    return take(worker, batch)

Worker.run = dearer
sys.path.insert(0, sys.argv[1])
sys.argv[:] = ["bounds.py", *sys.argv[2:]]
runpy.run_module("bounds", run_name="__main__")
"""


def test_one_useless_call_a_batch_is_too_dear(written):
    options = ("calls", "--bounds", str(written))
    command = [sys.executable, "-c", DEARER, str(FOLDER), *options]
    done = programs.run(command, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"Too dear:\n{WORKLOAD}: " in done.stdout
