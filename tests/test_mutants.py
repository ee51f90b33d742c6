import importlib.util
import inspect
from typing import Any

import pytest

from tests.mutants import ALLOWED, Mutant, mutant_of, read_reasons, report, unused

DIFF = """# modelflow.runtime.stages.outbox.xǁOutboxǁ_release__mutmut_14: survived
--- modelflow/runtime/stages/outbox.py
+++ modelflow/runtime/stages/outbox.py
@@ -3,7 +3,7 @@
     if ticket != expected:
-        self._held_rows += len(part.positions)
+        self._held_rows = len(part.positions)
         return
"""
NAME = "modelflow.runtime.stages.outbox.xǁOutboxǁ_release__mutmut_14"
MUTANT = Mutant(
    "modelflow.runtime.stages.outbox.Outbox._release",
    "self._held_rows += len(part.positions)",
    "self._held_rows = len(part.positions)",
)
ENTRY = """[[mutant]]
function = "modelflow.runtime.stages.outbox.Outbox._release"
was = "self._held_rows += len(part.positions)"
becomes = "self._held_rows = len(part.positions)"
reason = "{}"
"""
NONE = read_reasons("")
SURVIVED, NOTICED, NOT_TRIED = 0, 1, None


def test_a_mutant_is_known_by_its_function_and_its_lines():
    assert mutant_of(NAME, DIFF) == MUTANT
    assert mutant_of("a.b.x__copied__mutmut_3", DIFF).function == "a.b._copied"
    assert mutant_of("a.b.x_emit__mutmut_3", DIFF).function == "a.b.emit"


def test_only_survivors_without_a_reason_fail(capsys):
    assert report({MUTANT: SURVIVED}, NONE) == 1
    assert (
        "SURVIVED modelflow.runtime.stages.outbox.Outbox._release\n    - self"
        in capsys.readouterr().out
    )
    assert report({MUTANT: SURVIVED}, read_reasons(ENTRY.format("speed alone"))) == 0
    assert report({MUTANT: NOTICED}, NONE) == 0
    assert report({}, NONE) == 0


def test_what_was_not_tried_fails(capsys):
    assert report({MUTANT: NOT_TRIED}, NONE) == 1
    assert "1 not tried" in capsys.readouterr().out


def test_a_reason_for_what_a_test_notices_fails(capsys):
    assert report({MUTANT: NOTICED}, read_reasons(ENTRY.format("speed alone"))) == 1
    assert "NOTICED, but listed: modelflow.runtime.stages.outbox" in capsys.readouterr().out


def test_an_entry_that_no_mutant_has_is_said():
    reasons = read_reasons(ENTRY.format("speed alone") + "[[class]]\nchange = 'a'\nreason = 'b'")
    assert list(unused([MUTANT], reasons)) == ["a"]
    other = Mutant("modelflow.runtime.stages.outbox.f", "", "")
    assert list(unused([other], reasons)) == ["a", MUTANT]


@pytest.mark.parametrize(
    ("was", "becomes", "is_left_out"),
    [
        ("zip(a, b, strict=True)", "zip(a, b, strict=False)", True),
        ("zip(a, b, strict=True)", "zip(a, b, )", True),
        ("zip(a, b, strict=True)", "zip(b, strict=True)", False),
        ("zip(a, b, strict=False)", "zip(a, b, strict=True)", False),
        ("x = zip(a, b, strict=True)", "x = None", False),
        ('"part of a text"', '"XXpart of a textXX"', True),
        ('"name"', '"XXnameXX"', False),
        ('x = [[] for _ in y or ("",)]', 'x = [[] for _ in y or ("XXXX",)]', True),
        ('log("it is over", x)', 'log("XXit is overXX", x)', True),
        ('log("it is over", x)', 'log("IT IS OVER", x)', True),
        ('log("it is over", x)', "log(x)", False),
        ("self.is_a = self._has_b = False", "self.is_a = self._has_b = None", True),
        ("self.is_a = self._has_b = False", "self.is_a = self._has_b = True", False),
        ("f(x, is_last=False)", "f(x, is_last=None)", True),
        ("f(x, is_last=False)", "f(x, is_last=True)", False),
        ("x.has_errors = False", "x.has_errors = True", True),
        ("x.has_errors = True", "x.has_errors = False", False),
        ("f(Segment(s, (), [[]], True, False))", "f(Segment(s, (), [[]], True, True))", True),
        ("f(Segment(s, (), [[]], True, False))", "f(Segment(s, (), [[]], False, False))", False),
        ("if a > self.b // 2:", "if a > self.b / 2:", True),
        ("if a >= self.b // 2:", "if a >= self.b / 2:", False),
    ],
)
def test_a_class_is_of_one_change_and_no_other(was, becomes, is_left_out):
    mutant = Mutant("modelflow.runtime.stages.outbox.f", was, becomes)
    reasons = read_reasons(ALLOWED.read_text())
    assert (reasons.class_of(mutant) is not None) == is_left_out
    assert report({mutant: SURVIVED}, reasons) == (0 if is_left_out else 1)


def test_the_list_of_survivors_has_a_reason_for_each():
    reasons = read_reasons(ALLOWED.read_text())
    assert all(reasons.mutants.values())
    assert all(reasons.classes.values())
    with pytest.raises(ValueError, match="mutant 1: got"):
        read_reasons(ENTRY.format(" "))
    with pytest.raises(ValueError, match="class 1: got"):
        read_reasons("[[class]]\nchange = 'a'")


@pytest.mark.parametrize("mutant", read_reasons(ALLOWED.read_text()).mutants, ids=str)
def test_the_line_of_each_survivor_stands_in_its_function(mutant):
    path = mutant.function.split(".")
    depth = next(n for n in range(len(path), 0, -1) if _is_module(".".join(path[:n])))
    found: Any = importlib.import_module(".".join(path[:depth]))
    for name in path[depth:]:
        found = inspect.getattr_static(found, name)
    found = getattr(found, "fget", None) or getattr(found, "__func__", found)
    assert mutant.was in inspect.getsource(found)


def _is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is not a package
        return False
