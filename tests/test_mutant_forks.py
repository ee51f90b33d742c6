from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import programs
from tests.mutant_forks import Call, chosen

ROOT = Path(__file__).resolve().parents[1]
# The parts of mutmut's own code that the plugin uses.
MUTMUT = """
import os
from types import SimpleNamespace

_state = SimpleNamespace(_stats=set())

def state():
    return _state

def called(function):
    _state._stats.add(function)
    return os.environ["MUTANT_UNDER_TEST"]
"""
TESTS = """
import os, time
from mutmut.state import called

def test_it():
    mutant = called("a.b.x_f")
    assert mutant != "a.b.x_f__mutmut_1"
    while mutant == "a.b.x_f__mutmut_2":
        time.sleep(1)
    if mutant == "a.b.x_f__mutmut_3":
        os.abort()

def test_another():
    assert called("a.b.x_g") != "a.b.x_g__mutmut_1"
"""


def ids(mutant, calls):
    items = [SimpleNamespace(nodeid=name) for name in calls]
    return [item.nodeid for item in chosen(mutant, items, calls)]


def test_its_own_tests_come_first_and_of_others_the_fast_ones_that_call_the_function():
    calls = {
        "tests/runtime/queues/test_inbox.py::far": Call(
            "", 0.1, ["modelflow.runtime.stages.outbox.x_f"]
        ),
        "tests/runtime/queues/test_inbox.py::deaf": Call("", 0.1, []),
        "tests/runtime/queues/test_inbox.py::slow": Call(
            "", 60.0, ["modelflow.runtime.stages.outbox.x_f"]
        ),
        "tests/runtime/stages/test_outbox.py::deaf": Call("", 0.05, []),
        "tests/runtime/stages/test_outbox.py::slow": Call(
            "", 60.0, ["modelflow.runtime.stages.outbox.x_f"]
        ),
        "tests/runtime/stages/test_outbox.py::fast": Call(
            "", 0.1, ["modelflow.runtime.stages.outbox.x_f"]
        ),
    }
    own = [f"tests/runtime/stages/test_outbox.py::{name}" for name in ("fast", "slow", "deaf")]
    far = "tests/runtime/queues/test_inbox.py::far"
    assert ids("modelflow.runtime.stages.outbox.x_f__mutmut_2", calls) == [*own, far]
    assert ids("modelflow.runtime.stages.outbox.x_g__mutmut_2", calls) == [own[2], own[0], own[1]]


@pytest.mark.slow
def test_each_mutant_is_tried_by_the_tests_that_call_its_function(tmp_path):
    (tmp_path / "mutmut").mkdir()
    (tmp_path / "mutmut" / "__init__.py").touch()
    (tmp_path / "mutmut" / "state.py").write_text(MUTMUT)
    (tmp_path / "test_them.py").write_text(TESTS)
    names = [f"a.b.x_f__mutmut_{number}" for number in (1, 2, 3, 4)]
    names += ["a.b.x_g__mutmut_1", "a.b.x_h__mutmut_1"]
    (tmp_path / "names").write_text("\n".join(names))
    options = ["-p", "tests.mutant_forks", "-p", "no:cacheprovider", "--mutant-forks", "2"]
    options += ["--mutants", "names", "--mutant-calls", "calls", "--mutant-results", "results"]
    programs.run(
        ["python", "-m", "pytest", *options, "test_them.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )
    became = dict(line.split() for line in (tmp_path / "results").read_text().splitlines())
    told = ["killed", "hangs", "killed", "survived", "killed", "no-tests"]
    assert became == dict(zip(names, told, strict=True))
