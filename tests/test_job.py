"""Tests of many items through a flow: `Flow.map` and `Flow.amap`."""

import asyncio
import gc
import itertools
import threading
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import modelflow
from modelflow.errors import FlowUnitError, StreamClosed
from tests.example_counts import of_a_hundred
from tests.runtime.graphs import graph_of, per_item, unit_of

SECONDS = 60


def flow_of(work, **node):
    nodes = {"input": "input", "work": (per_item(work), node), "output": "output"}
    return modelflow.Flow(graph_of(nodes, ["input -> work", "work -> output"]))


def odd_fails(value):
    if value % 2:
        message = "odd"
        raise ValueError(message)
    return value * 10


class Gate:
    """Lets each value pass after the value's event."""

    def __init__(self, count):
        self.open = [threading.Event() for _ in range(count)]
        self.entered = [threading.Event() for _ in range(count)]

    def work(self, value):
        self.entered[value].set()
        assert self.open[value].wait(SECONDS)
        return value


def data(pairs):
    return [(item, answer.data) for item, answer in pairs]


def test_every_item_comes_with_its_answer_in_order():
    with flow_of(lambda value: value * 10, threads=4) as flow:
        assert data(flow.map(range(200))) == [(value, value * 10) for value in range(200)]
        assert data(flow.map([])) == []
        assert data(flow.map({"input": value} for value in (1, 2))) == [
            ({"input": 1}, 10),
            ({"input": 2}, 20),
        ]


def test_what_is_done_first_comes_first_where_the_order_does_not_matter():
    gate = Gate(3)
    with flow_of(gate.work, threads=3, batch_size=1) as flow:
        for event in gate.open[1:]:
            event.set()
        found = flow.map(range(3), ordered=False)
        assert sorted(item for item, _ in itertools.islice(found, 2)) == [1, 2]
        gate.open[0].set()
        assert data(found) == [(0, 0)]


class Large:
    """A large result that a job must not keep."""


async def amapped(flow, items, **options):
    return [item async for item, _ in flow.amap(items, **options) if item is None]


@pytest.mark.parametrize("way", ["map", "amap"])
@pytest.mark.parametrize("more", [{}, {"deadline": 60.0}])
def test_items_that_are_done_are_gone_though_nobody_collects_cycles(way, more):
    live, most = weakref.WeakSet(), []

    def items():
        for _ in range(300):
            item = Large()
            live.add(item)
            most.append(len(live))
            yield item

    gc.collect()
    gc.disable()
    try:
        with flow_of(lambda value: 1) as flow:
            if way == "amap":
                asyncio.run(amapped(flow, items(), in_flight=8, **more))
            else:
                for _ in flow.map(items(), in_flight=8, **more):
                    pass
    finally:
        gc.enable()
    assert len(most) == 300
    # the rows of the last batch, and rows that a thread has just released
    assert max(most) < 8 + 50


def test_no_more_items_are_taken_than_may_be_under_way():
    taken = []

    def items():
        for value in itertools.count():
            taken.append(value)
            yield value

    with flow_of(abs) as flow:
        found = flow.map(items(), in_flight=5)
        assert taken == []
        for number in range(20):
            assert next(found)[0] == number
            assert len(taken) <= number + 5
        found.close()
        assert flow.infer(3).data == 3


@pytest.mark.parametrize("ordered", [True, False])
def test_an_item_that_fails_ends_it_or_is_its_answer(ordered):
    with flow_of(odd_fails, threads=2) as flow:
        found = list(flow.map(range(6), ordered=ordered, errors="return"))
        assert sorted(item for item, _ in found) == list(range(6))
        for item, answer in found:
            if item % 2:
                assert isinstance(answer, FlowUnitError)
                assert "odd" in str(answer)
            else:
                assert answer.data == item * 10
        pairs = flow.map(range(6), in_flight=1, ordered=ordered)
        assert next(pairs)[0] == 0
        with pytest.raises(FlowUnitError, match="odd"):
            next(pairs)
        assert list(pairs) == []
        assert flow.stats().in_flight == 0


def test_what_the_items_raise_comes_behind_the_answers():
    def items():
        yield 1
        yield 2
        message = "the disk is gone"
        raise OSError(message)

    with flow_of(abs) as flow:
        found = flow.map(items())
        assert [next(found)[0], next(found)[0]] == [1, 2]
        with pytest.raises(OSError, match="the disk is gone"):
            next(found)


def test_who_leaves_the_loop_gives_up_what_is_under_way():
    gate = Gate(8)
    with flow_of(gate.work, threads=1, batch_size=1) as flow:
        gate.open[0].set()
        for item, _ in flow.map(range(8), in_flight=8):
            assert item == 0
            break
        gate.entered[1].wait(SECONDS)
        for event in gate.open:
            event.set()
    stats = flow.stats()
    assert stats.in_flight == 0
    assert stats.requests["cancelled"] >= 6
    assert not any(event.is_set() for event in gate.entered[2:])


