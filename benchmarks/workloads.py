"""Graphs of nodes that do nothing, used in the standard ways to measure the runtime's cost."""

import asyncio
import json
import socket
from collections.abc import Callable

from serving_peers.first_server import GRAPH as FIRST
from serving_peers.first_server import first

import modelflow
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.plan.make import make_plan
from modelflow.serve.options import ServeOptions
from modelflow.serve.requests.infer_request import InferCall
from modelflow.serve.requests.served_model import ServedModel
from modelflow.serve.server import Server

__all__ = ["SAME", "WORKLOADS", "built", "exchanged", "graph", "inferred", "served", "streamed"]


class Same(modelflow.FlowUnit):
    """A unit that returns its input."""

    def process(self, ctx: modelflow.Context) -> None:
        """Forwards the batch."""
        ctx.outputs["out"] = ctx.inputs["in"]


SAME = modelflow.FlowUnitSpec(
    name="same",
    devices={"cpu": Same},
    inputs=(modelflow.Port("in"),),
    outputs=(modelflow.Port("out"),),
)


@modelflow.flowunit(name="function")
def call(value: object) -> object:
    """Returns its input."""
    return value


@modelflow.flowunit(name="batched", batched=True)
def call_batch(values: list[object]) -> list[object]:
    """Returns its inputs."""
    return values


UNITS = [SAME, call, call_batch]


def graph(nodes: int, attributes: str, unit: str = "same") -> str:
    """Returns input -> nodes of the unit -> output."""
    names = [f"n{i}" for i in range(nodes)]
    declared = " ".join(f"{name} [flowunit={unit} {attributes}]" for name in names)
    chain = " -> ".join(["input", *names, "output"])
    return f"digraph {{ input [type=input] output [type=output] {declared} {chain} }}"


def built(items: int) -> None:
    """Reads, checks and plans ``items`` graphs."""
    text = graph(3, "")
    for _ in range(items):
        make_plan(modelflow.read_graph(text, units=[SAME]))


def streamed(attributes: str, sessions: int = 1, unit: str = "same") -> Callable[[int], None]:
    """Returns a run that sends items through four nodes, round-robin over open sessions."""

    def run(items: int) -> None:
        with modelflow.Flow(graph(4, attributes, unit), units=UNITS) as flow:
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


def exchanged(rows: int) -> Callable[[int], None]:
    """One session after the other of so many rows each, on the calling thread."""

    def run(items: int) -> None:
        with modelflow.Flow(graph(4, "threads=1 batch_size=8"), units=[SAME], threads=0) as flow:
            for start in range(0, items, rows):
                with flow.create_stream_io() as stream:
                    stream.exchange({"input": range(start, start + rows)})

    return run


def served(rows: int, under_way: int) -> Callable[[int], None]:
    """Requests of so many rows to a served model, so many of them under way at any time.

    The model's queue has room for 32 rows: the other requests wait in front of the flow.
    """

    async def ask(flow: modelflow.Flow, requests: int) -> None:
        model = ServedModel("m", 1, flow, LoopQueue(asyncio.get_running_loop()), ServeOptions())
        is_over = asyncio.Event()
        sent = answered = 0

        def send() -> None:
            nonlocal sent
            if sent < requests:
                sent += 1
                model.send({"input": [0] * rows}, done)

        def done(call: InferCall) -> None:
            nonlocal answered
            call.buffers()
            answered += 1
            if answered == requests:
                is_over.set()
            send()

        for _ in range(under_way):
            send()
        await is_over.wait()

    def run(items: int) -> None:
        attributes = "threads=1 batch_size=8 queue_size=32"
        with modelflow.Flow(graph(2, attributes), units=[SAME], threads=0) as flow:
            asyncio.run(ask(flow, items))

    return run


def predicted(rows: int, headers: str = "") -> Callable[[int], None]:
    """Predict requests of so many rows over one connection, each behind the answer before."""
    body = json.dumps({"instances": [[0.5, 1.0]] * rows}).encode()
    head = f"POST /v1/models/first:predict HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: "
    message = f"{head}{len(body)}\r\n\r\n".encode() + body

    def run(items: int) -> None:
        flow = modelflow.Flow(FIRST, units=[first])
        with Server({"first": flow}, ServeOptions(http_port=0)) as server:
            port = int(server.address.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port)) as client:
                for _ in range(items):
                    client.sendall(message)
                    client.recv(1 << 16)

    return run


# Each has a number of items that shows its cost. A workload on the calling thread alone costs the
# same in every run. With several threads, the order of their turns decides how full batches are.
WORKLOADS: dict[str, tuple[Callable[[int], None], int]] = {
    "building a graph of three nodes": (built, 64),
    "infer": (inferred(None), 1024),
    "infer, threads=0": (inferred(0), 1024),
    "64 rows a session, batch 8, threads=0": (exchanged(64), 8192),
    "streamed, batch 1": (streamed("threads=1 batch_size=1"), 4096),
    "streamed, batch 8": (streamed("threads=1 batch_size=8"), 8192),
    "streamed, batch 8, 2 threads a node": (streamed("threads=2 batch_size=8"), 8192),
    "streamed, batch 8, as one stage": (streamed("threads=1 batch_size=8 fuse=a"), 8192),
    "streamed, batch 8, 1000 sessions": (streamed("threads=1 batch_size=8", 1000), 8192),
    "functions, streamed, batch 1": (streamed("threads=1 batch_size=1", 1, "function"), 4096),
    "functions, streamed, batch 16": (streamed("threads=1 batch_size=16", 1, "function"), 8192),
    "batched functions, streamed, batch 1": (
        streamed("threads=1 batch_size=1", 1, "batched"),
        4096,
    ),
    "batched functions, streamed, batch 16": (
        streamed("threads=1 batch_size=16", 1, "batched"),
        8192,
    ),
    "requests of 1 row, 8 under way": (served(1, 8), 4096),
    "requests of 1 row, 512 under way": (served(1, 512), 8192),
    "requests of 8 rows, 8 under way": (served(8, 8), 4096),
    "requests of 8 rows, 512 under way": (served(8, 512), 8192),
    "predict of 1 row, 1 connection": (predicted(1), 1024),
    "predict of 2 rows, 1 connection": (predicted(2), 1024),
    "predict of 1 row with an id, 1 connection": (predicted(1, "X-Request-Id: a\r\n"), 1024),
}
