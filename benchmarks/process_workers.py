"""Where ``workers="process"`` pays: units in pure Python and in NumPy, threads and processes.

python benchmarks/process_workers.py [--quick]
"""

import argparse
import os
from functools import partial

import numpy as np
from measure import medians, print_table, session_rate

import modelflow


@modelflow.flowunit
def count(signal: np.ndarray, *, steps: int = 20_000) -> np.ndarray:
    """Works in pure Python, which holds the interpreter lock."""
    total = 0
    for step in range(steps):
        total += step % 7
    return signal + np.float32(total)


@modelflow.flowunit
def sort(signal: np.ndarray) -> np.ndarray:
    """Works in NumPy, which releases the lock."""
    return np.sort(signal, kind="stable")


@modelflow.flowunit
def same(signal: np.ndarray) -> np.ndarray:
    """Returns its input, which shows the cost of the way to the process and back."""
    return signal


CASES = (  # title, unit, floats, batch, items
    ("pure Python, 4 KiB", count, 1 << 10, 4, 1000),
    ("NumPy, 4 MiB", sort, 1 << 20, 4, 100),
    ("pure Python, 4 MiB", count, 1 << 20, 4, 200),
    ("nothing, 4 KiB, batch 1", same, 1 << 10, 1, 2000),
    ("nothing, 4 KiB, batch 8", same, 1 << 10, 8, 4000),
    ("nothing, 4 MiB, batch 1", same, 1 << 20, 1, 100),
)
GRAPH = """digraph {{
    input [type=input]
    {unit} [threads={threads}, workers={workers}, batch_size={batch}]
    output [type=output]
    input -> {unit} -> output
}}"""


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    rounds = 1 if given.quick else given.rounds
    threads = len(os.sched_getaffinity(0))
    rows = []
    for title, unit, size, batch, items in CASES[:2] if given.quick else CASES:
        signal = np.random.default_rng(0).random(size, np.float32)
        count_of = items // 20 if given.quick else items
        flows = {
            (workers, n): modelflow.Flow(
                GRAPH.format(unit=unit.__name__, threads=n, workers=workers, batch=batch),
                units=[unit],
            ).start()
            for workers, n in (("thread", 1), ("thread", threads), ("process", threads))
        }
        programs = {
            key: partial(session_rate, flow, signal, count_of) for key, flow in flows.items()
        }
        found = medians(programs, rounds)
        for flow in flows.values():
            flow.stop()
        one, many, apart = found.values()
        rows.append([title, one, many, apart, apart / many])
    print_table(
        f"items a second, medians of {rounds}",
        ["", "1 thread", f"{threads} threads", f"{threads} processes", "processes / threads"],
        rows,
    )


if __name__ == "__main__":
    main()
