"""Tests of the free rows for whole requests, in the first queues and in the whole graph."""

import math
from contextlib import ExitStack

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, QueueFullError, StreamClosed
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.entry.request_group import EntryPort, SessionEntry, count_fitting, count_room
from modelflow.runtime.session.in_flight import InFlight
from tests.runtime.entry.test_submitter import Full
from tests.runtime.graphs import Running, chain, graph_of, unit_of
from tests.runtime.session.test_request_batch import Waits


class Held(Full):
    """A flow whose only worker is in a call, and whose queue has room for so many rows."""

    def __init__(self, rows, queued=0, **more):
        settings = {"queue_size": rows, **more.pop("settings", {})}
        super().__init__(settings, queued, SYSTEM_CLOCK, **more)

    def __enter__(self):
        self.submitter = super().__enter__().flow.scheduler.submitter
        return self


def in_flight_of(bound, rows=0):
    found = InFlight(bound, SYSTEM_CLOCK)
    found.add(rows)
    return found


@pytest.mark.parametrize(
    ("queue", "queued", "bound", "free"),
    [(4, 0, None, 4), (4, 1, None, 3), (1, 1, None, 0), (9, 1, 4, 2), (3, 0, 9, 3), (9, 0, 1, 0)],
)
def test_free_rows_are_those_of_the_queue_and_of_the_whole_graph(queue, queued, bound, free):
    with Held(queue, queued, max_in_flight=bound) as held:
        assert held.submitter.free_rows == free


def test_free_rows_are_those_of_the_input_with_the_least_room():
    unit = unit_of(lambda ctx: ctx.emit(ctx.input()))
    nodes = {"x": "input", "y": "input", "a": (unit, {"queue_size": 5}), "out": "output"}
    edges = ["x -> a", "a -> out", "y -> b", "b -> end"]
    nodes |= {"b": (unit, {"queue_size": 2}), "end": "output"}
    with Running(graph_of(nodes, edges)) as flow:
        assert flow.scheduler.submitter.free_rows == 2
    with Running(graph_of({"x": "input", "out": "output"}, ["x -> out"])) as flow:
        assert flow.scheduler.submitter.free_rows == math.inf


@pytest.mark.parametrize(
    ("queued", "rows", "bound", "is_together", "count", "reason"),
    [
        (0, 4, None, False, 4, None),
        (0, 6, None, False, 4, "the queue of node 'n0' is full"),
        (0, 6, None, True, 6, None),
        (3, 6, None, True, 6, None),  # room for one
        (4, 6, None, True, 0, "the queue of node 'n0' is full"),
        (0, 3, (3, 0), True, 3, None),
        (0, 5, (3, 0), True, 3, "max_in_flight=3"),
        (0, 2, (3, 2), False, 1, "max_in_flight=3"),
        (0, 2, (3, 5), False, 0, "max_in_flight=3"),
    ],
)
def test_so_many_rows_of_requests_that_go_together_have_room(
    queued, rows, bound, is_together, count, reason
):
    with Held(4, queued) as held:
        port, in_flight = held.submitter.port("input"), bound and in_flight_of(*bound)
        found, backpressure = count_room(
            rows, port, in_flight, SYSTEM_CLOCK, is_together=is_together
        )
        assert (found, backpressure and backpressure.reason.startswith(reason)) == (
            count,
            reason and True,
        )


def test_each_node_behind_an_input_has_room_of_its_own():
    with ExitStack() as held:
        flows = [held.enter_context(Held(4, queued)) for queued in (0, 4)]
        roomy, full = (one.submitter.port("input") for one in flows)
        both = EntryPort("input", (*roomy.route, *full.route), False, lambda: None)
        found, _ = count_room(6, both, None, SYSTEM_CLOCK, is_together=True)
        assert found == 0


def test_who_waits_for_the_whole_graph_is_told_when_there_is_room_and_not_before():
    came = []
    with Held(9) as held:
        in_flight, port = in_flight_of(1, 1), held.submitter.port("input")
        for _, backpressure in (
            count_room(1, port, in_flight, SYSTEM_CLOCK, is_together=False),
            count_fitting([{"input": [0]}], {"input": port}, in_flight, SYSTEM_CLOCK),
        ):
            assert backpressure is not None
            backpressure.wait(0)  # no room yet
            backpressure.on_gone(lambda: came.append(1))
        assert came == []
        in_flight.remove(1)
        in_flight.wake()
        assert came == [1, 1]


