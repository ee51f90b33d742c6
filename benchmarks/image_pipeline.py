"""Decode, resize, mean as a graph (P3, P3b), against the same OpenCV calls in a thread pool.

python benchmarks/image_pipeline.py [--quick]
"""

import argparse
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import cv2
import numpy as np
from measure import medians, print_table, session_rate
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
    """Does with OpenCV what the graph does."""
    image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    image = cv2.resize(image, (224, 224))
    return cv2.subtract(image, (*MEAN, 0), dtype=cv2.CV_32F)


def pool_rate(jpeg: bytes, count: int) -> float:
    """Returns images a second of a plain pool with a thread a processor."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        start = time.perf_counter()
        for _ in pool.map(plain, [jpeg] * count):
            pass
        return count / (time.perf_counter() - start)


def pool_client_rate(jpeg: bytes, count: int) -> float:
    """Returns images a second of that pool, used by client threads that wait for each answer."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return client_rate(lambda: pool.submit(plain, jpeg).result(), count)


def client_rate(ask: Callable[[], object], count: int) -> float:
    """Returns answers a second to client threads that each wait for theirs."""

    def use() -> None:
        for _ in range(count // CLIENTS):
            ask()

    threads = [threading.Thread(target=use) for _ in range(CLIENTS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count // CLIENTS * CLIENTS / (time.perf_counter() - start)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few images: to see that it runs")
    quick = parser.parse_args().quick
    cv2.setNumThreads(1)  # for both sides: the threads are those of the pool and of the nodes
    rows = []
    for width, height in SIZES:
        jpeg = photograph(width, height)
        count = 16 if quick else max(80, 60_000_000 // (width * height) * 4)
        with (
            modelflow.Flow(GRAPH.format(decode="")) as flow,
            modelflow.Flow(GRAPH.format(decode=SCALED)) as scaled,
        ):
            assert np.array_equal(flow.infer(jpeg).data, plain(jpeg)), "not the same pixels"
            found = medians(
                {
                    "pool": partial(pool_rate, jpeg, count),
                    "session": partial(session_rate, flow, jpeg, count),
                    "pool clients": partial(pool_client_rate, jpeg, count),
                    "clients": partial(client_rate, partial(flow.infer, jpeg), count),
                    "scaled": partial(session_rate, scaled, jpeg, count),
                },
                1 if quick else 5,
            )
        rows.append(
            (
                f"{width}x{height}, {len(jpeg) // 1024} KiB",
                found["pool"],
                found["session"],
                found["session"] / found["pool"],
                found["clients"],
                found["clients"] / found["pool clients"],
                found["clients"] / found["pool"],
                found["scaled"] / found["pool"],
            )
        )
    print_table(
        f"img/s on {len(os.sched_getaffinity(0))} processors: JPEG -> decode -> resize 224 -> "
        f"mean; 'clients': a session an image, {CLIENTS} threads",
        ("image", "pool", "session", "/pool", "clients", "/pool clients", "/pool", "scaled/pool"),
        rows,
    )


if __name__ == "__main__":
    main()
