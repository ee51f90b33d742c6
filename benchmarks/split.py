"""Measures latencies of small requests next to a request of 700 items, with and without splitting.

python benchmarks/split.py [--engine torch] [--quick]

Four clients send one item at a time, again and again. Another client sends 700 items at a time,
again and again. The node runs with and without ``split_size``.
"""

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from measure import print_table
from resnet import write_resnet

import modelflow

CLIENTS = 4
BATCH = 16
SIDE = 64


def latencies(
    model: modelflow.Model, many: list[np.ndarray], seconds: float
) -> tuple[list[float], list[float]]:
    """Returns the seconds that small and big requests took."""
    small: list[float] = []
    big: list[float] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            start = time.perf_counter()
            model.infer([many[0]])
            small.append(time.perf_counter() - start)

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not big:
        start = time.perf_counter()
        model.infer_batch([many])
        big.append(time.perf_counter() - start)
    stop.set()
    for thread in threads:
        thread.join()
    return small, big


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=["onnx", "torch"], default="torch")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--items", type=int, default=700, help="of the big request")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    items, rounds, seconds = (
        (60, 1, 0.2) if given.quick else (given.items, given.rounds, given.seconds)
    )
    many = list(np.random.default_rng(0).random((items, 3, SIDE, SIDE), np.float32))
    found: dict[str, tuple[list[float], list[float]]] = {
        name: ([], []) for name in ("as they come", "split_size=8", "split_size=2")
    }
    with tempfile.TemporaryDirectory() as folder:
        path = write_resnet(given.engine, 26, Path(folder), side=SIDE)
        for _ in range(rounds):
            for name, times in found.items():
                split = int(name.partition("=")[2] or 0)
                with modelflow.Model(
                    path, batch_size=BATCH, device=given.device, split_size=split
                ) as model:
                    fresh = latencies(model, many, seconds)
                for known, new in zip(times, fresh, strict=True):
                    known.extend(new)
    rows = []
    for name, (small, big) in found.items():
        p50, p99 = (float(np.percentile(small, p)) * 1e3 for p in (50, 99))
        rows.append([name, p50, p99, len(small), statistics.median(big) * 1e3])
    print_table(
        f"{CLIENTS} clients with one item beside one with {items}, batches of up to {BATCH}",
        ["", "small p50, ms", "small p99, ms", "small, count", f"{items} items, ms"],
        rows,
    )
    print(f"\nsplit_size=8: the p99 of small requests is {rows[0][2] / rows[1][2]:.1f}x less")


if __name__ == "__main__":
    main()
