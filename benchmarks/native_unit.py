"""The C++ unit of ``modelflow new unit --kind c++`` against its Python twin, with 1 and 2 threads.

python benchmarks/native_unit.py [--quick]

Needs a C++ compiler and make. The unit smooths a signal: each value depends on the one before, so
NumPy cannot do it as one operation.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import medians, print_table, session_rate

import modelflow
from modelflow.starters.template import write_template
from modelflow.testing import read_unit


@modelflow.flowunit
def twin(signal: np.ndarray, *, share: float = 0.25) -> np.ndarray:
    """Smooths a signal."""
    value = signal[0]
    out = np.empty_like(signal)
    for place in range(len(signal)):
        value += share * (signal[place] - value)
        out[place] = value
    return out


def main() -> None:
    """Builds the unit, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--values", type=int, default=100_000, help="of a signal")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    values, rounds = (1000, 1) if given.quick else (given.values, given.rounds)
    signal = np.random.default_rng(0).random(values, np.float32)
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        write_template("unit", "c++", "smooth", Path(folder))
        place = Path(folder) / "smooth"
        build = ["make", "-s", f"PYTHON={sys.executable}"]
        subprocess.run(build, cwd=place, check=True)
        smooth = read_unit(place / "smooth.toml")
        for threads in (1, 2):
            flows = {}
            for unit, count in (("smooth", 20 * 50_000 // values), ("twin", 3)):
                graph = (
                    f"digraph {{ input [type=input] {unit} [threads={threads}, batch_size=1] "
                    f"output [type=output] input -> {unit} -> output }}"
                )
                flow = modelflow.Flow(graph, units=[smooth, twin]).start()
                flows[unit] = flow, max(2 * threads, count)
            rates[threads] = medians(
                {
                    unit: lambda flow=flow, count=count: session_rate(flow, signal, count)
                    for unit, (flow, count) in flows.items()
                },
                rounds,
            )
            for flow, _ in flows.values():
                flow.stop()
    print_table(
        f"signals of {values} values a second, medians of {rounds}",
        ["threads", "C++", "Python", "ratio"],
        [[n, r["smooth"], r["twin"], r["smooth"] / r["twin"]] for n, r in rates.items()],
    )
    more = rates[2]["smooth"] / rates[1]["smooth"]
    print(f"\nC++: 2 threads against 1: {more:.2f}x")


if __name__ == "__main__":
    main()
