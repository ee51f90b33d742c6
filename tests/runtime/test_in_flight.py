"""The bound on what is inside the whole graph."""

import threading

import pytest

from modelflow.runtime.in_flight import InFlight
from modelflow.unit.kind import Kind
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, graph_of, unit_of


def never():
    return False


def test_it_is_full_at_its_bound_until_rows_leave_or_it_is_closed():
    here, found = InFlight(2), []
    for change in (lambda: here.add(2), lambda: here.remove(1), lambda: here.add(5), here.close):
        change()
        found.append(here.is_full)
    assert found == [True, False, True, False]


def test_a_callback_comes_at_once_or_when_rows_have_left():
    here, calls = InFlight(1), []
    here.on_room(lambda: calls.append("at once"), never)
    here.add(1)
    here.on_room(lambda: calls.append("over"), lambda: True)
    here.on_room(lambda: calls.append("later"), never)
    assert calls == ["at once", "over"]
    here.remove(1)
    here.call_due()
    assert calls == ["at once", "over", "later"]


def test_a_callback_that_was_taken_back_does_not_come():
    here, calls = InFlight(1), []
    here.add(1)

    def call():
        calls.append(1)

    here.on_room(call, never)
    here.forget(call)
    here.close()
    assert calls == []


def test_a_thread_waits_until_it_is_woken_and_not_where_nothing_is_to_enter():
    here, clock = InFlight(1), FakeClock()
    here.add(1)
    here.wait(clock, None, lambda: True)
    waiter = threading.Thread(
        target=here.wait, args=(clock, None, never), name="modelflow/test/waiter"
    )
    waiter.start()
    clock.until_waiting()
    here.wake()
    waiter.join()


@pytest.mark.parametrize("threads", ["inline", "threads"])
@pytest.mark.parametrize(
    ("kind", "outputs", "process"),
    [
        (Kind.CONDITION, ("a", "b"), lambda ctx: ctx.emit(ctx.input(), "b")),
        (Kind.EXPAND, ("out",), lambda ctx: None),
        (Kind.EXPAND, ("out",), lambda ctx: ctx.emit([1, 2, 3])),
        (Kind.STREAM, ("out",), lambda ctx: ctx.emit([1, 2, 3])),
    ],
    ids=["other output", "none", "more", "stream"],
)
def test_rows_leave_where_a_node_whose_outputs_feed_nothing_changes_their_count(
    kind, outputs, process, threads
):
    unit = unit_of(process, kind=kind, outputs=outputs)
    graph = graph_of({"input": "input", "last": unit}, ["input -> last"], max_in_flight=1)
    with Running(graph, is_inline=threads == "inline") as flow:
        stream = flow.session()
        for number in range(5):
            stream.send("input", number, timeout=0 if threads == "inline" else 60)
        stream.close_input()
        assert stream.wait(60)
        assert flow.scheduler._wiring._in_flight.rows == 0
