"""Tests the doctor with planted causes, each at two places of a graph and with several seeds.

python benchmarks/planted_causes.py [--only "small batch"] [--seeds 3] [--beside 2] [--healthy 50]

Each plant knows its causes and its cure. A diagnosis is right if it names cause and node. Its
change must bring half of the gain that it predicts and 80 % of the cure's gain. A change that
lowers the rate by 5 % or more is harmful. Healthy flows have no finding. With ``--beside`` so many
other processes compute meanwhile: "foreign load" is then a right answer, too.
"""

# ruff: noqa: ARG001, ARG002, D102 - methods and functions that others call

import argparse
import gc
import hashlib
import multiprocessing
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine
from measure import print_table

import modelflow
from modelflow import plugins
from modelflow.cli.insight.fetch import ask
from modelflow.device import Device, Memory
from modelflow.device.lookup import GROUP, MEMORIES
from modelflow.errors import Cancelled, ConfigError, FlowUnitError, StreamClosed
from modelflow.insight.doctor import Case, Diagnosis, diagnose
from modelflow.insight.doctor.examination import Examination
from modelflow.profile.snapshot import Snapshot
from modelflow.unit.kind import Stream
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit

NODES = ("first", "second", "third")
Drive = Callable[[modelflow.Flow, threading.Event], None]
FOREIGN = "foreign load"
# A change that lowers the rate by this share is harmful.
HARM = 0.05


@dataclass
class Planted:
    """A graph with a cause.

    Attributes:
        expected: The right answers: node and cause. Empty if nothing is to be found.
        units: The unit of each node.
        attributes: The attributes of each node.
        cure: The changes that remove the cause.
        drive: Uses the flow until its event is set.
        around: Entered while the doctor works.
        graph: The text, if it is not the chain.
        flow: Attributes of the graph.
        bound: Changes of the graph that belong to the plant.
        seconds: How long a rate is measured.
        is_driven: Whether the user sends as fast as the flow accepts.
    """

    expected: set[tuple[str, str]]
    units: dict[str, Callable[..., Any]]
    attributes: dict[str, str] = field(default_factory=dict)
    cure: Mapping[str, Any] = field(default_factory=dict)
    drive: Drive | None = None
    around: Callable[[], Any] | None = None
    graph: str = ""
    flow: str = "fuse=off"
    bound: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 1.0
    is_driven: bool = True


