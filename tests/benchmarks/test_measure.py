"""Tests of the shared code of the benchmarks' programs."""

import sys
from pathlib import Path

from tests import programs

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def run(code):
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n{code}"]
    return programs.run(command, check=True)


def test_a_steady_rate_leaves_out_the_first_fifth():
    # The start-up, which does not count, takes until 1.5.
    moments = [0.1, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0]
    code = f"from measure import steady_rate; print(steady_rate({moments}, 4))"
    assert float(run(code).stdout) == 7 * 4 / 3.5


def test_programs_take_turns_for_one_round_at_least_and_none_after_the_time():
    code = "from measure import take_turns; seen = []\n"
    code += "programs = {n: lambda n=n: seen.append(n) or len(seen) for n in 'ab'}\n"
    code += "print(take_turns(programs, 2), take_turns(programs, 2, until=0.0), *seen)"
    assert run(code).stdout == "{'a': [1, 3], 'b': [2, 4]} {'a': [5], 'b': [6]} a b a b a b\n"


ATTEMPTS = """
from measure import Table
table = Table("t", ["", "n", "m"], as_json=AS_JSON)
table.add("first", 1.0)
with table.attempt("second"):
    raise ValueError("no | room\\nhere")
table.close()
print(table.has_failed)
"""


def test_a_measurement_that_fails_is_a_row_and_its_traceback_is_kept():
    done = run(ATTEMPTS.replace("AS_JSON", "False"))
    lines = [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert lines[3].startswith("-")
    assert lines[4:] == ["first", "second: FAILED: ValueError: no | room here", "True"]
    assert "Traceback" in done.stderr


def test_a_table_for_gpu_py_is_printed_at_each_row():
    first, second, last = run(ATTEMPTS.replace("AS_JSON", "True")).stdout.splitlines()
    assert first == '{"title": "t", "columns": ["", "n", "m"], "rows": [["first", 1.0, ""]]}'
    assert second.startswith(first[:-3])
    assert last == "True"


FAMILY = """
import os, subprocess, sys
from machine import family
code = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'input()'])"
child = subprocess.Popen(
    [sys.executable, "-c", code + "; print(p.pid, flush=True); p.wait()"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
)
grandchild = int(child.stdout.readline())
print(family(os.getpid()) == [os.getpid(), child.pid, grandchild])
child.communicate(b"\\n")
print(family(os.getpid()) == [os.getpid()])
"""


def test_the_descendants_of_a_process_are_found():
    assert run(FAMILY).stdout.split() == ["True", "True"]
