"""The calls of a stream unit, one by one."""

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.kinds.stream.call import StreamCall
from modelflow.runtime.kinds.stream.lane import OpenStream
from modelflow.runtime.kinds.stream.numbering import Numbering
from tests.runtime.graphs import unit_of
from tests.runtime.test_inbox import stream


def refuse(event, delay):
    return False


def call_of(process, *, hooks=None, **more):
    spec = unit_of(process, hooks=hooks or {}, **more)
    outputs = [port.name for port in spec.outputs]
    plan = UnitPlan("node", spec, inputs=("in",), consumers=(1,) * len(outputs))
    call = StreamCall(spec.devices["cpu"](), plan)
    call.begin()
    return call


def opened(**how):
    source = stream()
    return OpenStream(source, [Numbering(source, **how)])


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
    call.event(open_stream, "event", refuse)  # is not called either
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
    call = call_of(lambda ctx: ctx.emit([1] * given), is_same_count=True)
    open_stream = opened(is_same_count=True)
    call.rows(open_stream, range(2), [[Buffer(0), Buffer(1)]], refuse)
    call.end(open_stream, is_cancelled=False)
    assert len(call.given[0]) == 2
    assert f"ended {2 - given} buffers short on output 'out'" in data(call)[-1]
    assert call.given[0][0] is not call.given[0][1]
