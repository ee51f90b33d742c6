"""Compares interpreters: units in plain Python, and the runtime's own cost of a hop.

python benchmarks/interpreters.py --python 3.14=PATH --python 3.14t=PATH [--quick]

Each PATH is an interpreter that can import modelflow. The chain has four units, and each computes
for some hundred microseconds in plain Python. Its items are numbers, or pictures of 150 KB that
each unit copies. It runs in threads (as planned), and with ``workers="process"``. Memory is the
proportional set size of all processes that the chain adds. A hop is a unit that does nothing: of
chains of two and six such units the difference is taken. Items are streamed in batches of 8, with a
thread for each unit, or asked for one by one. The interpreters take turns; figures are medians.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from measure import print_table, session_rate, take_turns

import modelflow

STEPS = 6_000  # 220 us with Python 3.14 on the machine of the tables
CHAIN = """digraph {{
    input [type=input]
    node [flowunit={unit}{more}]
    output [type=output]
    input -> one -> two -> three -> four -> output
}}"""
PICTURE = np.zeros((224, 224, 3), np.uint8)


@modelflow.flowunit
def count(number: int, *, steps: int = STEPS) -> int:
    """Computes in plain Python."""
    total = 0
    for step in range(steps):
        total += step % 7
    return number + total


@modelflow.flowunit
def mark(picture: npt.NDArray[np.uint8], *, steps: int = STEPS) -> npt.NDArray[np.uint8]:
    """Computes in plain Python, and writes the result into a copy of the picture."""
    total = 0
    for step in range(steps):
        total += step % 7
    picture = picture.copy()
    picture[0, 0, 0] = total % 256
    return picture


@modelflow.flowunit(batched=True)
def pass_on(values: list[int]) -> list[int]:
    """Returns its inputs."""
    return values


def memory() -> float:
    """Returns the proportional set size of this process and its children, in MiB."""
    whole = 0
    for pid in [os.getpid(), *children(os.getpid())]:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
        whole += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return whole / 1024


def children(pid: int) -> list[int]:
    """Returns all processes below a process."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    direct = [int(child) for path in found for child in path.read_text("ascii").split()]
    return [*direct, *(below for child in direct for below in children(child))]


def run_chain(unit: str, item: object, items: int, more: str = "") -> tuple[float, float]:
    """Returns the items a second of the chain of four units, and its memory in MiB."""
    before = memory()
    with modelflow.Flow(CHAIN.format(unit=unit, more=more), units=[count, mark]) as flow:
        session_rate(flow, item, items // 10)
        return session_rate(flow, item, items), memory() - before


def run_hops(items: int) -> dict[str, float]:
    """Returns the microseconds of an item a hop: streamed, of processors, and asked for alone."""
    found = {}
    for hops in (2, 6):
        names = [f"n{place}" for place in range(hops)]
        nodes = " ".join(f"{name} [flowunit=pass_on, threads=1, batch_size=8]" for name in names)
        edges = " -> ".join(["input", *names, "output"])
        text = f"digraph {{ input [type=input] output [type=output] {nodes} {edges} }}"
        with modelflow.Flow(text, units=[pass_on]) as flow:
            session_rate(flow, 1, items // 10)
            used = time.process_time()
            streamed = items / session_rate(flow, 1, items)
            used = time.process_time() - used
            start = time.perf_counter()
            for _ in range(items // 10):
                flow.infer(1)
            found[hops] = streamed, used, 10 * (time.perf_counter() - start)
    names = ["streamed", "streamed, time of processors", "asked for alone"]
    costs = [(long - short) / 4 / items * 1e6 for short, long in zip(*found.values(), strict=True)]
    return {f"us a hop, {name}": cost for name, cost in zip(names, costs, strict=True)}


def measure(is_quick: bool) -> dict[str, float]:
    """Returns the figures of this interpreter."""
    items, found = 40 if is_quick else 3000, {}
    for title, unit, item in (("numbers", "count", 1), ("pictures", "mark", PICTURE)):
        for workers in ("thread", "process"):
            rate, used = run_chain(unit, item, items, f', workers="{workers}"')
            found[f"{title} a second, workers={workers}"] = rate
            found[f"MiB, {title}, workers={workers}"] = used
    return found | run_hops(10 * items)


def ask(python: str, is_quick: bool) -> dict[str, float]:
    """Runs `measure` with another interpreter."""
    command = [python, __file__, "--here", *(["--quick"] if is_quick else [])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", help="NAME=PATH of an interpreter")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.quick)))
        return
    pythons = [one.partition("=") for one in given.python or [f"this={sys.executable}"]]
    programs = {name: partial(ask, path, given.quick) for name, _, path in pythons}
    found = take_turns(programs, 1 if given.quick else given.rounds)
    rows = []
    for title in next(iter(found.values()))[0]:
        row = [statistics.median(one[title] for one in rounds) for rounds in found.values()]
        rows.append([title, *row, row[-1] / row[0]])
    title = f"{len(os.sched_getaffinity(0))} processors, medians of {given.rounds}"
    print_table(title, ["", *found, "last / first"], rows)


if __name__ == "__main__":
    main()
