"""Compares a pipeline with and without `[graph] fuse="auto"`, in alternating rounds.

Rounds are short and many. Each is compared with the round next to it. The table has the median of
these ratios, with its quartiles. Processor time is the time of the whole process, with its clients.
The calls of Python functions are counted for the whole process, too. They do not depend on load.

    python benchmarks/chains.py [--quick] [--rounds 60]
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import cv2
from counting import Calls, cost
from image_pipeline import CLIENTS, GRAPH, client_rate, photograph
from measure import print_table, session_rate

import modelflow

SIZES = ((400, 300), (640, 480))
IMAGES = GRAPH.format(decode="")


@modelflow.flowunit(is_compute_bound=True)
def same(value: object) -> object:
    """Returns its input."""
    return value


@modelflow.flowunit
def waiting(value: object) -> object:
    """Waits for a millisecond, as a unit does that calls another server."""
    time.sleep(0.001)
    return value


UNITS = (same, waiting)


def chain_of(unit: str) -> str:
    """Returns input -> unit -> unit -> unit -> output."""
    nodes = " ".join(f"n{n} [flowunit={unit}]" for n in range(3))
    ends = "input [type=input] output [type=output]"
    return f"digraph {{ {ends} {nodes} input -> n0 -> n1 -> n2 -> output }}"


def forms(flow: modelflow.Flow, value: object, count: int) -> dict[str, Callable[[], float]]:
    """Returns the ways to use a flow, each as a function that returns items a second."""
    ask = partial(flow.infer, value)
    return {
        "one session": partial(session_rate, flow, value, count),
        f"a session an item, {CLIENTS} clients": partial(client_rate, ask, count),
    }


def compared(text: str, value: object, count: int, rounds: int) -> list[tuple[object, ...]]:
    """Runs a graph with and without fusing, and returns a row for each way to use the flow."""
    apart = text.replace("{", "{ fuse=off ", 1)
    with modelflow.Flow(apart, units=UNITS) as off, modelflow.Flow(text, units=UNITS) as auto:
        assert len(auto.scheduler.plan.stages) == (3 if "waiting" in text else 1)
        assert len(off.scheduler.plan.stages) == len(auto.scheduler.plan.nodes)
        both, other = forms(off, value, count), forms(auto, value, count)
        rows = []
        for form in both:
            of_off, of_auto = (calls(graph, form, value, min(count, 40)) for graph in (apart, text))
            figures = _timed(both[form], other[form], count, rounds)
            rows.append((form, *figures, of_off, of_auto / of_off))
        return rows


def calls(text: str, form: str, value: object, count: int) -> float:
    """Returns the calls of Python functions for an item, measured with ``count`` items."""

    def run(items: int) -> None:
        with modelflow.Flow(text, units=UNITS) as flow:
            forms(flow, value, items)[form]()

    return cost(run, count, Calls)


def _timed(
    off: Callable[[], float], auto: Callable[[], float], count: int, rounds: int
) -> tuple[object, ...]:
    found = []
    for turn in range(rounds + 1):  # the first warms up
        both = {}
        for program in (off, auto) if turn % 2 else (auto, off):
            start = time.process_time()
            rate = program()
            both[program] = rate, (time.process_time() - start) / count
        found.append((*both[off], *both[auto]))
    of_off_rate, of_off_cpu, of_auto_rate, of_auto_cpu = zip(*found[1:], strict=True)
    return (
        statistics.median(of_off_rate),
        _spread(of_auto_rate, of_off_rate),
        statistics.median(of_off_cpu) * 1e6,
        _spread(of_auto_cpu, of_off_cpu),
    )


def _spread(values: Sequence[float], others: Sequence[float]) -> str:
    ratios = [value / other for value, other in zip(values, others, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few items: to see that it runs")
    parser.add_argument("--rounds", type=int, default=60, help="pairs of rounds for each row")
    given = parser.parse_args()
    cv2.setNumThreads(1)
    rounds = 1 if given.quick else given.rounds
    programs = [
        (f"{width}x{height}", IMAGES, photograph(width, height), 20_000_000 // (width * height))
        for width, height in (SIZES[:1] if given.quick else SIZES)
    ]
    programs += [
        ("3 nodes that do nothing", chain_of("same"), b"", 2000),
        ("3 nodes that wait 1 ms", chain_of("waiting"), b"", 400),
    ]
    rows = []
    for name, text, value, count in programs:
        for form, *figures in compared(text, value, 16 if given.quick else count, rounds):
            rows.append((f"{name}, {form}", *figures))
    print_table(
        f"fuse=auto against off, {len(os.sched_getaffinity(0))} processors, {rounds} pairs: median "
        "(quartiles) of the ratios",
        ("what", "off: 1/s", "auto/off", "off: us CPU", "auto/off", "off: calls", "auto/off"),
        rows,
    )


if __name__ == "__main__":
    main()
