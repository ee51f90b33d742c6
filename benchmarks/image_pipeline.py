"""Decode, resize, mean as a graph (P3, P3b), against the same OpenCV calls in a thread pool.

The table also has other pipelines, where they are installed (pip install spdl-core tensorflow
torch). Processor time is the time of this process and of its children, in ticks of the system.

    python benchmarks/image_pipeline.py [--quick] [--rounds 7]
"""

import argparse
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import cv2
import numpy as np
from image_peers import installed
from machine import cpu_seconds, machine
from measure import print_table, session_rate
from sklearn.datasets import load_sample_image

import modelflow

MEAN = (123.68, 116.78, 103.94)
SIZES = ((400, 300), (640, 480), (1920, 1080))
CLIENTS = 8
GRAPH = """digraph preprocess {{
    input [type=input]
    decode [flowunit=image_decoder{decode}]
    resize [image_width=224, image_height=224]
    mean [mean="123.68,116.78,103.94"]
    output [type=output]
    input -> decode -> resize -> mean -> output
}}"""
SCALED = ", scaled_decode=true, min_width=224, min_height=224"


def photograph(width: int, height: int) -> bytes:
    """Returns a real photograph as a JPEG of that size."""
    photo = cv2.resize(load_sample_image("china.jpg")[:, :, ::-1], (width, height))
    return bytes(cv2.imencode(".jpg", photo, [cv2.IMWRITE_JPEG_QUALITY, 90])[1])


def plain(jpeg: bytes) -> np.ndarray:
    """Decodes, resizes and subtracts the mean with OpenCV, as the graph does."""
    image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    image = cv2.resize(image, (224, 224))
    return cv2.subtract(image, (*MEAN, 0), dtype=cv2.CV_32F)


def pool_rate(jpeg: bytes, count: int) -> float:
    """Returns images a second of a plain pool with a thread for each processor."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        start = time.perf_counter()
        for _ in pool.map(plain, [jpeg] * count):
            pass
        return count / (time.perf_counter() - start)


def pool_client_rate(jpeg: bytes, count: int) -> float:
    """Returns images a second of such a pool whose clients each wait for their answer."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return client_rate(lambda: pool.submit(plain, jpeg).result(), count)


def client_rate(ask: Callable[[], object], count: int, clients: int = CLIENTS) -> float:
    """Returns answers a second of client threads that each wait for their answer."""

    def use() -> None:
        for _ in range(count // clients):
            ask()

    threads = [threading.Thread(target=use) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count // clients * clients / (time.perf_counter() - start)


def programs_of(
    flow: modelflow.Flow, scaled: modelflow.Flow, jpeg: bytes, count: int
) -> dict[str, tuple[str, Callable[[], float]]]:
    """Returns the programs to measure: name -> the base of its ratio, and its rate function."""
    stream, ask = "pool, one stream", "pool, clients"
    peers = {
        name: (stream, partial(rate, plain, jpeg, count)) for name, rate in installed().items()
    }
    return {
        stream: (stream, partial(pool_rate, jpeg, count)),
        "one session": (stream, partial(session_rate, flow, jpeg, count)),
        "one session, scaled": (stream, partial(session_rate, scaled, jpeg, count)),
        **peers,
        ask: (ask, partial(pool_client_rate, jpeg, count)),
        "a session an image": (ask, partial(client_rate, partial(flow.infer, jpeg), count)),
    }


def measured(
    programs: Mapping[str, tuple[str, Callable[[], float]]], count: int, rounds: int
) -> list[tuple[str, float, str, float, str]]:
    """Runs the programs round by round; returns rates and microseconds an image, with ratios."""
    rates: dict[str, list[float]] = {name: [] for name in programs}
    costs: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(rounds + 1):
        for name, (_, program) in programs.items():
            before = cpu_seconds(os.getpid())
            rate = program()
            if turn or not rounds:  # the first warms up
                rates[name].append(rate)
                costs[name].append((cpu_seconds(os.getpid()) - before) * 1e6 / count)
    return [
        (
            name,
            statistics.median(rates[name]),
            _ratio(rates[name], rates[base]),
            statistics.median(costs[name]),
            _ratio(costs[name], costs[base]),
        )
        for name, (base, _) in programs.items()
    ]


def _ratio(values: Sequence[float], others: Sequence[float]) -> str:
    ratios = sorted(value / (other or 1.0) for value, other in zip(values, others, strict=True))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few images of one size")
    parser.add_argument("--rounds", type=int, default=7, help="how often each is measured")
    given = parser.parse_args()
    cv2.setNumThreads(1)  # for both programs: only the pool and the nodes have threads
    rows = []
    with machine() as ran_on:
        for width, height in SIZES[:1] if given.quick else SIZES:
            jpeg = photograph(width, height)
            count = 16 if given.quick else max(160, 100_000_000 // (width * height))
            with (
                modelflow.Flow(GRAPH.format(decode="")) as flow,
                modelflow.Flow(GRAPH.format(decode=SCALED)) as scaled,
            ):
                assert np.array_equal(flow.infer(jpeg).data, plain(jpeg)), "not the same pixels"
                programs = programs_of(flow, scaled, jpeg, count)
                found = measured(programs, count, 0 if given.quick else given.rounds)
            rows += [(f"{width}x{height}", *row) for row in found]
    print_table(
        "JPEG -> decode -> resize 224 -> mean; ratios to the pool (least to most); "
        f"'clients', 'a session an image': {CLIENTS} threads that each wait for their image",
        ("image", "what", "img/s", "/pool", "us CPU", "/pool"),
        rows,
    )
    print(ran_on)


if __name__ == "__main__":
    main()
