"""Measures the cost of figures in processor time: counters, a recording, a scrape, the page.

python benchmarks/seeing_cost.py [--quick]

The flow has four nodes that do nothing, or that compute for 50 us. A figure compares runs with and
without the cost by the processor time of the whole process. The runs alternate (A B B A). The table
has the median of the ratios of the pairs.
"""

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from machine import machine
from measure import print_table
from overhead import HOPS, UNITS, chain

import modelflow
from modelflow.profile.metrics import FlowCollector, metrics_page
from modelflow.profile.snapshot import Snapshot
from modelflow.runtime.stats import WorkerStats
from modelflow.studio.moments import Moments

_WORK = 50e-6
Setting = Callable[[modelflow.Flow], contextlib.AbstractContextManager[object]]


@modelflow.flowunit
def compute(value: object) -> object:
    """Returns its input after 50 us of computing."""
    until = time.perf_counter() + _WORK
    while time.perf_counter() < until:
        pass
    return value


UNITS.append(compute)


def streamed(flow: modelflow.Flow, count: int) -> float:
    """Returns the processor seconds of a stream of single items."""
    began = time.process_time()
    for _ in flow.map(range(count)):
        pass
    return time.process_time() - began


def asked(flow: modelflow.Flow, count: int) -> float:
    """Returns the processor seconds of requests that follow each other."""
    began = time.process_time()
    for number in range(count):
        flow.infer(number)
    return time.process_time() - began


def plain(_: modelflow.Flow) -> contextlib.AbstractContextManager[object]:
    """Changes nothing."""
    return contextlib.nullcontext()


@contextlib.contextmanager
def recorded(flow: modelflow.Flow, **options: int) -> Iterator[None]:
    """Records the flow into a file."""
    with tempfile.TemporaryDirectory() as folder:
        recording = flow.record(Path(folder) / "trace.json", **options).start()
        try:
            yield
        finally:
            recording.stop()


def all_recorded(flow: modelflow.Flow) -> contextlib.AbstractContextManager[object]:
    """Records every call and every request."""
    return recorded(flow, every=1, requests=1)


def uncounted(_: modelflow.Flow) -> contextlib.AbstractContextManager[object]:
    """Leaves the counters of calls out."""
    return mock.patch.object(WorkerStats, "count", _skip)


def _skip(*_: object) -> None:
    """Counts nothing."""


def ratio(
    flow: modelflow.Flow,
    load: Callable[[modelflow.Flow, int], float],
    count: int,
    settings: tuple[Setting, Setting],
    pairs: int,
) -> float:
    """Returns the median of the ratios of two settings."""
    found = []
    for place in range(pairs):
        times = {}
        for setting in settings if place % 2 else settings[::-1]:
            with setting(flow):
                times[setting] = load(flow, count)
        found.append(times[settings[1]] / times[settings[0]])
    return statistics.median(found)


def cost_table(count: int, pairs: int) -> None:
    """Prints the cost of counters and recordings."""
    rows = []
    cases = [("forward", 1), ("forward", 8), ("compute", 1)]
    for unit, batch_size in cases:
        for name, load in (("stream", streamed), ("requests", asked)):
            items = count // (8 if unit == "compute" else 1) // (4 if load is asked else 1)
            with chain(unit, HOPS, batch_size) as flow:
                load(flow, max(1, items // 4))
                rows.append(
                    (
                        f"{unit}, batch {batch_size}, {name}",
                        ratio(flow, load, items, (uncounted, plain), pairs),
                        ratio(flow, load, items, (plain, recorded), pairs),
                        ratio(flow, load, items, (plain, all_recorded), pairs),
                    )
                )
    print_table(
        f"processor time with / without, {HOPS} nodes",
        ("load", "counters", "recording", "every call and request"),
        rows,
    )


def look_table(rounds: int) -> None:
    """Prints the processor time of a scrape and of a snapshot for the page, with 30 nodes."""
    with chain("forward", 30, 1) as flow:
        streamed(flow, 100)
        write, moments = metrics_page(FlowCollector(lambda: [flow.stats()])), Moments()
        looks: dict[str, Callable[[], object]] = {
            "a scrape of /metrics": lambda: write(""),
            "a snapshot for the page (2 a second)": lambda: moments.add(Snapshot.of_flow(flow)),
        }
        rows = []
        for name, look in looks.items():
            times = []
            for _ in range(rounds):
                began = time.process_time()
                look()
                times.append((time.process_time() - began) * 1e3)
            rows.append((name, statistics.median(times)))
    print_table("processor time, 30 nodes", ("look", "ms"), rows)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small counts: to see that it runs")
    is_quick = parser.parse_args().quick
    with machine() as ran_on:
        cost_table(80 if is_quick else 6000, 1 if is_quick else 11)
        look_table(2 if is_quick else 30)
    print(ran_on)


if __name__ == "__main__":
    main()
