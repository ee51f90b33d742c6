"""Tests under load and errors: nothing hangs, nothing is lost, nothing is kept."""

import asyncio
import contextlib
import gc
import random
import threading

import pytest

from modelflow.errors import (
    Cancelled,
    EndOfStream,
    FlowUnitError,
    QueueFullError,
    StreamClosed,
)
from modelflow.runtime.waiting import Waiting
from modelflow.unit.kind import Condition
from modelflow.unit.unit import FlowUnit
from tests.alarms import repeat_until_alarm, untraced
from tests.runtime.crowds import USERS, side_by_side
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, unit_of


def waiting_callbacks():
    gc.collect()
    return [c for o in gc.get_objects() if type(o) is Waiting for c in o._callbacks or ()]


def in_flight(flow):
    return flow.scheduler._wiring._in_flight.rows


def diamond(middle, **more):
    """Returns a graph with two branches that meet, and an edge around both branches."""
    part = unit_of(
        lambda ctx: ctx.emit(ctx.input(), "odd" if ctx.input()[0].data % 2 else "even"),
        kind=Condition(),
        outputs=("odd", "even"),
        name="part",
    )
    join = unit_of(
        lambda ctx: ctx.emit([a.data for a in ctx.inputs["a"]]), inputs=("a", "b"), name="join"
    )
    nodes = {
        "input": "input",
        "part": (part, {"threads": 2}),
        "odd": (middle, {"threads": 3, "batch_size": 2}),
        "even": (spec_of(), {"threads": 2}),
        "join": (join, {"threads": 2}),
        "output": "output",
    }
    edges = [
        "input -> part",
        "part:odd -> odd",
        "part:even -> even",
        "odd -> join:a",
        "even -> join:a",
        "input -> join:b",
        "join -> output",
    ]
    return graph_of(nodes, edges, **more)


def test_ten_thousand_sessions_that_are_dropped_leave_nothing(caplog):
    with Running(chain(per_item(lambda x: x), max_in_flight=4)) as flow:

        def use(number):
            stream = flow.session()
            stream.send("input", number)
            if number % 2:
                assert stream.recv(timeout=60).data == number

        for number in range(10_000):
            use(number)
        flow.infer(1)  # a new session ends those that were dropped
        gc.collect()
        last = flow.session()
        last.close_input()
        assert last.wait(60)
        assert len(flow.scheduler._sessions.known) < 10
    assert in_flight(flow) == 0
    assert flow.scheduler.count_held() == {}


def test_cancels_and_errors_give_back_their_places_in_flight():
    def failing(x):
        if x % 3 == 0:
            raise ValueError(x)
        return x

    with Running(diamond(per_item(failing), max_in_flight=3)) as flow:

        def use(number):
            chance = random.Random(number)
            for _ in range(40):
                stream = flow.session()
                with contextlib.suppress(Cancelled, EndOfStream):
                    for value in range(chance.randrange(8)):
                        stream.send("input", value, timeout=60)
                        if chance.random() < 0.1:
                            stream.cancel()
                    if chance.random() < 0.7:
                        stream.close_input()
                        while chance.random() < 0.9:
                            stream.recv(timeout=60, errors="return")
                stream.cancel()

        side_by_side(use)
        assert flow.infer(2).data == 2
    assert in_flight(flow) == 0
    assert flow.scheduler.count_held() == {}


def test_meetings_keep_nothing_of_sessions_that_are_cancelled():
    gate = threading.Event()

    def slow(x):
        gate.wait()
        return x

    with Running(diamond(per_item(slow))) as flow:
        streams = [flow.session() for _ in range(20)]
        for stream in streams:
            for value in range(2):
                stream.send("input", value, timeout=60)
        for stream in streams[1:]:
            stream.cancel()
        gate.set()
        streams[0].close_input()
        assert [b.data for b in streams[0]] == [0, 1]
    assert flow.scheduler.count_held() == {}


