"""Compares the cost of an item of each standard workload with the bounds in `bounds.toml`.

The costs are counts: calls of Python functions, user instructions, context switches. Unlike times,
counts are the same on a busy machine. A test can therefore check them. The exit status is 1 if a
cost is more than 2 % (plus the spread between runs) over its bound. It is 3 if nothing can be
counted on this machine.

    python benchmarks/bounds.py [calls|instructions|switches]
    python benchmarks/bounds.py --write     # after a change that is worth its cost, or saves some
"""

import argparse
import statistics
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counting import Calls, Counter, Instructions, Switches, cost
from workloads import WORKLOADS

FILE = Path(__file__).with_name("bounds.toml")
COUNTERS: Mapping[str, Callable[[], Counter]] = {
    "calls": Calls,
    "instructions": Instructions,
    "switches": Switches,
}
ALLOWED = 0.02
"""The part of a bound by which a cost may exceed the bound."""
LEAST = 0.01
"""A cost per item that counts as none, for example of a page that was read again."""
ROUNDS = 5
"""The number of runs for a bound, and the most runs of a workload that seems too expensive."""
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_HEAD = f"""\
# What an item of each workload costs, and how far runs lay apart (a part of the bound; of what runs
# on one thread they are alike). Written by `python benchmarks/bounds.py --write`.
python = "{_PYTHON}"
"""


@dataclass(frozen=True)
class Bound:
    """The allowed cost of an item, and the spread between runs as a part of the cost."""

    bound: float
    spread: float

    @property
    def most(self) -> float:
        """The cost above which a workload has become more expensive."""
        return self.bound * (1 + ALLOWED + self.spread) + LEAST


def workloads_of(measure: str) -> list[str]:
    """Returns the workloads that a measure is stable for."""
    # How often threads wait for one another depends on the load of the machine.
    return [name for name in WORKLOADS if measure != "switches" or name.endswith("threads=0")]


def found_in(workload: str, measure: str) -> float:
    """Measures and returns the cost of an item."""
    run, items = WORKLOADS[workload]
    return cost(run, items // 8, COUNTERS[measure])


def written(measures: list[str], workloads: list[str]) -> str:
    """Returns the text of the bounds of this version."""
    text = _HEAD
    for measure in measures:
        if reason := uncounted(measure):
            print(f"no bounds of {measure}: {reason}")
            continue
        text += f"\n[{measure}]\n"
        for name in workloads_of(measure):
            if name in workloads:
                found = [found_in(name, measure) for _ in range(ROUNDS)]
                middle = statistics.median(found)
                spread = (max(found) - min(found)) / middle if middle > LEAST else 0.0
                text += f'"{name}" = {{ bound = {middle:.2f}, spread = {spread:.4f} }}\n'
    return text


def uncounted(measure: str) -> str | None:
    """Returns why this machine cannot count a measure, or None if the measure is available."""
    try:
        COUNTERS[measure]().close()
    except OSError as error:
        return f"this system does not count them ({error})"
    return None


def held(measure: str, bounds: Mapping[str, Bound]) -> list[str]:
    """Prints the cost of each workload, and returns a line for each cost above its bound.

    The cost of a run with several threads varies by chance. Of several runs the cheapest counts.
    """
    over = []
    for name, bound in bounds.items():
        found = found_in(name, measure)
        for _ in range(ROUNDS - 1):
            if found <= bound.most:
                break
            found = min(found, found_in(name, measure))
        ratio = f"{found / bound.bound:.3f} of it" if bound.bound else "there were none"
        line = f"{name}: {found:.2f} {measure} an item, the bound is {bound.bound:.2f} ({ratio})"
        print(line, flush=True)
        if found > bound.most:
            over.append(f"{line}; at most {bound.most:.2f} are allowed")
    return over


def refusal(measure: str, table: Mapping[str, object]) -> str | None:
    """Returns why a measure has no usable bounds here, or None if its bounds can be checked."""
    if reason := uncounted(measure):
        return reason
    if table["python"] != _PYTHON:
        return f"the bounds are those of Python {table['python']}, this is {_PYTHON}"
    return None if measure in table else "there are no bounds; write them where they are counted"


def checked(table: Mapping[str, Any], measures: list[str], workloads: list[str]) -> int:
    """Prints each cost with its bound, and returns the exit status."""
    over, refused = [], []
    for measure in measures:
        if reason := refusal(measure, table):
            refused.append(f"{measure}: {reason}")
            continue
        names = [name for name in table[measure] if name in workloads]
        over += held(measure, {name: Bound(**table[measure][name]) for name in names})
    for line in refused:
        print(line)
    if over:
        print("Too dear:", *over, sep="\n")
        print("If it is worth that: python benchmarks/bounds.py --write")
        return 1
    return 3 if len(refused) == len(measures) else 0


def main() -> int:
    """Checks, or writes, the bounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measure", nargs="?", choices=COUNTERS, help="one alone; else all")
    parser.add_argument("--workload", choices=WORKLOADS, help="one alone; else all")
    parser.add_argument("--write", action="store_true", help="write the bounds anew")
    parser.add_argument("--bounds", type=Path, default=FILE, help="another file of bounds")
    given = parser.parse_args()
    measures = [given.measure] if given.measure else list(COUNTERS)
    workloads = [given.workload] if given.workload else list(WORKLOADS)
    if given.write:
        given.bounds.write_text(written(measures, workloads), encoding="utf-8")
        return 0
    return checked(tomllib.loads(given.bounds.read_text("utf-8")), measures, workloads)


if __name__ == "__main__":
    sys.exit(main())
