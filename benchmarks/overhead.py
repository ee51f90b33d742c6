"""Measures the cost of the runtime (P4): chains of units that do nothing, against bare queues.

python benchmarks/overhead.py [--quick]

The unit is a class (forward), a function (identity), or a batched function (identities). The
figures are microseconds an item a hop. "bare" is `queue.Queue(64)` with single items, and "bare
lists" the same with lists of 8, or of the batch size if that is larger. "whole" is a stream through
4 nodes, one `send` and one `recv` an item included: "whole/bare" has the goal. "slope" is the
difference between chains of 6 and 2 nodes, and so without `send` and `recv`.
"""

import argparse
import itertools
import queue
import statistics
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from measure import medians, print_table

import modelflow

if TYPE_CHECKING:
    from collections.abc import Callable

HOPS = 4


class Forward(modelflow.FlowUnit):
    """A unit that forwards its input, a list at a time."""

    SPEC = modelflow.FlowUnitSpec(
        "forward",
        {"cpu": lambda: Forward()},  # noqa: PLW0108 - the name is not bound yet
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
    )

    def process(self, ctx: modelflow.Context) -> None:
        """Forwards the batch."""
        ctx.outputs["out"] = ctx.inputs["in"]


@modelflow.flowunit
def identity(value: object) -> object:
    """Returns its input, an item at a time."""
    return value


@modelflow.flowunit(batched=True)
def identities(values: list[object]) -> list[object]:
    """Returns its inputs, a list at a time."""
    return values


UNITS = [Forward, identity, identities]


def chain(unit: str, hops: int, batch_size: int) -> modelflow.Flow:
    """Returns a flow: input, ``hops`` nodes of one thread each, output."""
    names = [f"n{i}" for i in range(hops)]
    nodes = "".join(f"{n} [flowunit={unit}, threads=1, batch_size={batch_size}] " for n in names)
    edges = " -> ".join(["input", *names, "output"])
    text = f"digraph {{ queue_size=64 input [type=input] output [type=output] {nodes} {edges} }}"
    return modelflow.Flow(text, units=UNITS)


def bare(count: int, list_size: int, hops: int = HOPS) -> float:
    """Returns the microseconds an item a hop of threads joined by ``queue.Queue(64)``."""
    queues: list[queue.Queue[list[int] | None]] = [queue.Queue(64) for _ in range(hops + 1)]

    def work(
        source: "queue.Queue[list[int] | None]", target: "queue.Queue[list[int] | None]"
    ) -> None:
        while (items := source.get()) is not None:
            target.put(items)
        target.put(None)

    def send() -> None:
        for first in range(0, count, list_size):
            queues[0].put(list(range(first, first + list_size)))
        queues[0].put(None)

    threads = [threading.Thread(target=work, args=pair) for pair in itertools.pairwise(queues)]
    threads.append(threading.Thread(target=send))
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    received = 0
    while (items := queues[-1].get()) is not None:
        received += len(items)
    seconds = time.perf_counter() - start
    for thread in threads:
        thread.join()
    assert received >= count
    return seconds / count / hops * 1e6


def streamed(flow: modelflow.Flow, count: int) -> float:
    """Returns the microseconds an item of a session that sends and receives single items."""
    stream = flow.create_stream_io()

    def send() -> None:
        for i in range(count):
            stream.send("input", i)
        stream.close_input()

    sender = threading.Thread(target=send)
    start = time.perf_counter()
    sender.start()
    received = [buffer.data for buffer in stream]
    seconds = time.perf_counter() - start
    sender.join()
    assert received == list(range(count))
    return seconds / count * 1e6


def hop_table(count: int, rounds: int) -> None:
    """Prints the cost of an item a hop, and its slope between short and long chains."""
    rows = []
    for unit, batch_size in itertools.product(("forward", "identity", "identities"), (1, 8, 16)):
        flows = {hops: chain(unit, hops, batch_size).start() for hops in (2, HOPS, 6)}
        programs: dict[str, Callable[[], float]] = {
            "bare": partial(bare, count, 1),
            "bare lists": partial(bare, count, max(8, batch_size)),
            **{str(hops): partial(streamed, flow, count) for hops, flow in flows.items()},
        }
        found = medians(programs, rounds)
        for flow in flows.values():
            flow.stop()
        whole, slope = found[str(HOPS)] / HOPS, (found["6"] - found["2"]) / 4
        rows.append(
            (
                f"{unit}, batch {batch_size}",
                found["bare"],
                found["bare lists"],
                whole,
                whole / found["bare"],
                slope,
                slope / found["bare"],
            )
        )
    print_table(
        f"us an item a hop, {HOPS} nodes; 'whole' includes send and recv, 'slope' does not",
        ("unit", "bare", "bare lists", "whole", "whole/bare", "slope", "slope/bare"),
        rows,
    )


def latency_table(count: int, rounds: int) -> None:
    """Prints the time of one request, and requests a second, through the chain."""
    rows = []
    for unit in ("forward", "identity"):
        with chain(unit, HOPS, 8) as flow:
            flow.infer(0)
            times = []
            for _ in range(rounds):
                for i in range(count // 10):
                    start = time.perf_counter()
                    flow.infer(i)
                    times.append((time.perf_counter() - start) * 1e6)
            times.sort()
            rows.append((f"Flow.infer, us, median, {unit}", statistics.median(times)))
            rows.append((f"Flow.infer, us, p99, {unit}", times[int(len(times) * 0.99)]))
            for clients in (1, 4):
                rates = [sessions(flow, clients, count // 4) for _ in range(rounds)]
                what = f"sessions/s, {clients} client threads, {unit}"
                rows.append((what, statistics.median(rates)))
    rows.append(("a bare hop, us", statistics.median(bare(count, 1) for _ in range(rounds))))
    print_table(f"one buffer through {HOPS} nodes", ("what", "figure"), rows)


def sessions(flow: modelflow.Flow, clients: int, count: int) -> float:
    """Returns how many sessions a second open, send, close and receive."""

    def use() -> None:
        for i in range(count // clients):
            stream = flow.create_stream_io()
            stream.send("input", i)
            stream.close_input()
            assert stream.recv().data == i

    threads = [threading.Thread(target=use) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count // clients * clients / (time.perf_counter() - start)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small counts: to see that it runs")
    quick = parser.parse_args().quick
    hop_table(400 if quick else 20_000, 1 if quick else 5)
    latency_table(400 if quick else 10_000, 1 if quick else 3)


if __name__ == "__main__":
    main()