def test_a_cancelled_await_leaves_no_callback():
    gate = threading.Event()

    def slow(x):
        gate.wait()
        return x

    async def use(flow):
        settings = random.Random(0)
        streams = [flow.session() for _ in range(30)]
        waiting = [s.arecv() for s in streams]
        waiting += [s.asend("input", 1) for s in streams]
        waiting += [s.aexchange({"input": [2]}) for s in (flow.session() for _ in range(30))]
        waiting += [s.arecv(timeout=0.001 * settings.random()) for s in streams]
        tasks = [asyncio.ensure_future(w) for w in waiting]
        await asyncio.sleep(0)
        settings.shuffle(tasks)
        for task in tasks[::2]:
            task.cancel()
            await asyncio.sleep(0)
        for stream in streams:
            stream.cancel()
        gate.set()
        for task in tasks[1::2]:
            with contextlib.suppress(Cancelled, TimeoutError, StreamClosed):
                await task
        await asyncio.gather(*tasks, return_exceptions=True)

    graph = chain(
        (per_item(slow), {"threads": 1, "queue_size": 1, "batch_size": 1}), max_in_flight=3
    )
    with Running(graph, results_bound=2) as flow:
        asyncio.run(use(flow))
        assert waiting_callbacks() == []
    assert in_flight(flow) == 0
    assert flow.scheduler.count_held() == {}


def test_readers_that_are_slow_hold_back_their_own_session_alone():
    graph = chain((per_item(lambda x: x), {"queue_size": 2}))
    with Running(graph, results_bound=2) as flow:
        slow = flow.session()
        slow.send("input", 1)
        slow.send("input", 2)
        with pytest.raises(TimeoutError):
            slow.send("input", 3, timeout=0.01)
        side_by_side(lambda n: [flow.infer(n) for _ in range(50)])
        assert [slow.recv(timeout=60).data for _ in range(2)] == [1, 2]
        slow.close_input()


@pytest.mark.parametrize("make", [SystemExit, KeyboardInterrupt, GeneratorExit, ValueError])
def test_whatever_units_raise_belongs_to_its_buffers(make):
    def raising(x):
        if x % 7 == 0:
            raise make(x)
        return x

    with Running(diamond(per_item(raising))) as flow:

        def use(number):
            for value in range(30):
                if value % 2 and value % 7 == 0:
                    with pytest.raises(FlowUnitError, match=make.__name__):
                        flow.infer(value)
                else:
                    assert flow.infer(value).data == value

        side_by_side(use, 4)


def test_under_overload_each_request_is_answered_or_refused():
    answered, refused = [], []
    graph = chain((per_item(lambda x: x), {"threads": 1, "queue_size": 1}), max_in_flight=2)
    with Running(graph) as flow:

        def use(number):
            for value in range(200):
                stream = flow.session()
                try:
                    found = stream.exchange({"input": [value]}, 60, wait=False)
                except QueueFullError:
                    refused.append(value)
                else:
                    assert [b.data for b in found["output"]] == [value]
                    answered.append(value)

        side_by_side(use)
        stream = flow.session()
        sent = []
        for value in range(200):
            with contextlib.suppress(QueueFullError):
                stream.send("input", value, wait=False)
                sent.append(value)
        stream.close_input()
        assert [b.data for b in stream] == sent
    assert len(answered) + len(refused) == 200 * USERS
    assert in_flight(flow) == 0
    assert flow.scheduler.count_held() == {}


def test_a_signal_handler_ends_a_flow_in_the_middle_of_anything():
    for number in range(20):
        flow = Running(chain(per_item(lambda x: x), max_in_flight=2))

        def end(*_, flow=flow):
            flow.scheduler.request_stop(drain=False)

        with untraced():
            flow.scheduler.start()
            try:
                with pytest.raises(StreamClosed):
                    repeat_until_alarm(
                        lambda flow=flow: flow.infer(1), 0.0005 * (number + 1), handler=end
                    )
            finally:
                flow.scheduler.stop()
        assert flow.scheduler.count_held() == {}


def test_a_unit_is_reloaded_under_load():
    class Reloaded(FlowUnit):
        version = 0

        def process(self, ctx):
            ctx.emit([self.version for _ in ctx.input()])

        def reload(self):
            self.version += 1

    graph = chain((spec_of(Reloaded, is_shared=True), {"threads": 3, "batch_size": 4}))
    with Running(graph) as flow:

        def use(number):
            if number == 0:
                for _ in range(100):
                    flow.scheduler.reload("n0")
                return
            seen = [flow.infer(1).data for _ in range(100)]
            assert seen == sorted(seen)

        side_by_side(use)
        assert flow.infer(1).data == 100
