"""Growth (P6): open sessions, length of the chain, memory under a reader that does not read.

python benchmarks/sessions.py [--quick]
"""

import argparse
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
from measure import medians, print_table
from overhead import chain, streamed

import modelflow

PICTURE = np.zeros((240, 320, 3), np.uint8)


def work() -> modelflow.Flow:
    """Returns a flow whose nodes have something to do."""
    return modelflow.Flow(
        "digraph { queue_size=64 input [type=input] resize [width=64, height=48] mean "
        "output [type=output] input -> resize -> mean -> output }"
    )


def open_rate(flow: modelflow.Flow, sessions: int, count: int, value: object) -> float:
    """Returns buffers a second through ``sessions`` open sessions, sent round-robin."""
    streams = [flow.create_stream_io() for _ in range(sessions)]
    each = max(1, count // sessions)

    def send() -> None:
        for _ in range(each):
            for stream in streams:
                stream.send("input", value)
        for stream in streams:
            stream.close_input()

    sender = threading.Thread(target=send)
    start = time.perf_counter()
    sender.start()
    for _ in range(each):
        for stream in streams:
            stream.recv()
    seconds = time.perf_counter() - start
    sender.join()
    return each * sessions / seconds


def resident() -> float:
    """Returns this process's resident memory in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def growth(count: int) -> tuple[int, float]:
    """Sends ``count`` MiB to a unit that stands still; returns how many went in, and growth."""
    gate = threading.Event()

    @modelflow.flowunit
    def blocked(value: bytes) -> int:
        gate.wait()
        return len(value)

    text = "digraph { queue_size=2 batch_size=1 input [type=input] blocked [threads=1] "
    text += "output [type=output] input -> blocked -> output }"
    with modelflow.Flow(text, units=[blocked]) as flow:
        before, sent = resident(), 0
        stream = flow.create_stream_io()
        try:
            for _ in range(count):
                stream.send("input", b"\1" * (1 << 20), timeout=0.2)
                sent += 1
        except TimeoutError:
            pass
        grown = resident() - before
        gate.set()
    return sent, grown


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small counts: to see that it runs")
    quick = parser.parse_args().quick
    count, rounds = (1000, 1) if quick else (20_000, 5)
    numbers = (1, 10, 100, 1000)
    with chain("forward", 4, 8) as flow, work() as working:
        for title, used, value in (
            ("4 nodes that do nothing, batch 8", flow, 0),
            ("2 nodes that resize a picture to 64x48 and subtract a mean", working, PICTURE),
        ):
            rates = medians(
                {str(n): partial(open_rate, used, n, count, value) for n in numbers}, rounds
            )
            print_table(
                f"open sessions, {title}",
                ("sessions", "buffers/s", "/1 session"),
                [(n, rates[str(n)], rates[str(n)] / rates["1"]) for n in numbers],
            )
    rows = []
    for hops in (2, 4, 8) if quick else (2, 4, 8, 16, 32):
        with chain("forward", hops, 8) as flow:
            cost = medians({"cost": partial(streamed, flow, count)}, rounds)["cost"]
        rows.append((hops, cost, cost / hops))
    print_table("length of the chain, batch 8", ("nodes", "us an item", "us an item a node"), rows)
    sent, grown = growth(50 if quick else 1500)
    print_table(
        "1 MiB buffers to a unit that does not go on, queue_size 2",
        ("offered", "taken in", "growth, MiB"),
        [(50 if quick else 1500, sent, grown)],
    )


if __name__ == "__main__":
    main()
