"""Tests of the runtime's guarantees, over settings that hypothesis chooses."""

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from modelflow.errors import EndOfStream
from modelflow.unit.unit import FlowUnit
from tests.example_counts import of_a_hundred
from tests.runtime.graphs import Running, graph_of, per_item, spec_of

node_settings = st.fixed_dictionaries(
    {
        "threads": st.integers(1, 8),
        "batch_size": st.integers(1, 16),
        "queue_size": st.integers(1, 64),
    }
)


class Pair(FlowUnit):
    def process(self, ctx):
        ctx.emit([(a.data, b.data) for a, b in zip(ctx.inputs["a"], ctx.inputs["b"], strict=True)])


def diamond(first, left, right, join):
    """input -> first -> (left, right) -> join -> output; the right way is one node shorter."""
    return graph_of(
        {
            "input": "input",
            "first": (spec_of(), first),
            "left": (per_item(lambda x: x * 2), left),
            "left2": (per_item(lambda x: x + 1), left),
            "right": (per_item(lambda x: -x), right),
            "join": (spec_of(Pair, inputs=("a", "b")), join),
            "output": "output",
        },
        [
            "input -> first",
            "first -> left",
            "left -> left2",
            "left2 -> join:a",
            "first -> right",
            "right -> join:b",
            "join -> output",
        ],
    )


def sent_and_received(flow, count, sessions=1):
    """Sends ``count`` numbers in each of several concurrent sessions; returns the results."""
    got = {}

    def use(number):
        stream = flow.session()

        def send():
            for i in range(count):
                stream.send("input", i, timeout=60)
            stream.close_input()

        sender = threading.Thread(target=send, name=f"modelflow/test/send{number}")
        sender.start()
        found = got[number] = []
        try:
            while True:
                found.append(stream.recv(timeout=60).data)
        except EndOfStream:
            sender.join()

    users = [
        threading.Thread(target=use, args=(n,), name=f"modelflow/test/use{n}")
        for n in range(sessions)
    ]
    for user in users:
        user.start()
    for user in users:
        user.join()
    return got


@settings(max_examples=of_a_hundred(4))
@given(node_settings, node_settings, node_settings, node_settings)
def test_ten_thousand_buffers_through_fork_and_join(first, left, right, join):
    with Running(diamond(first, left, right, join)) as flow:
        got = sent_and_received(flow, 10_000)
    assert got[0] == [(2 * i + 1, -i) for i in range(10_000)]


@settings(max_examples=of_a_hundred(25))
@given(node_settings, node_settings, node_settings, node_settings, st.integers(2, 5))
def test_sessions_side_by_side_each_get_their_own_in_order(first, left, right, join, sessions):
    with Running(diamond(first, left, right, join)) as flow:
        got = sent_and_received(flow, 100, sessions)
    assert got == {n: [(2 * i + 1, -i) for i in range(100)] for n in range(sessions)}


@settings(max_examples=of_a_hundred(25))
@given(
    node_settings,
    node_settings,
    st.sets(st.integers(0, 199)),
    st.sets(st.integers(0, 199)),
)
def test_errors_stay_in_their_places(first, second, bad_first, bad_second):
    def failing(bad):
        def check(x):
            if x in bad:
                raise ValueError(x)
            return x

        return per_item(check)

    graph = graph_of(
        {
            "input": "input",
            "a": (failing(bad_first), first),
            "b": (failing(bad_second), second),
            "output": "output",
        },
        ["input -> a", "a -> b", "b -> output"],
    )
    with Running(graph) as flow:
        stream = flow.session()
        for i in range(200):
            stream.send("input", i)
        stream.close_input()
        got = [stream.recv(timeout=60, errors="return") for _ in range(200)]
    for i, buffer in enumerate(got):
        where = "a" if i in bad_first else "b" if i in bad_second else None
        assert (buffer.error.node if buffer.error else None) == where
        assert buffer.data == (None if where else i)


@settings(max_examples=of_a_hundred(15))
@given(node_settings, node_settings, node_settings, node_settings)
def test_a_slow_end_holds_send_back_so_that_memory_is_bounded(first, left, right, join):
    gate = threading.Event()

    class Waits(FlowUnit):
        def process(self, ctx):
            gate.wait()
            ctx.outputs["out"] = ctx.inputs["in"]

    slow = {"threads": 1, "batch_size": 1, "queue_size": 1}
    graph = diamond(first, left, right, join)
    nodes = {**{n: _given(graph, n) for n in graph.nodes}, "slow": (spec_of(Waits), slow)}
    edges = [f"{e.source} -> {e.target}" for e in graph.edges if e.target.node != "output"]
    with Running(graph_of(nodes, [*edges, "join -> slow", "slow -> output"])) as flow:
        stream = flow.session()
        sent = 0
        try:
            while sent < 1024:
                stream.send("input", sent, timeout=0.05)
                sent += 1
        except TimeoutError:
            pass
        # Each node holds its queue, and for each worker a batch in its call and one batch beyond
        # the bound.
        bound = 4 + sum(
            s["queue_size"] * 2 + 3 * s["threads"] * s["batch_size"]
            for s in (first, left, left, join)
        )
        assert sent <= bound
        gate.set()
        stream.close_input()
        assert len([1 for _ in stream]) == sent


@settings(max_examples=of_a_hundred(15))
@given(node_settings, node_settings, node_settings, node_settings, st.integers(0, 300))
def test_cancel_in_the_middle_disturbs_nobody(first, left, right, join, when):
    with Running(diamond(first, left, right, join)) as flow:
        cancelled, other = flow.session(), flow.session()
        for i in range(300):
            if i == when:
                cancelled.cancel()
            elif i < when:
                cancelled.send("input", i)
            other.send("input", i)
        other.close_input()
        assert [b.data for b in other] == [(2 * i + 1, -i) for i in range(300)]
        cancelled.cancel()
    assert flow.scheduler.count_held() == {}


def _given(graph, name):
    node = graph.nodes[name]
    if node.spec is None:
        return str(node.role)
    s = node.settings
    return (
        node.spec,
        {"threads": s.threads, "batch_size": s.batch_size, "queue_size": s.queue_size},
    )
