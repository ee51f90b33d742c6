"""Tests the doctor's diagnoses with twelve problems, each at two nodes with three seeds.

python benchmarks/planted_causes.py [--only "small batch"] [--seconds 2.5] [--seeds 3]

A graph of three nodes has one problem in the first or the second node. A healthy graph, without a
finding, is tested, too. On a quiet machine the doctor should name node and cause in at least 95 %
of the cases. The load of other programs is itself a problem that the doctor names.
"""

# ruff: noqa: ARG001, ARG002, D102 - methods and functions that others call

import argparse
import hashlib
import multiprocessing
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np
from machine import machine
from measure import print_table

import modelflow
from modelflow import plugins
from modelflow.device import Device, Memory
from modelflow.device.lookup import GROUP, MEMORIES
from modelflow.errors import Cancelled, FlowUnitError, StreamClosed
from modelflow.insight.doctor import Case, Diagnosis, diagnose
from modelflow.profile.process import LockProbe
from modelflow.profile.snapshot import Snapshot
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit

NODES = ("first", "second", "third")


@dataclass
class Planted:
    """A graph with a problem.

    Attributes:
        expected: Node and cause; None if nothing is to be found.
        units: The unit of each node.
        attributes: The attributes of each node.
        drive: Uses the flow until its event is set.
        around: Entered while the doctor watches.
        graph: The text, if it is not the chain.
    """

    expected: tuple[str, str] | None
    units: dict[str, Callable[..., Any]]
    attributes: dict[str, str] = field(default_factory=dict)
    drive: "Callable[[modelflow.Flow, threading.Event], None] | None" = None
    around: Callable[[], Any] | None = None
    graph: str = ""
    is_driven: bool = True


