"""Measures a burst, and a unit under constant load, with and without batches.

Eight requests come at once to an idle node with four threads. A unit that works on its rows one by
one gains nothing from batches. Its slow rows are separate calls: each leaves when it is done, and
every thread gets some of them. A `batched` unit pays for each call, however many rows it has: its
threads divide the waiting rows among them. If you want full batches, set ``batch_timeout_ms`` or
use one thread. The units only sleep. A small machine can therefore run all threads at once.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from measure import medians, print_table, session_rate

import modelflow

# Seconds of a row, or of a call of the batched unit.
WORK = 20e-3
BURST = 8


@modelflow.flowunit
def one_by_one(data: object) -> object:
    """Works on each row separately."""
    time.sleep(WORK)
    return data


@modelflow.flowunit(batched=True)
def batched(data: object) -> object:
    """Needs the same time for a batch as for a row."""
    time.sleep(WORK)
    return data


@modelflow.flowunit
def quick(data: object) -> object:
    """Returns its input; a call costs next to nothing."""
    return data


def flow_of(unit: object, **attributes: object) -> modelflow.Flow:
    """Returns a flow of one node."""
    name = unit.SPEC.name  # type: ignore[attr-defined]
    given = ", ".join(f'{key}="{value}"' for key, value in attributes.items())
    graph = (
        f"digraph {{ input [type=input] {name} [{given}] output [type=output] "
        f"input -> {name} -> output }}"
    )
    return modelflow.Flow(graph, units=[unit])


def burst(flow: modelflow.Flow, place: int) -> float:
    """Returns the seconds until the result at ``place`` of a burst has arrived."""
    stream = flow.create_stream_io()
    start = time.perf_counter()
    for number in range(BURST):
        stream.send("input", number)
    stream.close_input()
    came = [time.perf_counter() - start for _ in stream]
    assert len(came) == BURST
    return came[place]


def measured(
    kinds: Iterable[tuple[str, object, dict[str, object]]], rounds: int, count: int
) -> Iterator[list[object]]:
    """Yields a row of the table for each kind of unit and its attributes."""
    for name, unit, attributes in kinds:
        with flow_of(unit, **attributes) as flow:
            burst(flow, 0)  # the flow has measured the time of a row from here on
            programs: dict[str, Callable[[], float]] = {
                "first": partial(burst, flow, 0),
                "last": partial(burst, flow, -1),
                "rate": partial(session_rate, flow, 0, count),
            }
            found = medians(programs, rounds)
            before = flow.stats()[unit.SPEC.name]  # type: ignore[attr-defined]
        size = before.buffers / before.batches
        yield [name, found["first"] * 1e3, found["last"] * 1e3, found["rate"], size]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only show that it runs")
    quickly = parser.parse_args().quick
    kinds = [
        ("one by one, 1 thread", one_by_one, {"threads": 1}),
        ("one by one, 4 threads", one_by_one, {"threads": 4}),
        ("one by one, 4 threads, batch_size=1", one_by_one, {"threads": 4, "batch_size": 1}),
        ("batched, 1 thread", batched, {"threads": 1}),
        ("batched, 4 threads", batched, {"threads": 4}),
        (
            "batched, 4 threads, batch_timeout_ms=5",
            batched,
            {"threads": 4, "batch_timeout_ms": 5},
        ),
        ("quick, 4 threads", quick, {"threads": 4}),
        ("quick, 4 threads, batch_size=1", quick, {"threads": 4, "batch_size": 1}),
    ]
    print_table(
        f"a burst of {BURST}; a row, or a call of 'batched', takes {WORK * 1e3:.0f} ms",
        ["unit", "first ms", "last ms", "saturated rows/s", "rows a call"],
        list(measured(kinds, 1 if quickly else 5, 40 if quickly else 400)),
    )


if __name__ == "__main__":
    main()