def test_a_request_that_brings_nothing_takes_no_room():
    with Held(9) as held:
        port = held.submitter.port("input")
        columns = [{}, {"input": [0]}, {}, {"input": [0]}]
        found, _ = count_fitting(columns, {"input": port}, in_flight_of(1), SYSTEM_CLOCK)
        assert found == 2


def test_a_request_that_brought_nothing_is_not_inside_the_graph():
    with Running(chain(unit_of(lambda ctx: ctx.emit(ctx.input())), max_in_flight=2)) as flow:
        entries = [SessionEntry(one, {}, None) for one in flow.scheduler.create_sessions(3)]
        assert flow.scheduler.submitter.enter_many(entries) == (3, None)
        assert flow.scheduler.submitter.free_rows == 2


def test_the_bound_of_the_whole_graph_holds_for_whole_requests():
    with Held(9, max_in_flight=3) as held:
        count, backpressure = held.submitter.count_fitting([{"input": [0]}] * 4)
        assert (count, backpressure.reason.startswith("max_in_flight=3")) == (2, True)


def test_each_way_in_waits_for_room_in_the_whole_graph():
    with Held(9, max_in_flight=1) as held:
        (session,) = held.flow.scheduler.create_sessions(1)
        given, _ = requests_of(held.flow, 1)
        for count, backpressure in (
            held.submitter.count_fitting([{"input": [0]}]),
            held.submitter.enter_many([SessionEntry(session, {"input": [Buffer(0)]}, None)]),
            held.submitter.enter_request_batch(*given),
        ):
            assert (count, backpressure.reason[:15]) == (0, "max_in_flight=1")
            backpressure.wait(0)


def requests_of(flow, *values):
    session, members = flow.scheduler.create_request_batch(), Waits(len(values))
    rows = [value if isinstance(value, Buffer) else Buffer(value) for value in values]
    return (session, members, rows, [1] * len(rows)), members


def test_requests_that_go_together_enter_as_far_as_there_is_room_unless_all_are_to():
    with Held(2) as held:
        given, _ = requests_of(held.flow, 1, 2, 3)
        count, backpressure = held.submitter.enter_request_batch(*given)
        assert (count, backpressure is None) == (2, False)
    with Held(1) as held:
        (session, members, rows, _), _ = requests_of(held.flow, 1, 2, 3)
        entered = held.submitter.enter_request_batch(session, members, rows, [3])
        assert entered == (1, None)  # enters whole, although the room is one row


def test_requests_whose_session_has_ended_are_told_why_and_reach_nobody():
    with Running(chain(unit_of(lambda ctx: ctx.emit(ctx.input())))) as flow:
        given, members = requests_of(flow, 1, 2)
        flow.scheduler.cancel(given[0])
        assert flow.scheduler.submitter.enter_request_batch(*given) == (2, None)
        assert [type(failure) for (failure,) in members.failures] == [Cancelled, Cancelled]
        assert [str(failure) for (failure,) in members.failures] == [
            f"session {given[0].name!r} was cancelled"
        ] * 2
        assert flow.scheduler.count_held() == {}


def test_a_row_that_comes_in_error_reaches_no_unit_and_is_its_answer():
    seen = []

    def note(ctx):
        seen.extend(row.data for row in ctx.input())
        ctx.emit(ctx.input())

    def wrong():
        return Buffer.from_error(StreamClosed("wrong from the start"))

    with Running(chain((unit_of(note), {"batch_size": 8})), is_inline=True) as flow:
        (session,) = flow.scheduler.create_sessions(1)
        columns = {"input": [Buffer(1), wrong(), Buffer(3)]}
        flow.scheduler.submitter.enter_many([SessionEntry(session, columns, None)])
        flow.scheduler.pump()
        found = session.results["output"].get_all(flow.scheduler.options.clock, 60)
        assert [buffer.error is None for buffer in found] == [True, False, True]

        given, members = requests_of(flow, 4, wrong(), 5)
        flow.scheduler.submitter.enter_request_batch(*given)
        flow.scheduler.pump()
    assert seen == [1, 3, 4, 5]
    assert [found[0]["output"] for found in members.found] == [4, None, 5]


def test_who_is_refused_is_counted():
    with Held(1, 1, settings={"queue_policy": "reject"}) as held:
        for _ in range(2):
            with pytest.raises(QueueFullError):
                held.flow.session().send("input", 3)
        assert held.submitter.refusals == 2