def test_an_item_that_does_not_fit_the_inputs_fails_alone():
    graph = graph_of(
        {
            "a": "input",
            "b": "input",
            "sum": unit_of(lambda ctx: ctx.emit(ctx.input("a")), inputs=("a", "b")),
            "output": "output",
        },
        ["a -> sum:a", "b -> sum:b", "sum -> output"],
    )
    with modelflow.Flow(graph) as flow:
        good, bad = {"a": 1, "b": 2}, {"a": 1, "c": 2}
        found = dict(enumerate(flow.map([good, bad, 7, good], errors="return")))
        assert found[0][1].data == found[3][1].data == 1
        assert isinstance(found[1][1], KeyError)
        assert "expected ['a', 'b']" in str(found[1][1])
        assert isinstance(found[2][1], KeyError)


def test_where_the_graph_has_little_room_all_get_in():
    nodes = {"input": "input", "work": (per_item(abs), {"queue_size": 1}), "output": "output"}
    graph = graph_of(nodes, ["input -> work", "work -> output"])
    with modelflow.Flow(graph) as flow:
        assert [item for item, _ in flow.map(range(300), in_flight=100)] == list(range(300))


def test_a_flow_that_stops_ends_it():
    gate = Gate(4)
    with flow_of(gate.work, threads=1, batch_size=1) as flow:
        found = flow.map(range(4), errors="return")
        gate.open[0].set()
        assert next(found)[0] == 0
        gate.entered[1].wait(SECONDS)
        stopping = threading.Thread(target=flow.stop, args=[False])
        stopping.start()
        item, answer = next(found)
        for event in gate.open:
            event.set()
        stopping.join()
        assert (item, type(answer)) == (1, StreamClosed)
        assert [type(answer) for _, answer in found] == [StreamClosed] * 2
        with pytest.raises(StreamClosed):
            next(flow.map([1]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_flight": 0}, "in_flight: got 0; expected at least 1"),
        ({"errors": "ignore"}, "errors: got 'ignore'; expected 'raise' or 'return'"),
    ],
)
def test_what_a_caller_says_is_checked_at_once(options, message):
    with flow_of(abs) as flow, pytest.raises(ValueError, match=message):
        flow.map([1], **options)


@settings(deadline=None, max_examples=of_a_hundred(30))
@given(
    st.lists(st.integers(0, 9), max_size=40),
    st.integers(1, 9),
    st.booleans(),
    st.integers(1, 4),
)
def test_nothing_is_lost_or_sent_twice(values, in_flight, ordered, batch_size):
    with flow_of(odd_fails, threads=3, batch_size=batch_size) as flow:
        options = {"ordered": ordered, "in_flight": in_flight, "errors": "return"}
        items = list(enumerate(values))
        found = list(flow.map((value for _, value in items), **options))
        assert sorted(item for item, _ in found) == sorted(values)
        if ordered:
            assert [item for item, _ in found] == values
        assert all(isinstance(answer, FlowUnitError) == (item % 2 == 1) for item, answer in found)
    # of the stopped flow, because a request is counted after its reader has the result
    assert sum(flow.stats().requests.values()) == len(values)


# -- without blocking the event loop --------------------------------------------------------------


def collected(flow, items, **options):
    async def run():
        return [pair async for pair in flow.amap(items, **options)]

    return asyncio.run(run())


@pytest.mark.parametrize("ordered", [True, False])
def test_asynchronously_too(ordered):
    async def items():
        for value in range(50):
            await asyncio.sleep(0)
            yield value

    with flow_of(odd_fails, threads=2) as flow:
        for some in (items(), range(50)):
            found = collected(flow, some, ordered=ordered, errors="return", in_flight=7)
            assert sorted(item for item, _ in found) == list(range(50))
            assert not ordered or [item for item, _ in found] == list(range(50))
        with pytest.raises(FlowUnitError, match="odd"):
            collected(flow, [2, 3], in_flight=1)


def test_answers_do_not_wait_for_an_item_that_does_not_come():
    async def run(flow):
        more = asyncio.Event()

        async def items():
            yield 1
            await more.wait()
            yield 2
            message = "no more"
            raise OSError(message)

        found = flow.amap(items())
        first = await asyncio.wait_for(anext(found), SECONDS)
        more.set()
        second = await asyncio.wait_for(anext(found), SECONDS)
        with pytest.raises(OSError, match="no more"):
            await anext(found)
        return first[0], second[0]

    with flow_of(abs) as flow:
        assert asyncio.run(run(flow)) == (1, 2)


def test_a_task_that_is_cancelled_gives_up_what_is_under_way():
    gate = Gate(3)

    async def run(flow):
        async def use():
            async for _ in flow.amap(range(3)):
                pass

        task = asyncio.create_task(use())
        await asyncio.to_thread(gate.entered[0].wait, SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with flow_of(gate.work, threads=1, batch_size=1) as flow:
        asyncio.run(run(flow))
        for event in gate.open:
            event.set()
    assert flow.stats().in_flight == 0
    assert not any(event.is_set() for event in gate.entered[1:])
