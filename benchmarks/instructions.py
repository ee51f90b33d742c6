"""What the runtime costs in instructions: the same on a quiet machine and on a busy one.

Each row runs a graph of nodes that do nothing, for two numbers of items; the slope between the two
is the cost of an item. Where the system does not count instructions (most virtual machines) it is
processor time, which wants many rounds. To compare two versions, give the folder of the other one:
both are run in turn, and the ratio of their medians is printed.

    python benchmarks/instructions.py
    python benchmarks/instructions.py --against ../other --rounds 9
"""

import argparse
import ctypes
import json
import os
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from fcntl import ioctl

import modelflow

_PERF_EVENT_OPEN = 298  # x86-64
_RESET, _ENABLE, _DISABLE = 0x2403, 0x2400, 0x2401
# disabled | inherit | exclude_kernel | exclude_hv
_FLAGS = (1 << 0) | (1 << 1) | (1 << 5) | (1 << 6)


class Instructions:
    """Counts the user instructions of this process, its threads of later birth included."""

    def __init__(self) -> None:
        """Opens the counter.

        Raises:
            OSError: the system has none, or does not allow it.
        """
        attributes = struct.pack("<IIQQQQQ", 0, 120, 1, 0, 0, 0, _FLAGS).ljust(120, b"\0")
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.syscall(_PERF_EVENT_OPEN, attributes, 0, -1, -1, 0)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        ioctl(self._fd, _RESET)
        ioctl(self._fd, _ENABLE)

    def read(self) -> int:
        """Returns the count so far."""
        (count,) = struct.unpack("<Q", os.read(self._fd, 8))
        return int(count)


class Same(modelflow.FlowUnit):
    """Gives what it gets."""

    def process(self, ctx: modelflow.Context) -> None:
        """Gives what it gets."""
        ctx.outputs["out"] = ctx.inputs["in"]


SAME = modelflow.FlowUnitSpec(
    name="same",
    devices={"cpu": Same},
    inputs=(modelflow.Port("in"),),
    outputs=(modelflow.Port("out"),),
)


def graph(nodes: int, attributes: str, tail: str = "") -> str:
    """Returns input -> same -> ... -> output, with ``tail`` for more edges."""
    names = [f"n{i}" for i in range(nodes)]
    declared = " ".join(f"{name} [flowunit=same {attributes}]" for name in names)
    chain = " -> ".join(["input", *names, "output"])
    return f"digraph {{ input [type=input] output [type=output] {declared} {chain} {tail} }}"


def streamed(attributes: str, sessions: int = 1, tail: str = "") -> Callable[[int], None]:
    """Items through four nodes, sent while they are received, over open sessions in turn."""

    def run(items: int) -> None:
        with modelflow.Flow(graph(4, attributes, tail), units=[SAME]) as flow:
            streams = [flow.create_stream_io() for _ in range(sessions)]
            for start in range(0, items, 512):
                for i in range(start, min(start + 512, items)):
                    streams[i % sessions].send("input", i)
                for i in range(start, min(start + 512, items)):
                    streams[i % sessions].recv("output")
            for stream in streams:
                stream.cancel()

    return run


def inferred(threads: int | None) -> Callable[[int], None]:
    """One request after the other."""

    def run(items: int) -> None:
        with modelflow.Flow(graph(4, "threads=1"), units=[SAME], threads=threads) as flow:
            for i in range(items):
                flow.infer(i)

    return run


ROWS: dict[str, tuple[Callable[[int], None], int]] = {
    "infer, 4 nodes": (inferred(None), 1000),
    "infer, 4 nodes, threads=0": (inferred(0), 1000),
    "streamed, batch 1": (streamed("threads=1 batch_size=1"), 4000),
    "streamed, batch 8": (streamed("threads=1 batch_size=8"), 8000),
    "streamed, batch 8, 2 threads a node": (streamed("threads=2 batch_size=8"), 8000),
    "streamed, batch 8, 1000 sessions": (streamed("threads=1 batch_size=8", 1000), 8000),
}


class CpuTime:
    """Counts the processor time of this process in nanoseconds, where instructions are not."""

    def read(self) -> int:
        """Returns the count so far."""
        return time.process_time_ns()


def counter() -> Instructions | CpuTime:
    """Returns the best counter that there is."""
    try:
        return Instructions()
    except OSError:
        return CpuTime()


def cost(run: Callable[[int], None], items: int) -> float:
    """Returns the thousands of instructions (or of nanoseconds) of an item."""
    count = counter()
    run(items // 4)
    found = []
    for many in (items, 3 * items):
        before = count.read()
        run(many)
        found.append(count.read() - before)
    return (found[1] - found[0]) / (2 * items) / 1e3


def measured_in(folder: str, *options: str) -> dict[str, float]:
    """Runs this program on the code in a folder; returns its figures."""
    environment = {**os.environ, "PYTHONPATH": folder}
    command = [sys.executable, __file__, "--json", "--rounds", "1", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--quick", action="store_true", help="only show that it runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--against", metavar="FOLDER", help="the other version, for ratios")
    given = parser.parse_args()
    if given.against:
        here = os.path.dirname(os.path.dirname(os.path.abspath(modelflow.__file__)))
        options = ("--quick",) if given.quick else ()
        both = [
            (measured_in(given.against, *options), measured_in(here, *options))
            for _ in range(given.rounds)
        ]
        for name in ROWS:
            ratio = statistics.median(new[name] for _, new in both) / statistics.median(
                old[name] for old, _ in both
            )
            print(f"{name:40} {ratio:6.3f} of the other version", flush=True)
        return
    unit = "instructions" if isinstance(counter(), Instructions) else "ns of processor time"
    table = {}
    for name, (run, items) in ROWS.items():
        many = items // 20 if given.quick else items
        table[name] = statistics.median(cost(run, many) for _ in range(given.rounds))
        if not given.json:
            print(f"{name:40} {table[name]:9.1f} k {unit} an item", flush=True)
    if given.json:
        print(json.dumps(table))


if __name__ == "__main__":
    main()
