import pytest

from tests.mutants import ALLOWED, Mutant, allowed_mutants, mutant_of, names_by_status, report

DIFF = """# modelflow.runtime.outbox.xǁOutboxǁ_release__mutmut_14: survived
--- modelflow/runtime/outbox.py
+++ modelflow/runtime/outbox.py
@@ -3,7 +3,7 @@
     if ticket != expected:
-        self._held_rows += len(part.positions)
+        self._held_rows = len(part.positions)
         return
"""
NAME = "modelflow.runtime.outbox.xǁOutboxǁ_release__mutmut_14"
MUTANT = Mutant(
    "modelflow.runtime.outbox.Outbox._release",
    "self._held_rows += len(part.positions)",
    "self._held_rows = len(part.positions)",
)
ENTRY = """[[mutant]]
function = "modelflow.runtime.outbox.Outbox._release"
was = "self._held_rows += len(part.positions)"
becomes = "self._held_rows = len(part.positions)"
reason = "{}"
"""


def test_a_mutant_is_known_by_its_function_and_its_lines():
    assert mutant_of(NAME, DIFF) == MUTANT
    assert mutant_of("a.b.x__copied__mutmut_3", DIFF).function == "a.b._copied"
    assert mutant_of("a.b.x_emit__mutmut_3", DIFF).function == "a.b.emit"


def test_results_are_those_of_the_modules():
    text = f"    {NAME}: survived\n    modelflow.runtime.inbox.x_a__mutmut_1: no tests\n"
    assert names_by_status(text, ["modelflow.runtime.outbox"]) == {"survived": [NAME]}
    assert set(names_by_status(text, ["modelflow.runtime"])) == {"survived", "no tests"}


def test_only_survivors_without_a_reason_fail(capsys):
    assert report({MUTANT}, {}, 0) == 1
    assert (
        "SURVIVED modelflow.runtime.outbox.Outbox._release\n    - self" in capsys.readouterr().out
    )
    assert report({MUTANT}, allowed_mutants(ENTRY.format("speed alone")), 0) == 0
    assert report(set(), {}, 0) == 0
    assert report(set(), {}, 3) == 1


def test_the_list_of_survivors_has_a_reason_for_each():
    assert all(allowed_mutants(ALLOWED.read_text()).values())
    with pytest.raises(ValueError, match="mutant 1: got"):
        allowed_mutants(ENTRY.format(" "))
