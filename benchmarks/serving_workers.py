"""Compares a server of one process with workers before a process with the model.

python benchmarks/serving_workers.py [--workers 1,2] [--quick]

The table shows where the second process pays. The model is the mean of a row, in batches of 32 rows
at most. It costs so little that the server's own cost is measured. The servers run one after
another, over several rounds. Compare figures only within one run. The servers share the machine
with the client.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from child import started
from measure import print_table
from serving import CASES, Case, request
from serving_replicas import load, wait

HERE = Path(__file__).resolve().parent
GRAPHS = HERE / "serving_graphs"


def measure(workers: int, case: Case, file: Path, seconds: float) -> list[dict[str, float]]:
    """Starts a server, and asks over each number of connections."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "modelflow", "serve", "mean.toml", "--grpc", "off"]
    command += ["--http", f"127.0.0.1:{port}", "--workers", str(workers)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(HERE.parent), str(GRAPHS)))}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with started(command, cwd=GRAPHS, env=environment, **quiet) as server:
        wait(port, file.read_bytes())
        load(server.pid, port, file, 8, seconds / 2)  # warm
        return [load(server.pid, port, file, count, seconds) for count in case.connections]


def compare(workers: Sequence[int], case: Case, rounds: int, seconds: float) -> list[list[object]]:
    """Runs the servers in alternating rounds; returns a row for each server and load."""
    found: dict[tuple[int, int], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "request"
        file.write_bytes(request("modelflow", case))
        for _ in range(rounds):
            for count in workers:
                seen = measure(count, case, file, seconds)
                for connections, one in zip(case.connections, seen, strict=True):
                    found.setdefault((connections, count), []).append(one)
    names = ("rate", "cpu_us", "p50_us", "p99_us")
    middle = {
        key: [statistics.median(one[name] for one in seen) for name in names]
        for key, seen in found.items()
    }
    return [
        [_title(count), connections, *row, row[0] / middle[connections, 0][0]]
        for (connections, count), row in sorted(middle.items())
    ]


def _title(workers: int) -> str:
    return f"workers: {workers}" if workers else "one process"


def main() -> None:
    """Prints a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--workers", default="1,2", help="numbers of workers, tried one after the other"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--case", default="", help="only the cases whose titles begin so")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    rounds, seconds = (1, 0.3) if given.quick else (given.rounds, given.seconds)
    workers = [0, *map(int, given.workers.split(","))]
    for case in CASES[:1] if given.quick else CASES[:3]:
        if case.title.startswith(given.case):
            head = ["", "connections", "requests/s", "us CPU", "p50, us", "p99, us", "to the first"]
            print_table(case.title, head, compare(workers, case, rounds, seconds))


if __name__ == "__main__":
    main()
