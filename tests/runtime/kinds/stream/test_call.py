"""Tests of the individual calls of a stream unit."""

import dataclasses

import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.errors import EndFlow, FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.kinds.stream.call import StreamCall
from modelflow.runtime.kinds.stream.numbering import Numbering
from modelflow.runtime.kinds.stream.session_queue import OpenStream
from modelflow.unit.kind import Count, Stream
from modelflow.unit.port import Port
from tests.runtime.graphs import unit_of
from tests.runtime.queues.test_inbox import stream


def refuse(event, delay):
    return False


def call_of(
    process, *, hooks=None, is_exception_visible=False, is_in_place=False, count=Count.ANY, **more
):
    spec = unit_of(process, hooks=hooks or {}, kind=Stream(count), **more)
    spec = dataclasses.replace(spec, inputs=(Port("in", is_in_place=is_in_place),))
    outputs = [port.name for port in spec.outputs]
    plan = UnitPlan(
        "node",
        spec,
        inputs=("in",),
        consumers=(1,) * len(outputs),
        is_exception_visible=is_exception_visible,
    )
    call = StreamCall(spec.devices["cpu"](), plan)
    call.begin()
    return call


def opened(count=Count.ANY):
    source = stream()
    return OpenStream(source, [Numbering(source, count)])


def same(ctx):
    ctx.emit([buffer.data for buffer in ctx.input()])


def data(call):
    return [b.data if b.error is None else str(b.error.__cause__) for b in call.given[0]]


def test_a_batch_is_one_call_unless_a_row_in_it_is_in_error():
    sizes = []

    def process(ctx):
        sizes.append(len(ctx.input()))
        same(ctx)

    bad = Buffer.from_error(FlowUnitError("before", node="n"))
    call, open_stream = call_of(process), opened()
    call.rows(open_stream, range(4), [[Buffer(0), Buffer(1), bad, Buffer(3)]], refuse)
    assert sizes == [2, 1]
    assert [b.data for b in call.given[0]] == [0, 1, None, 3]


def test_what_a_start_raises_is_the_error_of_every_row():
    def fail(ctx):
        raise SystemExit("no camera")

    call, open_stream = call_of(same, hooks={"stream_start": fail}), opened()
    call.start(open_stream, refuse)
    assert not open_stream.is_started
    call.event(open_stream, "event", refuse)  # not called either
    call.rows(open_stream, range(2), [[Buffer(0), Buffer(1)]], refuse)
    call.end(open_stream, is_cancelled=False)
    assert data(call) == ["no camera", "no camera"]


def test_an_end_is_told_whether_the_session_was_cancelled():
    told = []
    hooks = {"stream_end": lambda ctx: told.append(ctx.is_cancelled)}
    for is_cancelled in (False, True):
        call, open_stream = call_of(same, hooks=hooks), opened()
        call.start(open_stream, refuse)
        call.end(open_stream, is_cancelled=is_cancelled)
    assert told == [False, True]


def test_nothing_is_taken_at_the_end():
    answers = []
    hooks = {"stream_end": lambda ctx: answers.append(ctx.send_event())}
    call, open_stream = call_of(same, hooks=hooks), opened()
    call.start(open_stream, refuse)
    call.end(open_stream, is_cancelled=False)
    assert answers == [False]


@pytest.mark.parametrize("given", [0, 1])
def test_what_is_owed_at_the_end_is_made_up_for_with_errors(given):
    call = call_of(lambda ctx: ctx.emit([1] * given), count=Count.SAME)
    open_stream = opened(Count.SAME)
    call.rows(open_stream, range(2), [[Buffer(0), Buffer(1)]], refuse)
    call.end(open_stream, is_cancelled=False)
    assert len(call.given[0]) == 2
    assert f"ended {2 - given} buffers short on output 'out'" in data(call)[-1]
    assert call.given[0][0] is not call.given[0][1]


BEFORE = FlowUnitError("before", node="n")


def bad():
    return Buffer.from_error(BEFORE)


METHODS = ["stream_start", "process", "stream_end"]


@pytest.mark.parametrize("method", METHODS)
def test_a_unit_that_ends_the_flow_does_so_in_each_of_its_calls(method):
    def leave(ctx):
        raise EndFlow("enough")

    hooks = {} if method == "process" else {method: leave}
    call = call_of(leave if method == "process" else same, hooks=hooks)
    open_stream, done = opened(), []
    with pytest.raises(EndFlow):
        call.start(open_stream, refuse)
        done.append("stream_start")
        call.rows(open_stream, range(1), [[Buffer(0)]], refuse)
        done.append("process")
        call.end(open_stream, is_cancelled=False)
    assert method not in done
    assert len(done) == METHODS.index(method)


def test_events_may_be_sent_from_the_start_and_from_every_call_of_a_batch():
    posted = []

    def post(event, delay):
        posted.append((event, delay))
        return True

    def process(ctx):
        assert ctx.send_event("row", delay=2.0)

    hooks = {"stream_start": lambda ctx: ctx.send_event("start")}
    call, open_stream = call_of(process, hooks=hooks), opened()
    call.start(open_stream, post)
    call.rows(open_stream, range(3), [[Buffer(0), bad(), Buffer(2)]], post)
    call.event(open_stream, "event", post)
    assert posted == [("start", 0.0)] + [("row", 2.0)] * 3


