"""Measures a model's latency next to a noisy neighbour, with and without ``cpu_affinity``.

python benchmarks/affinity.py [--quick]

The neighbour is another flow of the same process. It decodes and resizes big photographs with four
threads a node. With ``cpu_affinity`` it has one half of the processors, and the model the other.
"""

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from image_pipeline import photograph
from measure import print_table
from resnet import write_resnet

import modelflow

SIDE = 64
NEIGHBOUR = """digraph neighbour {{
    input [type=input]
    decode [flowunit=image_decoder, threads=4{pinned}]
    resize [image_width=224, image_height=224, threads=4{pinned}]
    output [type=output]
    input -> decode -> resize -> output
}}"""


class Neighbour:
    """A flow that always has work."""

    def __init__(self, graph: str, jpeg: bytes) -> None:
        """Starts the flow, and the thread that sends photographs to the flow."""
        self.images = 0
        self._flow = modelflow.Flow(graph).start()
        self._stream = self._flow.create_stream_io()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._send, args=(jpeg,)),
            threading.Thread(target=self._count),
        ]
        for thread in self._threads:
            thread.start()

    def _send(self, jpeg: bytes) -> None:
        while not self._stop.is_set():
            self._stream.send("input", jpeg)
        self._stream.close_input()

    def _count(self) -> None:
        for _ in self._stream:
            self.images += 1

    def stop(self) -> None:
        """Stops the threads and the flow."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._flow.stop()


def latencies(model: modelflow.Model, item: np.ndarray, seconds: float) -> list[float]:
    """Returns the milliseconds that each of consecutive requests took."""
    found = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        model.infer([item])
        found.append((time.perf_counter() - start) * 1e3)
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    rounds, seconds = (1, 0.5) if given.quick else (given.rounds, given.seconds)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("one processor: nothing to divide")
        return
    half = len(cores) // 2
    theirs, ours = (",".join(map(str, part)) for part in (cores[:half], cores[half:]))
    jpeg = photograph(640 if given.quick else 1920, 480 if given.quick else 1080)
    item = np.random.default_rng(0).random((3, SIDE, SIDE), np.float32)
    settings = {
        "no neighbour": (None, ""),
        "beside it": (NEIGHBOUR.format(pinned=""), ""),
        "beside it, pinned": (NEIGHBOUR.format(pinned=f', cpu_affinity="{theirs}"'), ours),
    }
    found: dict[str, list[float]] = {name: [] for name in settings}
    images = dict.fromkeys(settings, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = write_resnet("onnx", 26, Path(folder), side=SIDE)
        for _ in range(rounds):
            for name, (graph, pinned) in settings.items():
                options = {"cpu_affinity": pinned} if pinned else {}
                neighbour = Neighbour(graph, jpeg) if graph else None
                with modelflow.Model(path, batch_size=1, intra_op_threads=1, **options) as model:
                    latencies(model, item, seconds / 5)
                    before = neighbour.images if neighbour else 0
                    found[name] += latencies(model, item, seconds)
                    images[name] += neighbour.images - before if neighbour else 0
                if neighbour:
                    neighbour.stop()
    rows = []
    for name, times in found.items():
        p50, p99 = (float(np.percentile(times, p)) for p in (50, 99))
        rate = images[name] / rounds / seconds
        rows.append([name, p50, p99, max(times), len(times), rate])
    print_table(
        f"one request after another, {len(cores)} processors: {ours} of the model's",
        ["", "p50, ms", "p99, ms", "longest, ms", "requests", "neighbour, img/s"],
        rows,
    )
    print(f"\ncpu_affinity: the p99 beside the neighbour is {rows[1][2] / rows[2][2]:.1f}x less")


if __name__ == "__main__":
    main()
