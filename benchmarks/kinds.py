"""The other kinds of unit: their cost, branches of unlike speed, many open streams.

python benchmarks/kinds.py [--quick]
"""

import argparse
import gc
import threading
import time

from measure import medians, print_table
from overhead import streamed
from sessions import resident

import modelflow


@modelflow.flowunit
def same(value: object) -> object:
    """Returns its input."""
    return value


@modelflow.flowunit
def slow(value: object, *, seconds: float = 0.002) -> object:
    """Returns its input after ``seconds``."""
    time.sleep(seconds)
    return value


@modelflow.flowunit(kind="condition", outputs=("often", "seldom"))
def one_in_ten(value: int) -> str:
    """Sends every tenth number the other way."""
    return "often" if value % 10 else "seldom"


@modelflow.flowunit(kind="expand")
def copies(value: int) -> list[int]:
    """Returns eight copies of a value."""
    return [value] * 8


@modelflow.flowunit(kind="collapse")
def first(values: list[int]) -> int:
    """Returns the first of eight values."""
    return values[0]


@modelflow.flowunit(kind="loop", outputs=("again", "done"))
def once_more(value: int) -> dict[str, int]:
    """Sends each value round the loop once, marked by an addition of 2 ** 20."""
    return {"done": value} if value >= 1 << 20 else {"again": value + (1 << 20)}


@modelflow.flowunit
def plain(value: int) -> int:
    """Removes the loop's addition."""
    return value % (1 << 20)


class Count(modelflow.FlowUnit):
    """Numbers the buffers of a stream."""

    SPEC = modelflow.FlowUnitSpec(
        "count",
        {"cpu": lambda: Count()},  # noqa: PLW0108 - the name is not bound yet
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        kind=modelflow.Stream(),
    )

    def process(self, ctx: modelflow.Context) -> None:
        """Keeps a number, and gives the buffers on."""
        ctx.state["count"] = ctx.state.get("count", 0) + len(ctx.input())
        ctx.emit(ctx.input())


UNITS = [same, slow, one_in_ten, copies, first, once_more, plain, Count]
GRAPHS = {
    "normal": "input -> same -> output",
    "stream, batch 1": "input -> count -> output",
    "stream, batch 8": "count [batch_size=8] input -> count -> output",
    "condition, merged": "input -> one_in_ten one_in_ten:often -> output "
    "one_in_ten:seldom -> output",
    "expand to 8, collapse": "input -> copies -> first -> output",
    "loop, once round": "input -> once_more once_more:again -> once_more once_more:done -> plain "
    "-> output",
}


def flow_of(text: str) -> modelflow.Flow:
    """Returns a flow of nodes with one thread each."""
    names = [
        n for n in ("same", "one_in_ten", "copies", "first", "once_more", "plain") if n in text
    ]
    nodes = " ".join(f"{name} [threads=1]" for name in names)
    head = f"queue_size=64 input [type=input] output [type=output] {nodes}"
    return modelflow.Flow(f"digraph {{ {head} {text} }}", units=UNITS)


def cost_table(count: int, rounds: int) -> None:
    """Prints the cost of a buffer through one node of each kind."""
    flows = {name: flow_of(text).start() for name, text in GRAPHS.items()}
    found = medians(
        {name: lambda flow=flow: streamed(flow, count) for name, flow in flows.items()}, rounds
    )
    for flow in flows.values():
        flow.stop()
    base = found["normal"]
    print_table(
        "us a buffer through one node (expand, collapse, loop: two), with send and recv",
        ("kind", "us", "against normal"),
        [(name, us, us / base) for name, us in found.items()],
    )


def branch_table(count: int, seconds: float) -> None:
    """Prints how a seldom, slow branch and a fast one get along."""
    graph = (
        "slow [threads=1] input -> one_in_ten one_in_ten:often -> same -> output "
        "one_in_ten:seldom -> slow -> output"
    )
    with flow_of(graph) as flow:
        ahead = []
        start = time.perf_counter()
        stream = flow.create_stream_io()

        def send() -> None:
            for value in range(count):
                stream.send("input", value)
            stream.close_input()

        sender = threading.Thread(target=send)
        sender.start()
        received = []
        for buffer in stream:
            received.append(buffer.data)
            done = flow.stats()
            ahead.append(done["same"].buffers - 9 * done["slow"].buffers)
        sender.join()
        took = time.perf_counter() - start
    assert received == list(range(count))
    ideal = count / 10 * seconds
    print_table(
        f"a condition sends 1 of 10 through a node that takes {seconds * 1e3:g} ms; merged",
        ("what", "figure"),
        [
            ("buffers", count),
            ("seconds, the slow node alone", ideal),
            ("seconds, the whole", took),
            ("whole / slow node alone", took / ideal),
            ("most buffers by which the fast branch was ahead", max(ahead)),
        ],
    )


def session_table(sessions: int) -> None:
    """Prints the memory and the threads of open, idle streams."""
    with flow_of("input -> count -> same -> output") as flow:
        flow.infer(0)
        threads = threading.active_count()
        gc.collect()
        before = resident()
        streams = [flow.create_stream_io() for _ in range(sessions)]
        for number, stream in enumerate(streams):
            stream.send("input", number)
        for stream in streams:
            stream.recv()
        gc.collect()
        after = resident()
        start = time.perf_counter()
        for number, stream in enumerate(streams):
            stream.send("input", number)
        for stream in streams:
            stream.recv()
        took = time.perf_counter() - start
        more = threading.active_count() - threads
        for stream in streams:
            stream.close_input()
    print_table(
        f"{sessions} sessions with an open stream in a stream unit",
        ("what", "figure"),
        [
            ("KiB an idle session", (after - before) * 1024 / sessions),
            ("threads more", more),
            ("us a buffer, one in each session", took / sessions * 1e6),
        ],
    )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small counts: to see that it runs")
    quick = parser.parse_args().quick
    cost_table(200 if quick else 5000, 1 if quick else 5)
    branch_table(100 if quick else 5000, 0.002)
    session_table(50 if quick else 1000)


if __name__ == "__main__":
    main()