def test_a_call_for_an_event_has_no_rows_and_sees_the_meta_of_its_stream():
    seen = []

    def process(ctx):
        seen.append((ctx.event, ctx.inputs, ctx.session, ctx.state, ctx.stream_meta))

    call, open_stream = call_of(process), opened()
    call.event(open_stream, "event", refuse)
    stream = open_stream.outputs[0].stream
    assert seen == [("event", {"in": []}, {}, {}, {})]
    assert seen[0][2] is stream.session.context
    assert seen[0][3] is open_stream.state
    assert seen[0][4] is stream.meta


def test_a_failing_event_is_one_error_that_names_its_session():
    def fail(ctx):
        raise ValueError("no event")

    call, open_stream = call_of(fail), opened()
    call.event(open_stream, "event", refuse)
    assert data(call) == ["no event"]
    assert (call.failed, call.given[0][0].error.session) == (1, "s")


@pytest.mark.parametrize("holds", [False, True])
def test_a_stream_is_held_as_its_last_call_says(holds):
    calls = []

    def process(ctx):
        calls.append(1)
        if holds == (len(calls) == 2):
            ctx.hold()

    call, open_stream = call_of(process), opened()
    for _ in range(2):
        call.rows(open_stream, range(1), [[Buffer(0)]], refuse)
    assert open_stream.is_held is holds


@pytest.mark.parametrize("inherits_meta", [False, True])
def test_what_is_owed_has_the_meta_that_came_in_where_the_unit_wants_that(inherits_meta):
    call = call_of(same, count=Count.SAME, inherits_meta=inherits_meta)
    open_stream = opened(Count.SAME)
    call.rows(open_stream, range(1), [[Buffer(0, {"k": 1})]], refuse)
    _, (given,) = open_stream.outputs[0].number(call.given[0])
    assert given.meta == ({"k": 1} if inherits_meta else {})


def test_a_unit_to_which_errors_are_visible_owes_a_buffer_for_each():
    def process(ctx):
        ctx.emit([row.error is None for row in ctx.input()])

    call = call_of(process, is_exception_visible=True, count=Count.SAME)
    open_stream = opened(Count.SAME)
    call.rows(open_stream, range(2), [[Buffer(0), bad()]], refuse)
    assert data(call) == [True, False]
    positions, given = open_stream.outputs[0].number(call.given[0])
    assert (list(positions), [b.data for b in given]) == ([0, 1], [True, False])


def test_an_end_that_fails_is_the_error_of_what_is_owed_and_no_other():
    def fail(ctx):
        raise ValueError("no end")

    call = call_of(lambda ctx: None, hooks={"stream_end": fail}, count=Count.SAME)
    open_stream = opened(Count.SAME)
    call.start(open_stream, refuse)
    call.rows(open_stream, range(2), [[Buffer(0), Buffer(1)]], refuse)
    call.end(open_stream, is_cancelled=False)
    assert data(call) == ["no end", "no end"]
    assert call.given[0][0].error.session == "s"
    assert open_stream.stream.session.progress.errors == []


def test_a_unit_whose_count_is_assumed_owes_nothing_at_the_end():
    call, open_stream = call_of(lambda ctx: None), opened(Count.ASSUMED)
    call.rows(open_stream, range(2), [[Buffer(0), Buffer(1)]], refuse)
    call.end(open_stream, is_cancelled=False)
    assert data(call) == []


def test_more_than_is_owed_fails_the_call_and_says_how_much_that_was():
    def process(ctx):
        ctx.emit([1] * (2 if ctx.input()[0].data == "two" else 1))

    call = call_of(process, count=Count.SAME)
    open_stream = opened(Count.SAME)
    call.rows(open_stream, range(3), [[Buffer("one"), bad(), Buffer("two")]], refuse)
    first, second = data(call)
    assert first == 1
    assert second.startswith("gave 2 values on output 'out' for 1 inputs without a result; a")


def test_a_stream_unit_that_writes_to_its_input_gets_a_copy_where_another_sees_it():
    def process(ctx):
        (row,) = ctx.input()
        row.data[:] = 7
        ctx.emit([row.data])

    array = np.zeros(2)
    array.flags.writeable = False
    call = call_of(process, is_in_place=True)
    call.rows(opened(), range(1), [[Buffer(array)]], refuse)
    assert (array.tolist(), call.given[0][0].data.tolist()) == ([0, 0], [7, 7])


def test_what_passes_a_sink_is_kept_for_its_end_with_its_errors():
    def process(ctx):
        if ctx.input()[0].data == "bad":
            raise ValueError("is bad")

    call, open_stream = call_of(process, outputs=()), opened()
    rows = [Buffer(0), bad(), Buffer(1), bad()]
    call.rows(open_stream, range(4), [rows], refuse)
    call.rows(open_stream, range(1), [[Buffer("bad")]], refuse)
    assert [
        b.data if b.error is None else str(b.error.__cause__ or b.error) for b in call.given[0]
    ] == [
        0,
        str(BEFORE),
        1,
        str(BEFORE),
        "is bad",
    ]