def unit(function: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    function.__name__ = more.pop("name")
    return modelflow.flowunit(function, **more)


def sleeper(name: str, seconds: float, each: float = 0.0, **more: Any) -> Callable[..., Any]:
    """Waits so long for a call, and so long for each of its rows."""

    def wait(values: list[Any]) -> list[Any]:
        time.sleep(seconds + each * len(values))
        return values

    return unit(wait, name=name, batched=True, **more)


def rowwise(name: str, work: Callable[[], object]) -> Callable[..., Any]:
    """Does the work for each row."""

    def each(value: Any) -> Any:
        work()
        return value

    return unit(each, name=name)


def guarded(name: str, lock: Any, seconds: float, each: float = 0.0) -> Callable[..., Any]:
    """Waits so long for a call, with a lock that all calls share."""

    def wait(values: list[Any]) -> list[Any]:
        with lock:
            time.sleep(seconds + each * len(values))
        return values

    return unit(wait, name=name, batched=True)


def passing(name: str) -> Callable[..., Any]:
    """Takes 0.1 ms."""
    return sleeper(name, 1e-4)


def chain(place: int, trouble: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Puts one unit at a place among others that do next to nothing."""
    return {name: trouble if at == place else passing(name) for at, name in enumerate(NODES)}


def hashing(megabytes: float) -> Callable[[], object]:
    """Computes without the interpreter's lock."""
    data = np.random.default_rng(1).bytes(int(megabytes * 1e6))
    return lambda: hashlib.sha256(data).digest()


def count_up(rounds: int) -> None:
    """Computes with the interpreter's lock."""
    total = 0
    for number in range(rounds):
        total += number & 7


@modelflow.flowunit
def python_loop(value: Any) -> Any:
    """Computes in Python. Other processes can import this unit."""
    count_up(20_000)
    return value


@modelflow.flowunit
def cheap(value: Any) -> Any:
    """Does next to nothing with a large row. Other processes can import this unit."""
    return value[:1]


# -- faults and bounds ----------------------------------------------------------------------------


def errors(place: int, rng: random.Random) -> Planted:
    share, own, node = rng.uniform(0.1, 0.3), random.Random(rng.random()), NODES[place]

    def fail(value: Any) -> Any:
        time.sleep(5e-4)
        if own.random() < share:
            message = "planted"
            raise ValueError(message)
        return value

    return Planted({(node, "errors")}, chain(place, unit(fail, name=node)))


def unread(place: int, rng: random.Random) -> Planted:
    names = ("left", "right")
    graph = """digraph unread { input [type=input] first second
        left [type=output] right [type=output]
        input -> first  input -> second  first -> left  second -> right }"""
    units = {"first": passing("first"), "second": sleeper("second", rng.uniform(1e-4, 4e-4))}
    drive = reading(names[1 - place])
    return Planted({(names[place], "unread results")}, units, graph=graph, drive=drive)


def slow_reader(place: int, rng: random.Random) -> Planted:
    units = chain(place, sleeper(NODES[place], 5e-4))
    pause = rng.uniform(0.01, 0.03)
    return Planted({("output", "unread results")}, units, drive=streaming(read_pause=pause))


def queue_bounds(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, guarded(node, threading.Lock(), rng.uniform(5e-3, 8e-3), 1e-4))
    settings = {NODES[0]: "threads=1, batch_size=1"}  # a batch enters a queue as a whole
    settings[node] = f"threads=1, batch_size=16, queue_size={rng.choice((2, 4))}"
    cure = {f"{node}.queue_size": 32}
    return Planted({(node, "queue bounds the batch")}, units, settings, cure)


def bursty(name: str, rows: int, seconds: float) -> Callable[..., Any]:
    """Takes no time for most rows, and a long pause after some."""
    left = [rows]

    def burst(value: Any) -> Any:
        left[0] -= 1
        if left[0] <= 0:
            left[0] = rows
            time.sleep(seconds)
        return value

    return unit(burst, name=name)


def queue_behind_bursts(place: int, rng: random.Random) -> Planted:
    rows = rng.choice((16, 20, 24))
    units = {name: passing(name) for name in NODES}
    units[NODES[place]] = bursty(NODES[place], rows, 1.9e-3 * rows)
    units[NODES[place + 1]] = sleeper(NODES[place + 1], 2e-3)
    behind = NODES[place + 1]
    attributes = {NODES[place]: "threads=1, batch_size=1"}
    attributes[behind] = f"threads=1, batch_size=1, queue_size={rng.choice((1, 2))}"
    return Planted({(behind, "small queue")}, units, attributes, {f"{behind}.queue_size": 4 * rows})


def queue_before_bursts(place: int, rng: random.Random) -> Planted:
    rows = rng.choice((16, 20, 24))
    units = {name: passing(name) for name in NODES}
    units[NODES[place]] = sleeper(NODES[place], 2e-3)
    behind = NODES[place + 1]
    units[behind] = bursty(behind, rows, 1.9e-3 * rows)
    attributes = {NODES[place]: "threads=1, batch_size=1"}
    attributes[behind] = f"threads=1, batch_size=1, queue_size={rng.choice((1, 2))}"
    return Planted({(behind, "small queue")}, units, attributes, {f"{behind}.queue_size": 4 * rows})


def loop_bound(place: int, rng: random.Random) -> Planted:
    """A loop of three rounds, in which one node waits."""
    seconds = rng.uniform(3e-3, 6e-3)

    graph = f"""digraph looped {{ input [type=input] output [type=output]
        around [queue_size=1] first [{"threads=8" if place == 0 else ""}]
        second [{"threads=8" if place == 1 else ""}]
        input -> around; around:again -> first -> second -> around; around:done -> output }}"""
    units = {name: passing(name) for name in NODES[:2]}
    units[NODES[place]] = sleeper(NODES[place], seconds)

    def around(value: Any) -> Any:
        return {"done" if value[0] == 3 else "again": value + 1}

    units["around"] = unit(around, name="around", kind="loop", outputs=("again", "done"))
    return Planted({("around", "loop bound")}, units, graph=graph, cure={"around.queue_size": 16})


def in_flight(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, sleeper(node, rng.uniform(3e-3, 6e-3)))
    return Planted(
        {("max_in_flight", "rows in flight")},
        units,
        {node: "threads=8"},
        {"max_in_flight": 16},
        bound={"max_in_flight": rng.choice((1, 2))},
    )


def in_flight_before_batches(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, guarded(node, threading.Lock(), rng.uniform(5e-3, 8e-3), 1e-4))
    return Planted(
        {("max_in_flight", "rows in flight")},
        units,
        {node: "threads=1, batch_size=16, queue_size=32"},
        {"max_in_flight": 64},
        bound={"max_in_flight": rng.choice((2, 3, 4))},
    )


def stragglers(place: int, rng: random.Random) -> Planted:
    own, slow, node = random.Random(rng.random()), rng.uniform(0.05, 0.1), NODES[place]

    def uneven() -> None:
        time.sleep(slow if own.random() < 0.02 else 1e-3)

    return Planted(
        {(node, "stragglers")},
        chain(place, rowwise(node, uneven)),
        {node: "threads=4, batch_size=1, queue_size=4"},
        {f"{node}.queue_size": 64},
        seconds=4.0,
    )


def timeout(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    settings = f"threads=1, batch_size=16, batch_timeout_ms={rng.choice((30, 50, 80))}"
    return Planted(
        {(node, "batch timeout")},
        chain(place, sleeper(node, 1e-3)),
        {node: settings},
        {f"{node}.batch_timeout_ms": 0},
        drive=clients(rng.choice((1, 2, 3))),
        is_driven=False,
    )


# -- calls that wait ------------------------------------------------------------------------------


def remote_call(place: int, rng: random.Random) -> Planted:
    node, seconds = NODES[place], rng.uniform(3e-3, 6e-3)
    units = chain(place, rowwise(node, lambda: time.sleep(seconds)))
    return Planted({(node, "capacity")}, units, {node: "threads=1"}, {f"{node}.threads": 16})


def remote_batches(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, sleeper(node, rng.uniform(8e-3, 12e-3), 1e-4))
    return Planted(
        {(node, "capacity"), (node, "small batch")},
        units,
        {node: "threads=1, batch_size=1"},
        {f"{node}.batch_size": 16, f"{node}.queue_size": 32},
    )


def two_alike(place: int, rng: random.Random) -> Planted:
    seconds = rng.uniform(3e-3, 6e-3)
    names = (NODES[place], NODES[place + 1])
    units = {name: passing(name) for name in NODES}
    units |= {name: rowwise(name, lambda: time.sleep(seconds)) for name in names}
    return Planted(
        {(name, "capacity") for name in names},
        units,
        dict.fromkeys(names, "threads=1"),
        {f"{name}.threads": 16 for name in names},
    )


def behind_file_source(place: int, rng: random.Random) -> Planted:
    """A source that never waits, before a node that waits."""
    node, seconds = NODES[place], rng.uniform(3e-3, 6e-3)
    units = {"files": source(lambda: None)}
    units |= chain(place, rowwise(node, lambda: time.sleep(seconds)))
    return Planted(
        {(node, "capacity")},
        units,
        {node: "threads=1"},
        {f"{node}.threads": 16},
        graph=SOURCE,
        drive=waiting,
        is_driven=False,
    )


def branch(place: int, rng: random.Random) -> Planted:
    """A condition with a slow node in a branch."""
    seconds, slow = rng.uniform(4e-3, 6e-3), ("left", "right")[place]

    def choose(value: Any) -> str:
        return "a" if rng.random() < 0.5 else "b"

    graph = """digraph branches { input [type=input] output [type=output]
        choose left [threads=1] right [threads=1]
        input -> choose; choose:a -> left -> output; choose:b -> right -> output }"""
    units = {name: passing(name) for name in ("left", "right")}
    units[slow] = rowwise(slow, lambda: time.sleep(seconds))
    units["choose"] = unit(choose, name="choose", kind="condition", outputs=("a", "b"))
    return Planted({(slow, "capacity")}, units, graph=graph, cure={f"{slow}.threads": 16})


def inside_expand(place: int, rng: random.Random) -> Planted:
    seconds, node = rng.uniform(2e-3, 4e-3), ("inner", "after")[place]

    def parts(value: Any) -> Iterator[Any]:
        yield from (value, value, value)

    graph = """digraph expanded { input [type=input] output [type=output]
        parts inner [threads=1] joined after [threads=1]
        input -> parts -> inner -> joined -> after -> output }"""
    units = {name: passing(name) for name in ("inner", "after")}
    units[node] = rowwise(node, lambda: time.sleep(seconds * (1 if place == 0 else 3)))
    units["parts"] = unit(parts, name="parts", kind="expand")
    units["joined"] = unit(lambda values: values[0], name="joined", kind="collapse")
    return Planted({(node, "capacity")}, units, graph=graph, cure={f"{node}.threads": 16})


def fused(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, rowwise(node, hashing(rng.uniform(1.0, 3.0))))
    return Planted(
        {(node, "capacity")},
        units,
        dict.fromkeys(NODES, "threads=1"),
        {f"{node}.threads": 2},
        flow="",
    )


def device(place: int, rng: random.Random) -> Planted:
    """A device that serves one call at a time, and gains nothing by batches."""
    node = NODES[place]
    units = chain(place, guarded(node, threading.Lock(), 0.0, rng.uniform(3e-3, 5e-3)))
    return Planted({(node, "one at a time")}, units, {node: f"threads={rng.choice((1, 2, 4))}"})


def device_small_batch(place: int, rng: random.Random, **more: Any) -> Planted:
    """A device that serves one call at a time, and gains by batches."""
    node, size = NODES[place], rng.choice((2, 4))
    units = chain(place, guarded(node, threading.Lock(), rng.uniform(4e-3, 8e-3), 2e-4))
    return Planted(
        {(node, "small batch")},
        units,
        {node: f"threads=1, batch_size={size}"},
        {f"{node}.batch_size": 32, f"{node}.queue_size": 64},
        **more,
    )


def small_batch_clients(place: int, rng: random.Random) -> Planted:
    return device_small_batch(place, rng, drive=clients(48), is_driven=False)


def small_batch_poisson(place: int, rng: random.Random) -> Planted:
    return device_small_batch(place, rng, drive=poisson(3000.0, random.Random(rng.random())))


def steps(place: int, rng: random.Random) -> Planted:
    """A model whose calls cost the same for up to eight rows."""
    node, seconds, lock = NODES[place], rng.uniform(5e-3, 8e-3), threading.Lock()

    def work(values: list[Any]) -> list[Any]:
        with lock:
            time.sleep(seconds * -(-len(values) // 8))
        return values

    return Planted(
        {(node, "small batch")},
        chain(place, unit(work, name=node, batched=True)),
        {node: f"threads=1, batch_size={rng.choice((1, 2))}"},
        {f"{node}.batch_size": 8, f"{node}.queue_size": 32},
    )


def one_lock(place: int, rng: random.Random) -> Planted:
    """Two nodes that share a lock."""
    lock, seconds = threading.Lock(), rng.uniform(2e-3, 4e-3)
    names = (NODES[place], NODES[place + 1])
    units = {name: passing(name) for name in NODES}
    units |= {name: guarded(name, lock, 0.0, seconds) for name in names}
    attributes = dict.fromkeys(names, f"threads={rng.choice((1, 2))}, batch_size=1")
    return Planted({(name, "one at a time") for name in names}, units, attributes)


def connections(place: int, rng: random.Random) -> Planted:
    """A pool of two connections for all calls."""
    node = NODES[place]
    units = chain(place, guarded(node, threading.Semaphore(2), 0.0, rng.uniform(3e-3, 6e-3)))
    return Planted({(node, "one at a time")}, units, {node: f"threads={rng.choice((2, 4))}"})


def locked_computing(place: int, rng: random.Random) -> Planted:
    """NumPy under a lock."""
    node, lock, work = NODES[place], threading.Lock(), hashing(rng.uniform(1.0, 2.0))

    def compute() -> None:
        with lock:
            work()

    return Planted(
        {(node, "one at a time")}, chain(place, rowwise(node, compute)), {node: "threads=2"}
    )


class Ordered(FlowUnit):
    """Keeps state for each stream."""

    seconds = 4e-3

    def process(self, ctx: Any) -> None:
        for buffer in ctx.inputs["in"]:
            time.sleep(self.seconds)
            ctx.emit([buffer.data])


def one_stream(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    own = type("Own", (Ordered,), {"seconds": rng.uniform(3e-3, 6e-3)})
    return Planted({(node, "one stream")}, chain(place, stream_unit(node, own)))


def stream_unit(node: str, own: type[FlowUnit]) -> Any:
    return FlowUnitSpec(
        node, {"cpu": own}, kind=Stream(), inputs=(Port("in"),), outputs=(Port("out"),)
    )


def disk(place: int, rng: random.Random) -> Planted:
    """Writes the rows to the disk under a lock."""
    node, lock = NODES[place], threading.Lock()
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the unit writes as long as the flow runs
    data = rng.randbytes(1 << 20)

    def write() -> None:
        with lock:
            file.seek(0)
            file.write(data)
            os.fsync(file.fileno())
            time.sleep(2e-3)  # a disk of a few hundred writes a second

    return Planted(
        {(node, "one at a time")}, chain(place, rowwise(node, write)), {node: "threads=1"}
    )


# -- calls that compute ---------------------------------------------------------------------------


def capacity(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, rowwise(node, hashing(rng.uniform(1.0, 3.0))))
    return Planted({(node, "capacity")}, units, {node: "threads=1"}, {f"{node}.threads": 2})


def all_processors(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, rowwise(node, hashing(rng.uniform(1.0, 3.0))))
    return Planted({(node, "processors")}, units, {node: "threads=2"})


def lock_here(place: int, rng: random.Random) -> Planted:
    """A loop in Python that no other process can import."""
    node, rounds = NODES[place], rng.randint(8000, 20000)
    units = chain(place, rowwise(node, lambda: count_up(rounds)))
    return Planted({(node, "interpreter lock")}, units, {node: f"threads={rng.choice((2, 3, 4))}"})


def lock_importable(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, python_loop)
    return Planted(
        {(node, "interpreter lock")},
        units,
        {node: f"type=flowunit, flowunit=python_loop, threads={rng.choice((1, 2))}, batch_size=8"},
        {f"{node}.workers": "process", f"{node}.threads": 2},
    )


def lock_beside_c(place: int, rng: random.Random) -> Planted:
    """A loop in Python before or behind a node that computes without the lock."""
    node, other = (NODES[0], NODES[1]) if place == 0 else (NODES[1], NODES[0])
    units = {name: passing(name) for name in NODES}
    units[other] = rowwise(other, hashing(rng.uniform(0.1, 0.3)))
    rounds = rng.randint(20_000, 40_000)
    units[node] = rowwise(node, lambda: count_up(rounds))
    return Planted({(node, "interpreter lock")}, units, {node: "threads=1", other: "threads=1"})


def crowd(place: int, work: Callable[[], object], threads: int, few: int) -> Planted:
    """Plants computing threads that take the processors from each other."""
    node = NODES[place]
    return Planted(
        {(node, "oversubscription"), (node, "processors")},
        chain(place, rowwise(node, work)),
        {node: f"threads={threads}"},
        {f"{node}.threads": few},
    )


def oversubscription(place: int, rng: random.Random) -> Planted:
    work = hashing(rng.uniform(1.0, 3.0))
    return crowd(place, work, rng.choice((6, 8, 10)), 2)


def engine_threads(place: int, rng: random.Random) -> Planted:
    """Products of matrices, each on all processors, on several threads."""
    size = rng.choice((300, 400))
    matrix = np.random.default_rng(2).random((size, size), np.float32)
    planted = crowd(place, lambda: matrix @ matrix, rng.choice((2, 4)), 1)
    return replace(planted, seconds=4.0)


def opencv_threads(place: int, rng: random.Random) -> Planted:
    import cv2

    size = rng.choice((800, 1200))
    image = np.random.default_rng(3).integers(0, 255, (size, size, 3), np.uint8)
    work = partial(cv2.GaussianBlur, image, (31, 31), 5)
    return replace(crowd(place, work, rng.choice((2, 4)), 1), seconds=4.0)


def collections(place: int, rng: random.Random) -> Planted:
    """Makes objects that hold each other, beside a large heap."""
    node = NODES[place]
    heap = [[number] for number in range(rng.choice((400_000, 600_000)))]

    def make() -> None:
        for _ in range(300):
            one: list[Any] = [heap[0]]
            one.append(one)
        gc.collect()

    return Planted(
        {(node, "garbage collection")}, chain(place, rowwise(node, make)), {node: "threads=1"}
    )


class Padded(FlowUnit):
    """Fills its batches up, and says so as inference units do."""

    def open(self, config: Any) -> None:
        self._padding = 0

    def process(self, ctx: Any) -> None:
        rows = ctx.inputs["in"]
        self._padding += 8 - len(rows)
        time.sleep(2e-3)
        ctx.emit([buffer.data for buffer in rows])

    def figures(self) -> dict[str, dict[Any, int]]:
        return {"batching": {"padding": self._padding}}


class Cut(FlowUnit):
    """Calls its model for rows of one shape at a time, and says so as inference units do."""

    def open(self, config: Any) -> None:
        self._cuts = 0

    def process(self, ctx: Any) -> None:
        rows = ctx.inputs["in"]
        shapes = {len(buffer.data) for buffer in rows}
        self._cuts += len(shapes) - 1
        time.sleep(4e-3 * len(shapes))
        ctx.emit([buffer.data for buffer in rows])

    def figures(self) -> dict[str, dict[Any, int]]:
        return {"batching": {"another_shape": self._cuts}}


def own_unit(node: str, own: type[FlowUnit]) -> Any:
    return FlowUnitSpec(
        node, {"cpu": own}, inputs=(Port("in"),), outputs=(Port("out"),), is_shared=True
    )


def padding(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    return Planted(
        {(node, "padding")},
        chain(place, own_unit(node, Padded)),
        {node: "batch_size=8, threads=1"},
        drive=streaming(most=rng.choice((1, 2, 3))),
    )


def uneven_shapes(place: int, rng: random.Random) -> Planted:
    node, kinds = NODES[place], rng.choice((3, 5))
    own = random.Random(rng.random())
    return Planted(
        {(node, "uneven shapes")},
        chain(place, own_unit(node, Cut)),
        {node: "batch_size=8, threads=1"},
        drive=streaming(make=lambda: np.zeros(1 + own.randrange(kinds), np.float32)),
    )


def transfer(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    size = rng.choice((1_500_000, 3_000_000))
    units = {name: passing(name) for name in NODES}
    units[node] = cheap
    return Planted(
        {(node, "transfer")},
        units,
        {node: "flowunit=cheap, workers=process, threads=1"},
        {f"{node}.workers": "thread"},
        drive=streaming(make=lambda: np.zeros(size, np.uint8)),
    )


class SlowArray:
    """An array on the far side of a slow bus."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.nbytes, self.shape = values, values.nbytes, values.shape


class SlowMemory(Memory):
    """A device whose copies take their time."""

    kind = "slowbus"

    def count(self) -> int:
        return 1

    def found(self) -> str:
        return "one"

    def holds(self, data: Any) -> bool:
        return isinstance(data, SlowArray)

    def device_of(self, data: Any) -> Device:
        return Device(self.kind)

    def dtype_of(self, data: Any) -> Any:
        return data.values.dtype

    def gather(self, items: Any, size: int, dtype: Any, device: Any, shape: Any = None) -> Any:
        raise NotImplementedError

    def upload(self, arrays: Any, device: Device) -> list[Any]:
        time.sleep(2e-3 * len(arrays))
        return [SlowArray(array) for array in arrays]

    def download(self, arrays: Any) -> list[Any]:
        return [array.values.copy() for array in arrays]

    def fence(self, device: Device) -> None:
        return None

    def wait(self, fence: Any, arrays: Any) -> None:
        return None


def copies(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, sleeper(node, rng.uniform(1e-4, 1e-3), device="slowbus"))
    return Planted({(node, "copies")}, units, {node: "device=slowbus"})


# -- input and other programs ---------------------------------------------------------------------

SOURCE = """digraph source { fuse=off files NODES files -> first -> second -> third }"""


def source(work: Callable[[], object]) -> Callable[..., Any]:
    def files() -> Iterator[Any]:
        row = np.zeros(16, np.float32)
        while True:
            work()
            yield row

    return unit(files, name="files")


def slow_source(place: int, rng: random.Random) -> Planted:
    units = {"files": source(hashing(rng.uniform(4.0, 8.0)))}
    units |= chain(place, sleeper(NODES[place], 1e-3))
    return Planted({("files", "slow input")}, units, graph=SOURCE, drive=waiting, is_driven=False)


def slow_sender(place: int, rng: random.Random) -> Planted:
    pause = rng.uniform(5e-3, 20e-3)
    units = chain(place, sleeper(NODES[place], 1e-3))
    return Planted({("input", "slow input")}, units, drive=streaming(pause=pause))


def burn(over: Any) -> None:
    """Computes until the event is set."""
    while not over.is_set():
        sum(range(20000))


def start_burners(count: int, over: Any) -> None:
    """Starts processes that are no children of the flow's process, and waits for their end."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=burn, args=(over,)) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


@contextmanager
def burners(count: int) -> Iterator[None]:
    """Lets other processes compute inside the block."""
    if not count:
        yield
        return
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    starter = context.Process(target=start_burners, args=(count, over))
    starter.start()
    time.sleep(2.0)
    try:
        yield
    finally:
        over.set()
        starter.join()


def foreign(count: int) -> Callable[[int, random.Random], Planted]:
    def plant(place: int, rng: random.Random) -> Planted:
        node = NODES[place]
        units = chain(place, rowwise(node, hashing(rng.uniform(1.0, 3.0))))
        threads = {node: "threads=2"}
        return Planted({(node, FOREIGN)}, units, threads, around=lambda: burners(count))

    return plant


# -- healthy flows --------------------------------------------------------------------------------


def camera(place: int, rng: random.Random) -> Planted:
    """A camera with 25 images a second, and a node that is busy for most of the time."""
    pause = 0.04

    def look() -> None:
        time.sleep(pause)

    units = {"files": source(look)}
    units |= chain(place, sleeper(NODES[place], pause * rng.uniform(0.6, 0.9)))
    return Planted(set(), units, graph=SOURCE, drive=waiting, is_driven=False)


def camera_stream(place: int, rng: random.Random) -> Planted:
    """A camera before a node that tracks objects."""
    units = {"files": source(lambda: time.sleep(0.04))}
    own = type("Own", (Ordered,), {"seconds": 0.04 * rng.uniform(0.5, 0.85)})
    units |= chain(place, stream_unit(NODES[place], own))
    return Planted(set(), units, graph=SOURCE, drive=waiting, is_driven=False)


def paced_clients(place: int, rng: random.Random) -> Planted:
    units = {name: sleeper(name, rng.uniform(5e-4, 2e-3)) for name in NODES}
    return Planted(set(), units, drive=paced(rng.uniform(20, 60)), is_driven=False)


def idle(place: int, rng: random.Random) -> Planted:
    units = {name: passing(name) for name in NODES}
    return Planted(set(), units, drive=waiting, is_driven=False)


def half_load(place: int, rng: random.Random) -> Planted:
    seconds = rng.uniform(4e-3, 8e-3)
    units = chain(place, guarded(NODES[place], threading.Lock(), seconds, 1e-4))
    drive = poisson(0.5 / (seconds + 1e-4), random.Random(rng.random()))
    return Planted(
        set(), units, {NODES[place]: "threads=1, batch_size=8"}, drive=drive, is_driven=False
    )


def one_client(place: int, rng: random.Random) -> Planted:
    """A client that waits for each answer: no queue, and nothing to change."""
    units = chain(place, sleeper(NODES[place], rng.uniform(2e-3, 5e-3)))
    return Planted(set(), units, {NODES[place]: "threads=1"}, drive=clients(1), is_driven=False)


def computing_half(place: int, rng: random.Random) -> Planted:
    """A node that computes for 40 % of the time."""
    work, own = hashing(4.0), random.Random(rng.random())
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    units = chain(place, rowwise(NODES[place], work))
    return Planted(set(), units, drive=poisson(0.4 / seconds, own), is_driven=False)


# -- servers ---------------------------------------------------------------------------------------


@dataclass
class Served:
    """A server, its load, and the right answers.

    Attributes:
        expected: As in `Planted`.
        seconds: The time of a call of its only node.
        load: The options of ``modelflow load``; None for no requests. With one option, the number
            of connections of ``h2load`` (of Debian's nghttp2-client), which needs few processors.
    """

    expected: set[tuple[str, str]]
    seconds: float
    load: tuple[str, ...] | None


def server_front_end(place: int, rng: random.Random) -> Served:
    return Served({("server", "front end")}, 0.0, (str(rng.choice((16, 32))),))


def server_node(place: int, rng: random.Random) -> Served:
    """A node that waits, with more requests than one thread can answer."""
    return Served({("slow", "capacity")}, rng.uniform(0.01, 0.02), ("--clients", "16"))


def server_idle(place: int, rng: random.Random) -> Served:
    return Served(set(), 0.0, None)


def server_half_load(place: int, rng: random.Random) -> Served:
    seconds = rng.uniform(5e-3, 1e-2)
    return Served(set(), seconds, ("--rate", f"{0.5 / seconds:.0f}"))


def examine_server(served: Served, seconds: float) -> "Verdict":
    """Starts a server and its clients, and observes the server from outside."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        rest = f"time.sleep({served.seconds})" if served.seconds else "pass"
        unit = "import time\nimport modelflow\n\n\n@modelflow.flowunit\n"
        unit += f"def slow(value):\n    {rest}\n    return value\n"
        graph = """[graph]\ngraphconf = '''digraph served {
            input [type=input] slow [flowunit="slow_units:slow", threads=1] output [type=output]
            input -> slow -> output }'''"""
        for name, text in (("slow_units.py", unit), ("served.toml", graph)):
            (Path(folder) / name).write_text(text)
        port = free_port()

        def start(*words: str) -> None:
            process = subprocess.Popen(
                words if words[0] == "h2load" else [sys.executable, "-m", "modelflow", *words],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)

        start("serve", "served.toml", "--http", str(port), "--grpc", "off")
        address = f"http://127.0.0.1:{port}/stats"
        first = asked(address)
        if served.load is not None:
            url = f"http://127.0.0.1:{port}/v1/models/served:predict"
            row = Path(folder) / "row.json"
            row.write_text('{"instances": [[1, 2, 3, 4]]}')
            if len(served.load) == 1:
                start("h2load", "--h1", "-D", "60", "-d", str(row), "-c", *served.load, url)
            else:
                start("load", url, "--body", str(row), "--seconds", "60", *served.load)
            time.sleep(3.0)
            first = asked(address)
        time.sleep(seconds)
        found = diagnose(Case.between(first, asked(address)))
    finding = found.findings[0] if found.findings else None
    named = None if finding is None else (finding.node, str(finding.cause))
    return Verdict(named, None if finding is None else finding.gain, None, None, found)


def asked(address: str) -> Snapshot:
    """Returns the snapshot of a server, after its start."""
    end = time.monotonic() + 30
    while True:
        try:
            return ask(address)
        except ConfigError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


# -- who uses it ----------------------------------------------------------------------------------


def streaming(  # noqa: C901 - a sender and its readers
    *,
    pause: float = 0.0,
    read_pause: float = 0.0,
    most: int = 0,
    make: Callable[[], Any] = lambda: np.zeros(16, np.float32),
) -> Drive:
    """Sends in one session as fast as possible, or with pauses, and reads all outputs.

    With ``most``, so many rows are under way at most.
    """

    def drive(flow: modelflow.Flow, over: threading.Event) -> None:  # noqa: C901
        stream = flow.create_stream_io()
        room = threading.Semaphore(most) if most else None

        def read(output: str) -> None:
            try:
                while True:
                    stream.recv(output, errors="return")
                    if room is not None:
                        room.release()
                    if read_pause:
                        over.wait(read_pause)
            except (modelflow.EndOfStream, StreamClosed, Cancelled):
                return

        readers = [threading.Thread(target=read, args=(name,)) for name in stream.outputs]
        for reader in readers:
            reader.start()
        while not over.is_set():
            if room is None or room.acquire(timeout=0.1):
                stream.send("input", make())
            if pause:
                over.wait(pause)
        stream.cancel()
        for reader in readers:
            reader.join()

    return drive


def reading(output: str) -> Drive:
    """Sends in one session, and reads one output."""

    def drive(flow: modelflow.Flow, over: threading.Event) -> None:
        stream = flow.create_stream_io()

        def use(call: Callable[[], object]) -> None:
            try:
                while True:
                    call()
            except (modelflow.EndOfStream, StreamClosed, Cancelled):
                return

        calls = (
            lambda: stream.recv(output, errors="return"),
            lambda: stream.send("input", np.zeros(16, np.float32)),
        )
        threads = [threading.Thread(target=use, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        over.wait()
        stream.cancel()
        for thread in threads:
            thread.join()

    return drive


def clients(count: int) -> Drive:
    """Starts so many clients, each of which waits for its answer."""

    def drive(flow: modelflow.Flow, over: threading.Event) -> None:
        def use() -> None:
            with suppress(StreamClosed, Cancelled):
                while not over.is_set():
                    flow.infer(np.zeros(16, np.float32))

        threads = [threading.Thread(target=use) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return drive


def paced(rate: float) -> Drive:
    """Sends consecutive requests at a rate."""

    def drive(flow: modelflow.Flow, over: threading.Event) -> None:
        due = time.monotonic()
        while not over.is_set():
            flow.infer(np.zeros(16, np.float32))
            due += 1 / rate
            over.wait(max(0.0, due - time.monotonic()))

    return drive


def poisson(rate: float, rng: random.Random) -> Drive:
    """Sends rows at random times, and reads all results."""

    def drive(flow: modelflow.Flow, over: threading.Event) -> None:
        stream = flow.create_stream_io()

        def read() -> None:
            try:
                while True:
                    stream.recv("output", errors="return")
            except (modelflow.EndOfStream, StreamClosed, Cancelled):
                return

        reader = threading.Thread(target=read)
        reader.start()
        due = time.monotonic()
        while not over.is_set():
            stream.send("input", np.zeros(16, np.float32))
            due = max(due, time.monotonic() - 1.0) + rng.expovariate(rate)
            over.wait(max(0.0, due - time.monotonic()))
        stream.cancel()
        reader.join()

    return drive


def waiting(flow: modelflow.Flow, over: threading.Event) -> None:
    """Waits; the sources of the flow send."""
    over.wait()


# -- the trial ------------------------------------------------------------------------------------


@dataclass
class Verdict:
    """The answer of the doctor, and the gains.

    Attributes:
        found: Node and cause of the limit, or None.
        predicted: The predicted gain; None if there is no prediction.
        gained: The measured gain of the change; None without a change.
        curable: The measured gain of the cure; None without a cure.
        diagnosis: The whole diagnosis.
    """

    found: tuple[str, str] | None
    predicted: float | None
    gained: float | None
    curable: float | None
    diagnosis: Diagnosis

    def judge(self, planted: Planted | Served, *, is_beside: bool) -> str:  # noqa: PLR0911
        """Returns ``right``, or the mistake."""
        if is_beside and self.found is not None and self.found[1] == FOREIGN:
            return "right"
        if not planted.expected:
            return "right" if self.found is None else f"sick: {self.found}"
        if self.found not in planted.expected:
            return f"named {self.found}"
        if self.gained is not None and self.gained < -HARM:
            return f"HARMFUL {self.gained:+.0%}"
        if self.gained is not None and self.predicted and self.gained < 0.5 * self.predicted:
            return f"predicted {self.predicted:+.0%}, gained {self.gained:+.0%}"
        if self.gained is not None and (self.curable or 0.0) > 0.1:
            assert self.curable is not None
            if self.gained < 0.8 * self.curable:
                return f"gained {self.gained:+.0%} of {self.curable:+.0%}"
        return "right"


@contextmanager
def running(planted: Planted, changes: Mapping[str, Any]) -> Iterator[modelflow.Flow]:
    """Runs the graph with its user."""
    nodes = " ".join(f"{name} [{planted.attributes.get(name, '')}]" for name in planted.units)
    text = planted.graph.replace(
        "NODES",
        " ".join(
            f"{name} [{planted.attributes.get(name, '')}]"
            for name in planted.units
            if name != "files"
        ),
    ) or (
        f"digraph planted {{ {planted.flow} "
        f"input [type=input] {nodes} output [type=output] "
        "input -> first -> second -> third -> output }"
    )
    over = threading.Event()
    drive = planted.drive or streaming()
    units = list({id(one): one for one in planted.units.values()}.values())
    flow = modelflow.Flow(text, units=units, overrides={**planted.bound, **changes})
    with flow:

        def use() -> None:
            try:
                drive(flow, over)
            except (FlowUnitError, StreamClosed, Cancelled):
                return

        user = threading.Thread(target=use)
        user.start()
        try:
            time.sleep(0.7)
            yield flow
        finally:
            over.set()
            flow.stop(drain=False, wait=False)
            user.join()


def rate_of(flow: modelflow.Flow, seconds: float) -> float:
    """Returns the rows a second of the last node."""
    time.sleep(0.3)
    before = flow.stats()
    time.sleep(seconds)
    after = flow.stats()
    last = list(after)[-1]
    return (after[last].buffers - before[last].buffers) / (after.time - before.time)


def gain_of(planted: Planted, changes: Mapping[str, Any]) -> float | None:
    """Returns the gain of changes, measured without and with the changes in turns."""
    if not changes:
        return None
    rates: tuple[list[float], list[float]] = ([], [])
    for is_changed in (0, 1, 0, 1):
        with running(planted, changes if is_changed else {}) as flow:
            rates[is_changed].append(rate_of(flow, planted.seconds))
    before, after = map(max, rates)
    return after / before - 1.0 if before else None


def examine(planted: Planted | Served, seconds: float) -> Verdict:
    """Runs and examines the graph, and measures the change and the cure."""
    if isinstance(planted, Served):
        return examine_server(planted, seconds)
    with ExitStack() as stack:
        if planted.around is not None:
            stack.enter_context(planted.around())
        with running(planted, {}) as flow:
            found, _ = Examination(flow, seconds=seconds, is_driven=planted.is_driven).run()
        finding = found.findings[0] if found.findings else None
        named = None if finding is None else (finding.node, str(finding.cause))
        is_right = named in planted.expected
        changes = {} if finding is None else finding.change
        try:
            gained = gain_of(planted, changes)
        except ConfigError as error:
            print(f"    the change is refused: {error}")
            gained = -1.0
        cured = gained
        if is_right and gained is not None and changes != planted.cure:
            cured = gain_of(planted, planted.cure)
    return Verdict(named, None if finding is None else finding.gain, gained, cured, found)


PLANTS: dict[str, Callable[[int, random.Random], Planted | Served]] = {
    "errors": errors,
    "unread": unread,
    "slow reader": slow_reader,
    "queue bounds batch": queue_bounds,
    "queue behind bursts": queue_behind_bursts,
    "queue before bursts": queue_before_bursts,
    "loop bound": loop_bound,
    "rows in flight": in_flight,
    "in flight before batches": in_flight_before_batches,
    "straggler": stragglers,
    "timeout": timeout,
    "remote call": remote_call,
    "remote batches": remote_batches,
    "two alike": two_alike,
    "behind a file source": behind_file_source,
    "slow branch": branch,
    "inside an expand": inside_expand,
    "fused": fused,
    "device": device,
    "device, small batch": device_small_batch,
    "small batch, clients": small_batch_clients,
    "small batch, Poisson": small_batch_poisson,
    "batch in steps": steps,
    "one lock, two nodes": one_lock,
    "connections": connections,
    "computing under a lock": locked_computing,
    "one stream": one_stream,
    "disk": disk,
    "one thread computes": capacity,
    "all processors": all_processors,
    "Python loop": lock_here,
    "Python loop, importable": lock_importable,
    "Python beside C": lock_beside_c,
    "oversubscription": oversubscription,
    "threads of BLAS": engine_threads,
    "threads of OpenCV": opencv_threads,
    "garbage collection": collections,
    "padding": padding,
    "uneven shapes": uneven_shapes,
    "transfer": transfer,
    "copies": copies,
    "slow source": slow_source,
    "slow sender": slow_sender,
    "server, front end": server_front_end,
    "server, slow node": server_node,
    "foreign load of 1": foreign(1),
    "foreign load of 2": foreign(2),
    "foreign load of 4": foreign(4),
}
HEALTHY: dict[str, Callable[[int, random.Random], Planted | Served]] = {
    "camera": camera,
    "camera, stream unit": camera_stream,
    "paced clients": paced_clients,
    "idle": idle,
    "half load": half_load,
    "one client": one_client,
    "computing for 40 %": computing_half,
    "idle server": server_idle,
    "server at half load": server_half_load,
}


def main() -> None:
    """Plants all causes, and prints the table of answers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=[*PLANTS, *HEALTHY], action="append", default=[])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--beside", type=int, default=0, help="Other processes that compute.")
    parser.add_argument("--healthy", type=int, default=0, help="Runs of healthy flows instead.")
    asked = parser.parse_args()
    point = EntryPoint("slowbus", f"{__name__}:SlowMemory", GROUP)
    plugins.find_entry_points = lambda group: (
        (point,) if group == GROUP else tuple(entry_points(group=group))
    )
    MEMORIES.refresh()
    if asked.healthy:
        names = asked.only or list(HEALTHY)
        trials = [(names[n % len(names)], n // len(names) % 2, n) for n in range(asked.healthy)]
    else:
        names = asked.only or [*PLANTS, *HEALTHY]
        trials = [(n, place, s) for n in names for place in (0, 1) for s in range(asked.seeds)]
    answers: dict[str, list[str]] = {}
    seen: dict[str, Counter[str]] = {}
    with machine() as ran_on, burners(asked.beside):
        for name, place, seed in trials:
            planted = (PLANTS | HEALTHY)[name](place, random.Random(f"{name}/{place}/{seed}"))
            verdict = examine(planted, asked.seconds)
            told = verdict.judge(planted, is_beside=asked.beside > 0)
            answers.setdefault(name, []).append(told)
            named = "nothing" if verdict.found is None else verdict.found[1]
            seen.setdefault(name, Counter())[named] += 1
            gains = [verdict.predicted, verdict.gained, verdict.curable]
            text = " ".join("-" if gain is None else f"{gain:+.0%}" for gain in gains)
            print(f"{name} {place}/{seed}: {told} {verdict.found} {text}", flush=True)
            if told != "right":
                for finding in verdict.diagnosis.findings:
                    print(f"    {finding}", flush=True)
                print(f"    {verdict.diagnosis.experiments} {verdict.diagnosis.notes}", flush=True)
    rows = [
        [
            name,
            f"{found.count('right')} of {len(found)}",
            ", ".join(f"{cause} {count}" for cause, count in seen[name].most_common()),
            "; ".join(sorted({told for told in found if told != "right"})),
        ]
        for name, found in answers.items()
    ]
    total = [told for found in answers.values() for told in found]
    right = total.count("right")
    harmful = sum(told.startswith("HARMFUL") for told in total)
    title = f"{right} of {len(total)} right: {right / len(total):.1%}; {harmful} harmful changes"
    print_table(title, ["planted", "right", "named", "wrong"], rows)
    print(ran_on)


if __name__ == "__main__":
    main()
