"""Counts the instructions of the runtime, which are the same on a quiet and on a busy machine.

Each row runs a graph of nodes that do nothing, for two numbers of items. The slope between the two
is the cost of an item. Most virtual machines do not count instructions. The cost is then processor
time, which needs many rounds. To compare two versions, give the folder of the other version. Both
run in alternating rounds, and the table has the ratio of their medians.

    python benchmarks/instructions.py
    python benchmarks/instructions.py --against ../other --rounds 9
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from counting import CpuTime, Instructions, cost
from workloads import WORKLOADS

import modelflow


def counter() -> type[Instructions] | type[CpuTime]:
    """Returns the best counter of this machine."""
    try:
        Instructions().close()
    except OSError:
        return CpuTime
    return Instructions


def measured_in(folder: str, *options: str) -> dict[str, float]:
    """Runs this program on the code in a folder, and returns its figures."""
    environment = {**os.environ, "PYTHONPATH": folder}
    command = [sys.executable, __file__, "--json", "--rounds", "1", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--quick", action="store_true", help="only show that it runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--against", metavar="FOLDER", help="the other version, for ratios")
    given = parser.parse_args()
    if given.against:
        here = os.path.dirname(os.path.dirname(os.path.abspath(modelflow.__file__)))
        options = ("--quick",) if given.quick else ()
        both = [
            (measured_in(given.against, *options), measured_in(here, *options))
            for _ in range(given.rounds)
        ]
        for name in WORKLOADS:
            ratio = statistics.median(new[name] for _, new in both) / statistics.median(
                old[name] for old, _ in both
            )
            print(f"{name:40} {ratio:6.3f} of the other version", flush=True)
        return
    unit = "instructions" if counter() is Instructions else "ns of processor time"
    table = {}
    for name, (run, items) in WORKLOADS.items():
        many = items // 16 if given.quick else items
        found = [cost(run, many, counter()) for _ in range(given.rounds)]
        table[name] = statistics.median(found) / 1e3
        if not given.json:
            print(f"{name:40} {table[name]:9.1f} k {unit} an item", flush=True)
    if given.json:
        print(json.dumps(table))


if __name__ == "__main__":
    main()
