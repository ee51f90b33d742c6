"""Compares interpreters: units in plain Python, and the runtime's own cost of a hop.

python benchmarks/interpreters.py --python 3.14=PATH --python 3.14t=PATH [--quick]

Each PATH is an interpreter that can import modelflow. The chain has four units, and each computes
for some hundred microseconds in plain Python. It runs in threads (as planned), and with
``workers="process"``. Memory is the proportional set size of all processes after the run, without
that of an interpreter that has only imported modelflow. A hop is one of two to six units that do
nothing, in batches of 8 on a thread each. The interpreters take turns; figures are medians.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from measure import print_table, session_rate, take_turns

import modelflow

STEPS = 6_000  # 250 us with Python 3.14 on the machine of the tables
CHAIN = """digraph {{
    input [type=input]
    node [flowunit=count{more}]
    output [type=output]
    input -> one -> two -> three -> four -> output
}}"""


@modelflow.flowunit
def count(number: int, *, steps: int = STEPS) -> int:
    """Computes in plain Python."""
    total = 0
    for step in range(steps):
        total += step % 7
    return number + total


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


def run_chain(more: str, items: int) -> tuple[float, float]:
    """Returns the items a second of the chain of four units, and its memory in MiB."""
    before = memory()
    with modelflow.Flow(CHAIN.format(more=more), units=[count]) as flow:
        session_rate(flow, 1, items // 10)
        return session_rate(flow, 1, items), memory() - before


def run_hops(items: int) -> tuple[float, float]:
    """Returns the microseconds and the processor's microseconds of an item a hop."""
    found = {}
    for hops in (2, 6):
        names = [f"n{place}" for place in range(hops)]
        nodes = " ".join(f"{name} [flowunit=pass_on, threads=1, batch_size=8]" for name in names)
        edges = " -> ".join(["input", *names, "output"])
        text = f"digraph {{ input [type=input] output [type=output] {nodes} {edges} }}"
        with modelflow.Flow(text, units=[pass_on]) as flow:
            session_rate(flow, 1, items // 10)
            used = time.process_time()
            seconds = items / session_rate(flow, 1, items)
            found[hops] = seconds, time.process_time() - used
    wall, processor = ((long - short) / 4 / items * 1e6 for short, long in zip(*found.values()))
    return wall, processor


def measure(is_quick: bool) -> dict[str, float]:
    """Returns the figures of this interpreter."""
    items = 40 if is_quick else 4000
    threads, of_threads = run_chain("", items)
    processes, of_processes = run_chain(', workers="process"', items)
    wall, processor = run_hops(10 * items)
    return {
        "threads": threads,
        "processes": processes,
        "memory of threads": of_threads,
        "memory of processes": of_processes,
        "hop": wall,
        "hop, processor": processor,
    }


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
    for name, rounds in found.items():
        figures = {key: sorted(one[key] for one in rounds)[len(rounds) // 2] for key in rounds[0]}
        rows.append([name, *figures.values()])
    columns = [
        *("", "threads, items/s", "processes, items/s", "threads, MiB", "processes, MiB"),
        *("a hop, us", "a hop, us of processor"),
    ]
    print_table(f"{len(os.sched_getaffinity(0))} processors", columns, rows)


if __name__ == "__main__":
    main()
