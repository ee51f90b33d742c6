"""Tests that an incomplete stream is not ready, and never makes a producer wait."""

from typing import Any

from modelflow.buffer import Buffer
from modelflow.plan import UnitPlan
from modelflow.runtime.kinds.collapse import CollapseCall, CollapseOrder, Parts
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.session.segment import Segment, Stream
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, unit_of
from tests.runtime.kinds.test_expand import collapse, expand
from tests.runtime.queues.test_inbox import segment, stream


def order(bound=2):
    return CollapseOrder(InboxPolicy((bound,)), 1, 1)


def test_a_stream_is_one_row_of_its_parent_once_it_has_ended():
    here, top = order(), stream()
    sub = Stream(top.session, top, 7)
    here.add(0, [segment(sub, 0, 2)])
    assert (here.ready, bool(here.waiting), here.count_held()) == (0, False, 1)
    here.add(0, [segment(sub, 2, 1, is_last=True)])
    batch = here.cut(8)
    assert (batch.spans[0].stream, batch.spans[0].positions) == (top, (7,))
    assert [[b.data for b in cell] for cell in batch.columns[0]] == [[0, 1, 2]]
    assert here.count_held() == 0


def test_what_is_not_complete_never_makes_a_producer_wait():
    here, top = order(bound=1), stream()
    sub = Stream(top.session, top, 0)
    here.add(0, [segment(sub, 0, 100)])
    assert here.has_room(0, None)
    here.add(0, [segment(sub, 100, 1, is_last=True)])
    assert not here.has_room(0, None)


def test_a_row_of_several_segments_is_in_error_if_one_of_them_is():
    here, top = order(), stream()
    sub = Stream(top.session, top, 0)
    here.add(0, [Segment(sub, range(1), [[Buffer(1)]], False, True)])
    here.add(0, [segment(sub, 1, 1, is_last=True)])
    assert here.cut(8).has_errors


def test_an_end_of_an_enclosing_stream_passes():
    here, top = order(), stream()
    here.add(0, [segment(top, 0, 0, is_last=True)])
    assert here.cut(8).spans[0].is_session_end


def test_what_a_cancelled_session_has_gathered_is_dropped():
    here, top = order(), stream()
    sub = Stream(top.session, top, 0)
    here.add(0, [segment(sub, 0, 2)])
    top.session.is_cancelled = True
    here.add(0, [segment(sub, 2, 1, is_last=True)])
    assert here.count_held() == 0


def test_clear_and_drop_forget_what_was_gathered():
    for how in (lambda here, session: here.drop(session), lambda here, session: here.clear()):
        here, top = order(), stream()
        here.add(0, [segment(Stream(top.session, top, 0), 0, 2)])
        how(here, top.session)
        assert here.count_held() == 0


def test_a_session_of_which_nothing_is_gathered_is_dropped_with_its_tickets():
    here, top = CollapseOrder(InboxPolicy((8,), is_ordered=True), 1, 1), stream()
    here.add(0, [segment(Stream(top.session, top, row), 0, 1, is_last=True) for row in (0, 1)])
    assert here.cut(1).spans[0].ticket == 0
    here.drop(top.session)
    assert here.count_held() == 0


def test_a_gathered_stream_that_comes_too_late_is_one_error():
    clock = FakeClock()

    def pass_time(ctx):
        clock.advance(2.0)
        ctx.outputs["out"] = ctx.inputs["in"]

    calls = []

    def gather(ctx):
        calls.append(len(ctx.input()))
        ctx.emit([sum(b.data for b in ctx.input())])

    graph = chain(expand(), unit_of(pass_time, batch_size=1), collapse(gather))
    with Running(graph, clock=clock, is_inline=True) as flow:
        stream = flow.session()
        stream.send("input", 3, deadline=5.0)
        stream.send("input", 2, deadline=60.0)
        stream.close_input()
        late, good = stream.recv(errors="return"), stream.recv(errors="return")
    assert "its deadline passed" in str(late.error)
    assert good.data == 41  # 20 + 21
    assert calls == [2]


def test_a_row_of_two_ports_has_the_buffers_of_each_and_the_time_of_its_end():
    here, top = CollapseOrder(InboxPolicy((8, 8)), 2, 1), stream()
    sub = Stream(top.session, top, 3)
    parts = []
    for first, is_last in ((0, False), (2, True)):
        columns = [[Buffer(f"{port}{first}")] for port in "ab"]
        parts.append(Segment(sub, range(first, first + 1), columns, is_last, False))
        parts[-1].arrived = float(first)
    here.add(0, parts)
    (row,) = here._queue
    assert (row.stream, row.positions, row.is_last, row.arrived) == (top, (3,), False, 2.0)
    assert [[b.data for b in cell] for column in row.columns for cell in column] == [
        ["a0", "a2"],
        ["b0", "b2"],
    ]


def test_streams_of_several_sessions_are_gathered_apart_and_a_cancelled_one_is_left_out():
    here, tops = order(bound=8), [stream(name) for name in "abc"]
    subs = [Stream(top.session, top, 0) for top in tops]
    here.add(0, [segment(sub, number, 1) for number, sub in enumerate(subs)])
    assert here.count_held() == 3
    tops[0].session.is_cancelled = True
    here.add(0, [segment(sub, 9, 1, is_last=True) for sub in subs])
    batch = here.cut(8)
    assert [span.stream for span in batch.spans] == tops[1:]
    assert [[b.data for b in cell] for cell in batch.columns[0]] == [[1, 9], [2, 9]]
    assert here.count_held() == 0


def test_a_collapse_that_gives_two_says_so():
    def process(ctx):
        ctx.emit([1, 2])

    spec = collapse(process)
    call = CollapseCall(
        spec.devices["cpu"](), UnitPlan("node", spec, inputs=("in",), consumers=(1,))
    )
    columns: Any = [[Parts([Buffer(1)])]]
    ((bad,),) = call.process(columns, False, lambda row: None)
    text = "gave 2 values on output 'out'; a collapse gives exactly one for the whole of its stream"
    assert text in str(bad.error)
    assert (call.failed, call.has_errors) == (1, True)
