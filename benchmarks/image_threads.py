"""The CPU image chain at 1, 4, 8, 16 threads: how far one interpreter uses many processors.

python benchmarks/image_threads.py [--threads 1,4,8,16] [--seconds 40] [--quick]

JPEG 640x480 -> decode -> resize 224 -> mean in one session. The graph runs with N threads a node
and with N processes a node. A pool of N threads makes the same OpenCV calls.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import cv2
import numpy as np
from by_hand import MEAN, decoded
from gpu_pipeline import graph_rate
from jpegs import make_jpeg
from machine import cpu_seconds
from measure import Table, take_turns

import modelflow

GRAPH = """digraph preprocess {{
    input [type=input]
    decode [flowunit=image_decoder, threads={threads}, workers={workers}]
    resize [image_width=224, image_height=224, threads={threads}, workers={workers}]
    mean [mean="123.68,116.78,103.94", threads={threads}, workers={workers}]
    output [type=output]
    input -> decode -> resize -> mean -> output
}}"""
COLUMNS = ["", "img/s", "of the pool", "processors busy", "us of CPU an image"]


def pool_rate(jpegs: list[bytes], threads: int, seconds: float) -> float:
    """Returns images a second of the OpenCV calls in a pool."""
    until = time.perf_counter() + seconds

    def work(first: int) -> int:
        count = 0
        while time.perf_counter() < until:
            image = decoded(jpegs[(first + count) % len(jpegs)])
            np.subtract(image, np.float32(MEAN), dtype=np.float32)
            count += 1
        return count

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads))) / (time.perf_counter() - start)


def measure(rate: Callable[[float], float], seconds: float) -> tuple[float, float]:
    """Returns a rate, and the number of processors that were busy meanwhile."""
    before, start = cpu_seconds(os.getpid()), time.perf_counter()
    found = rate(seconds)
    used = cpu_seconds(os.getpid()) - before
    return found, used / (time.perf_counter() - start)


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,4,8,16")
    parser.add_argument("--rounds", type=int, default=3, help="at the most")
    parser.add_argument("--seconds", type=float, default=40.0, help="of everything")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    parser.add_argument("--json", action="store_true", help="the table as lines of JSON")
    given = parser.parse_args()
    cv2.setNumThreads(1)  # the pool and the nodes have the threads
    if given.quick:
        given.threads, given.seconds, given.rounds = "1", 2.0, 1
    sys.exit(measure_all(given))


def measure_all(given: argparse.Namespace) -> int:
    """Measures each number of threads in its share of the time; returns 1 if one failed."""
    counts = [int(count) for count in given.threads.split(",")]
    jpegs = [make_jpeg(640, 480, seed) for seed in range(8)]
    slot = given.seconds * 0.7 / len(counts) / given.rounds / 3
    title = f"JPEG 640x480 -> decode, resize, mean, {len(os.sched_getaffinity(0))} processors"
    table, began = Table(title, COLUMNS, as_json=given.json), time.perf_counter()
    for number, threads in enumerate(counts, 1):
        until = began + given.seconds * number / len(counts)
        with table.attempt(f"{threads} threads"):
            for row in measure_threads(threads, jpegs, slot, given.rounds, until):
                table.add(*row)
    table.close()
    return int(table.has_failed)


def measure_threads(
    threads: int, jpegs: list[bytes], slot: float, rounds: int, until: float
) -> list[list[object]]:
    """Measures pool, graph and processes: one round, and further ones before ``until``."""
    with (
        modelflow.Flow(GRAPH.format(threads=threads, workers="thread")) as flow,
        modelflow.Flow(GRAPH.format(threads=threads, workers="process")) as apart,
    ):
        programs = {
            f"{threads} threads, pool": partial(pool_rate, jpegs, threads),
            f"{threads} threads, graph": partial(graph_rate, flow, jpegs),
            f"{threads} processes a node, graph": partial(graph_rate, apart, jpegs),
        }
        observed = {name: partial(measure, program, slot) for name, program in programs.items()}
        found = take_turns(observed, rounds, until)
    rates = {name: statistics.median(rate for rate, _ in seen) for name, seen in found.items()}
    used = {name: statistics.median(use for _, use in seen) for name, seen in found.items()}
    (pool, *_) = rates.values()
    return [
        [name, rate, rate / pool, used[name], 1e6 * used[name] / rate]
        for name, rate in rates.items()
    ]


if __name__ == "__main__":
    main()
