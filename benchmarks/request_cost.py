"""The processor time of a request, part by part, at one connection.

python benchmarks/request_cost.py [--seconds 4] [--quick]

Each server runs in this process. "sockets" is the system time of the server's thread, and "HTTP"
the rest of its time: reading and answering. The calls of each unit are timed, without those of the
engine. The engine's time is that of its calls and of its own threads. The rest is the runtime:
queues, batches, the Python code between units, and wake-ups of threads. Units are timed by the
clock: on a busy machine their share is too large, and the runtime's too small or below zero.

The request of the first column is a row of four floats, and the unit `first` gives its first float.
The others are JPEGs of 640x480, see `image_server.py`. "model" is the unit that calls the engine.
"together" is the sum of the rows above it.
"""

import argparse
import os
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from image_server import write_project
from machine import machine
from measure import print_table
from real_requests import FORMS, message_of
from serving import CLIENT, asked, wait_for_answer
from serving_peers.first_server import GRAPH, first

import modelflow
from modelflow.engine.onnx.engine import OnnxModel
from modelflow.serve.server import ServeOptions, Server

_TICK = os.sysconf("SC_CLK_TCK")
_ENGINE, _RUNTIME, _HTTP = "engine", "runtime", "HTTP and protocol"
_SOCKETS, _SUM = "sockets", "together"


class EngineClock:
    """The seconds in the calls of ONNX Runtime while a block runs, and their processor time."""

    def __enter__(self) -> "EngineClock":
        """Begins to time the calls."""
        self.seconds, self.cpu, self._run = 0.0, 0.0, OnnxModel.run
        run = self._run

        def timed(model: OnnxModel, inputs: object) -> object:
            start, cpu = time.perf_counter(), time.thread_time()
            try:
                return run(model, inputs)
            finally:
                self.cpu += time.thread_time() - cpu
                self.seconds += time.perf_counter() - start

        OnnxModel.run = timed
        return self

    def __exit__(self, *raised: object) -> None:
        """Restores the engine."""
        OnnxModel.run = self._run


def _user_and_system(task: Path) -> tuple[float, float]:
    fields = (task / "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / _TICK, int(fields[12]) / _TICK


def _clocks() -> Counter[str]:
    """Returns the processor seconds of this process by part, units included in the runtime."""
    found: Counter[str] = Counter()
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    for task in Path("/proc/self/task").iterdir():
        user, system = _user_and_system(task)
        name = names.get(int(task.name))
        if name is not None and "/http/" in name:
            found.update({_HTTP: user, _SOCKETS: system})
        else:
            found[_ENGINE if name is None else _RUNTIME] += user + system
    return found


def measure(
    flow: modelflow.Flow, message: bytes, seconds: float
) -> tuple[Mapping[str, float], float]:
    """Serves a flow; returns the microseconds of each part of a request, and requests/s."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    sys.setswitchinterval(0.001)  # as `modelflow serve` has it
    with (
        tempfile.TemporaryDirectory() as folder,
        EngineClock() as engine,
        Server({"first": flow}, ServeOptions(http_port=port)),
    ):
        file = Path(folder, "request")
        file.write_bytes(message)
        wait_for_answer(port, message)
        asked(port, file, 1, min(seconds, 1.0))  # the first requests cost more
        units, clocks, before, cpu = _units(flow), _clocks(), engine.seconds, engine.cpu
        seen = asked(port, file, 1, seconds)
        found = _clocks() - clocks
        found.update(_units(flow) - units)
        if engine.seconds > before:
            found["model"] -= engine.seconds - before
        in_engine = engine.cpu - cpu
    found[_RUNTIME] -= in_engine + sum(found[node] for node in units)
    found[_ENGINE] += in_engine
    found[_SUM] = sum(found.values())
    return {part: value * 1e6 / seen["answers"] for part, value in found.items()}, seen["rate"]


def _units(flow: modelflow.Flow) -> Counter[str]:
    return Counter({name: node.busy for name, node in flow.stats().nodes.items()})


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    seconds = 0.2 if given.quick else given.seconds
    columns: dict[str, tuple[Mapping[str, float], float]] = {}
    with machine() as ran_on:
        flow = modelflow.Flow(GRAPH, units=[first])
        columns["a row of JSON"] = measure(flow, message_of(FORMS[0]), seconds)
        for model in ("tiny",) if given.quick else ("tiny", "mobilenet"):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                write_project(folder, model)
                message = (folder / "modelflow.request").read_bytes()
                message = message.replace(b"/models/classify/", b"/models/first/", 1)
                flow = modelflow.Flow(folder / "classify.toml")
                columns[f"a JPEG, {model}"] = measure(flow, message, seconds)
    units = [part for found, _ in columns.values() for part in found]
    parts = [_SOCKETS, _HTTP, _RUNTIME, *units, _ENGINE, _SUM]
    shown = [part for part in dict.fromkeys(parts) if part not in (_ENGINE, _SUM)]
    rows: list[list[object]] = [
        [part, *(f"{found[part]:.0f}" if part in found else "" for found, _ in columns.values())]
        for part in (*shown, _ENGINE, _SUM)
    ]
    rows.append(["requests/s", *(f"{rate:.0f}" for _, rate in columns.values())])
    print_table("Processor time of a request, us; one connection", ["part", *columns], rows)
    print(f"asked by {CLIENT}; {ran_on}")


if __name__ == "__main__":
    main()