def unit(function: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """Makes a flow unit of a function."""
    name = more.pop("name")
    function.__name__ = name
    return modelflow.flowunit(function, **more)


def sleeper(name: str, seconds: float, each: float = 0.0) -> Callable[..., Any]:
    """Waits so long for a call, and so long for each of its rows."""

    def wait(values: list[Any]) -> list[Any]:
        time.sleep(seconds + each * len(values))
        return values

    return unit(wait, name=name, batched=True)


def passing(name: str) -> Callable[..., Any]:
    """Takes 0.1 ms."""
    return sleeper(name, 1e-4)


def chain(troubled: int, trouble: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Puts one unit at a place among others that do next to nothing."""
    return {name: trouble if at == troubled else passing(name) for at, name in enumerate(NODES)}


# -- the troubles -------------------------------------------------------------------------------


def planted_errors(place: int, rng: random.Random) -> Planted:
    share = rng.uniform(0.1, 0.3)
    own = random.Random(rng.random())

    def fail(value: Any) -> Any:
        time.sleep(5e-4)
        if own.random() < share:
            message = "planted"
            raise ValueError(message)
        return value

    node = NODES[place]
    return Planted((node, "errors"), chain(place, unit(fail, name=node)))


def planted_unread(place: int, rng: random.Random) -> Planted:
    names = ("left", "right")
    graph = """digraph unread { input [type=input] first second
        left [type=output] right [type=output]
        input -> first  input -> second  first -> left  second -> right }"""
    units = {"first": passing("first"), "second": sleeper("second", rng.uniform(1e-4, 4e-4))}
    return Planted(
        (names[place], "unread results"), units, graph=graph, drive=reading(names[1 - place])
    )


def planted_lock(place: int, rng: random.Random) -> Planted:
    rounds = rng.randint(8000, 20000)

    def compute(value: Any) -> Any:
        total = 0
        for number in range(rounds):
            total += number & 7
        return value

    node = NODES[place]
    units = chain(place, unit(compute, name=node))
    return Planted((node, "interpreter lock"), units, {node: f"threads={rng.choice((3, 4))}"})


def hashing(name: str, megabytes: float) -> Callable[..., Any]:
    """Computes without the interpreter's lock."""
    data = np.random.default_rng(1).bytes(int(megabytes * 1e6))

    def digest(value: Any) -> Any:
        hashlib.sha256(data).digest()
        return value

    return unit(digest, name=name)


def burn(over: Any) -> None:
    """Computes until the event is set."""
    while not over.is_set():
        sum(range(20000))


@contextmanager
def burners(count: int) -> Iterator[None]:
    """Starts other processes that compute."""
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    processes = [context.Process(target=burn, args=(over,)) for _ in range(count)]
    for process in processes:
        process.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        over.set()
        for process in processes:
            process.join()


def planted_foreign(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, hashing(node, rng.uniform(1.0, 3.0)))
    return Planted(
        (node, "foreign load"),
        units,
        {node: "threads=2"},
        around=lambda: burners(rng.choice((4, 6))),
    )


def planted_oversubscription(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, hashing(node, rng.uniform(1.0, 3.0)))
    return Planted((node, "oversubscription"), units, {node: f"threads={rng.choice((6, 8, 10))}"})


def planted_bound(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, sleeper(node, rng.uniform(5e-3, 8e-3), 1e-4))
    bound = rng.choice((2, 4))
    return Planted(
        (node, "queue bounds the batch"),
        units,
        {node: f"threads=1, batch_size=16, queue_size={bound}"},
    )


def planted_slow_input(place: int, rng: random.Random) -> Planted:
    pause = rng.uniform(5e-3, 20e-3)
    if place == 0:
        units = {name: passing(name) for name in NODES}
        return Planted(("input", "slow input"), units, drive=streaming(pause))

    def camera() -> Iterator[int]:
        while True:
            time.sleep(pause)
            yield 1

    graph = """digraph source { camera first second third
        camera -> first -> second -> third }"""
    units = {"camera": unit(camera, name="camera"), **{n: passing(n) for n in NODES}}
    return Planted(("camera", "slow input"), units, graph=graph, drive=waiting)


def planted_stragglers(place: int, rng: random.Random) -> Planted:
    own, slow = random.Random(rng.random()), rng.uniform(0.05, 0.1)

    def uneven(value: Any) -> Any:
        time.sleep(slow if own.random() < 0.02 else 1e-3)
        return value

    node = NODES[place]
    units = chain(place, unit(uneven, name=node))
    return Planted((node, "stragglers"), units, {node: "threads=4, batch_size=1, queue_size=4"})


def planted_capacity(place: int, rng: random.Random) -> Planted:
    node, seconds = NODES[place], rng.uniform(3e-3, 6e-3)

    def wait(value: Any) -> Any:
        time.sleep(seconds)
        return value

    units = chain(place, unit(wait, name=node))
    return Planted((node, "capacity"), units, {node: "threads=1"})


def planted_small_batch(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, sleeper(node, rng.uniform(4e-3, 8e-3), 2e-4))
    size = rng.choice((2, 4))
    return Planted(
        (node, "small batch"),
        units,
        {node: f"threads=1, batch_size={size}"},
        drive=streaming(0.0, jitter=True),
    )


class Padded(FlowUnit):
    """Fills its batches up, and says so as inference units do."""

    def open(self, config: Any) -> None:
        self._padding = 0

    def process(self, ctx: Any) -> None:
        rows = ctx.inputs["in"]
        self._padding += 8 - len(rows)
        time.sleep(1e-3)
        ctx.emit([buffer.data for buffer in rows])

    def figures(self) -> dict[str, dict[Any, int]]:
        return {"batching": {"padding": self._padding}}


def planted_padding(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, passing(node))
    units[node] = FlowUnitSpec(
        node, {"cpu": Padded}, inputs=(Port("in"),), outputs=(Port("out"),), is_shared=True
    )
    return Planted(
        (node, "padding"), units, {node: "batch_size=8"}, drive=clients(rng.choice((1, 2, 3)))
    )


def planted_timeout(place: int, rng: random.Random) -> Planted:
    node = NODES[place]
    units = chain(place, sleeper(node, 1e-3))
    wait = rng.choice((30, 50, 80))
    return Planted(
        (node, "batch timeout"),
        units,
        {node: f"threads=1, batch_size=16, batch_timeout_ms={wait}"},
        drive=clients(rng.choice((1, 2, 3))),
        is_driven=False,
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


def planted_copies(place: int, rng: random.Random) -> Planted:
    node, seconds = NODES[place], rng.uniform(1e-4, 1e-3)

    def touch(values: list[Any]) -> list[Any]:
        time.sleep(seconds)
        return values

    units = chain(place, unit(touch, name=node, batched=True, device="slowbus"))
    return Planted((node, "copies"), units, {node: "device=slowbus"})


def healthy(place: int, rng: random.Random) -> Planted:
    units = {name: sleeper(name, rng.uniform(5e-4, 2e-3)) for name in NODES}
    return Planted(None, units, drive=paced(rng.uniform(20, 60)), is_driven=False)


# -- who uses it --------------------------------------------------------------------------------


def streaming(
    pause: float, *, jitter: bool = False
) -> "Callable[[modelflow.Flow, threading.Event], None]":
    """Sends in one session as fast as possible, or with pauses, and reads all outputs."""

    def drive(flow: modelflow.Flow, over: threading.Event) -> None:
        rng = random.Random(0)
        stream = flow.create_stream_io()
        readers = [
            threading.Thread(target=read, args=(stream, output)) for output in stream.outputs
        ]
        for reader in readers:
            reader.start()
        while not over.is_set():
            stream.send("input", np.zeros(16, np.float32))
            if pause:
                over.wait(pause)
            elif jitter and rng.random() < 0.002:
                over.wait(0.12)  # all waiting items are done; then a few arrive alone
                for _ in range(4):
                    stream.send("input", np.zeros(16, np.float32))
                    over.wait(0.01)
        stream.close_input()
        for reader in readers:
            reader.join()

    return drive


def reading(output: str) -> "Callable[[modelflow.Flow, threading.Event], None]":
    """Sends in one session, and reads one output."""

    def drive(flow: modelflow.Flow, over: threading.Event) -> None:
        stream = flow.create_stream_io()
        reader = threading.Thread(target=read, args=(stream, output))
        reader.start()

        def send() -> None:
            try:
                while True:
                    stream.send("input", np.zeros(16, np.float32))
            except (StreamClosed, Cancelled):
                return

        sender = threading.Thread(target=send)
        sender.start()
        over.wait()
        stream.cancel()
        sender.join()
        reader.join()

    return drive


def read(stream: Any, output: str) -> None:
    """Reads buffers until the stream ends."""
    try:
        while True:
            stream.recv(output, errors="return")
    except (modelflow.EndOfStream, StreamClosed, Cancelled):
        return


def clients(count: int) -> "Callable[[modelflow.Flow, threading.Event], None]":
    """Starts ``count`` clients, each of which waits for its answer."""

    def drive(flow: modelflow.Flow, over: threading.Event) -> None:
        def use() -> None:
            while not over.is_set():
                flow.infer(np.zeros(16, np.float32))

        threads = [threading.Thread(target=use) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return drive


def paced(rate: float) -> "Callable[[modelflow.Flow, threading.Event], None]":
    """Sends consecutive requests at ``rate`` a second."""

    def drive(flow: modelflow.Flow, over: threading.Event) -> None:
        due = time.monotonic()
        while not over.is_set():
            flow.infer(np.zeros(16, np.float32))
            due += 1 / rate
            over.wait(max(0.0, due - time.monotonic()))

    return drive


def waiting(flow: modelflow.Flow, over: threading.Event) -> None:
    """Waits; the sources of the flow send."""
    over.wait()


# -- watching -----------------------------------------------------------------------------------


def seen(planted: Planted, seconds: float) -> Diagnosis:
    """Runs the graph, watches the flow, and returns the doctor's diagnosis."""
    nodes = " ".join(
        f"{name} [{planted.attributes[name]}]" if name in planted.attributes else name
        for name in planted.units
    )
    text = planted.graph or (
        f"digraph planted {{ fuse=off input [type=input] {nodes} output [type=output] "
        "input -> first -> second -> third -> output }"
    )
    over = threading.Event()
    drive = planted.drive or streaming(0.0)
    with ExitStack() as stack:
        if planted.around is not None:
            stack.enter_context(planted.around())
        flow = stack.enter_context(modelflow.Flow(text, units=list(planted.units.values())))

        def use() -> None:
            try:
                drive(flow, over)
            except FlowUnitError as error:
                raise SystemExit(str(error)) from error

        user = threading.Thread(target=use)
        user.start()
        try:
            time.sleep(1.0)
            before = Snapshot.of_flow(flow)
            with LockProbe() as probe:
                time.sleep(seconds)
            document = Snapshot.of_flow(flow).document()
        finally:
            over.set()
            if "camera" in planted.units:
                flow.stop(drain=False, wait=False)
            user.join()
    document["process"].update(probe.figures)
    return diagnose(Case.between(before, Snapshot.read(document), is_driven=planted.is_driven))


CAUSES = {
    "errors": planted_errors,
    "unread results": planted_unread,
    "interpreter lock": planted_lock,
    "foreign load": planted_foreign,
    "oversubscription": planted_oversubscription,
    "queue bounds the batch": planted_bound,
    "slow input": planted_slow_input,
    "stragglers": planted_stragglers,
    "capacity": planted_capacity,
    "small batch": planted_small_batch,
    "batch timeout": planted_timeout,
    "padding": planted_padding,
    "copies": planted_copies,
    "nothing": healthy,
}


def main() -> None:
    """Plants all problems, and prints the diagnoses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=CAUSES)
    parser.add_argument("--seconds", type=float, default=2.5)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    point = EntryPoint("slowbus", f"{__name__}:SlowMemory", GROUP)
    plugins.entry_points = lambda group: (point,) if group == GROUP else entry_points(group=group)
    MEMORIES.refresh()
    rows: list[list[str]] = []
    right = total = 0
    with machine() as ran_on:
        for cause, plant in CAUSES.items():
            if asked.only in (None, cause):
                for place in (0, 1):
                    named = [
                        name(plant(place, random.Random(f"{cause}/{place}/{seed}")), asked.seconds)
                        for seed in range(asked.seeds)
                    ]
                    total += len(named)
                    right += named.count("yes")
                    rows.append([cause, place, "; ".join(named)])
                    print(*rows[-1], flush=True)
    print_table(f"{right} of {total} named: {right / total:.1%}", ["planted", "place", ""], rows)
    print(ran_on)


def name(planted: Planted, seconds: float) -> str:
    """Returns ``yes``, or the wrong diagnosis."""
    diagnosis = seen(planted, seconds)
    first = next(iter(diagnosis.findings), None)
    found = None if first is None else (first.node, str(first.cause))
    if found == planted.expected:
        return "yes"
    return f"NO: {found} {() if first is None else first.evidence} for {planted.expected}"


if __name__ == "__main__":
    main()
