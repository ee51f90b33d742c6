"""Runs of buffers, and the batches that are cut from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.buffer import Buffer
from modelflow.runtime.session.segment import Batch, Segment, Span, Stream
from tests.runtime.queues.test_inbox import data, segment, stream


def test_a_stream_knows_what_it_was_expanded_from_and_has_its_meta():
    top = stream()
    top.meta["fps"] = 25
    sub = Stream(top.session, top, 3)
    assert (sub.parent, sub.position, sub.depth) == (top, 3, 1)
    assert (top.parent, top.position, top.depth) == (None, 0, 0)
    assert sub.meta == {"fps": 25}
    sub.meta["fps"] = 5
    again = sub.renumber()
    again.meta["fps"] = 1
    assert (top.meta, sub.meta) == ({"fps": 25}, {"fps": 5})
    assert (again.parent, again.position, again is sub) == (top, 3, False)
    assert again.session is sub.session is top.session
    known = Stream(top.session, top, 3, [Buffer(1)])
    assert known.renumber().origin is known.origin
    assert [buffer.data for buffer in known.origin] == [1]
    assert top.origin == ()


def test_a_split_keeps_the_end_with_the_rest():
    whole = segment(stream(), 4, 3, is_last=True)
    assert whole.arrived == 0.0
    whole.arrived = 7.0
    whole.has_errors = True
    first, rest = whole.split(2)
    assert first.stream is rest.stream is whole.stream
    assert (first.has_errors, rest.has_errors) == (True, True)
    assert (first.positions, first.is_last) == (range(4, 6), False)
    assert (rest.positions, rest.is_last) == (range(6, 7), True)
    assert [len(part.columns[0]) for part in (first, rest)] == [2, 1]
    assert (first.arrived, rest.arrived) == (7.0, 7.0)


def test_a_twin_has_lists_and_buffers_of_its_own():
    one = Segment(stream(), range(1), [[Buffer("x", {"k": 0})]], True, True)
    other = one.twin()
    other.columns[0][0].set("k", 1)
    other.columns[0].clear()
    assert one.columns[0][0].meta == {"k": 0}
    assert (other.is_last, other.has_errors) == (True, True)


def test_a_span_joins_what_follows():
    s = stream()

    def join(*segments):
        (span,) = Batch.of(segments, 1).spans
        return span

    nothing, end = Segment(s, (), [[]], False, False), segment(s, 3, 0, is_last=True)
    assert join(nothing, segment(s, 0, 2)).positions == range(2)
    span = join(segment(s, 0, 2), segment(s, 2, 1))
    assert (span.positions, span.is_last) == (range(3), False)
    span = join(segment(s, 0, 2), segment(s, 2, 1), end)
    assert (span.positions, span.is_last, span.is_session_end) == (range(3), True, True)
    assert join(segment(s, 0, 2), segment(s, 5, 1)).positions == [0, 1, 5]
    gap = Segment(s, [0, 2], [[Buffer(), Buffer()]], False, False)
    assert join(gap, segment(s, 3, 1), end).positions == [0, 2, 3]


def test_the_end_of_a_sub_stream_is_not_the_session_s():
    top = stream()
    assert not Span(Stream(top.session, top), (), True).is_session_end


def test_a_batch_of_nothing_has_its_columns():
    batch = Batch.of([], 2)
    assert (batch.spans, batch.columns, batch.size) == ([], [[], []], 0)
    assert batch.arrived == 0.0


def test_a_batch_is_in_error_if_one_of_its_segments_is():
    a, b = stream("a"), stream("b")
    bad = Segment(b, range(1), [[Buffer(1)]], False, True)
    assert Batch.of([segment(a, 0, 1), bad], 1).has_errors
    assert not Batch.of([segment(a, 0, 1), segment(b, 0, 1)], 1).has_errors


@pytest.mark.parametrize("has_errors", [True, False])
def test_a_batch_that_is_parted_again_says_of_each_part_what_it_said_of_all(has_errors):
    a, b, rows = stream("a"), stream("b"), [*map(Buffer, "xyz")]
    batch = Batch([Span(a, range(1), False), Span(b, range(2, 4), True)], [rows], has_errors)
    assert batch.arrived == 0.0
    batch.arrived = 5.0
    parts = batch.segments()
    assert [(p.stream, p.positions, p.columns, p.is_last) for p in parts] == [
        (a, range(1), [rows[:1]], False),
        (b, range(2, 4), [rows[1:]], True),
    ]
    assert [(p.has_errors, p.arrived) for p in parts] == [(has_errors, 5.0)] * 2


def test_a_row_that_a_batch_does_not_have_has_no_stream():
    batch = Batch.of([segment(stream(), 0, 1)], 1)
    with pytest.raises(IndexError, match="0"):
        batch.stream_of(1)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=8))
def test_every_row_of_a_batch_belongs_to_the_stream_that_it_came_in_with(runs):
    streams, sent, rows, segments = [stream("a"), stream("b")], [0, 0], [], []
    for which, count in runs:
        segments.append(segment(streams[which], sent[which], count))
        rows += [(streams[which], sent[which] + i) for i in range(count)]
        sent[which] += count
    batch = Batch.of(segments, 1)
    assert data(batch) == [position for _, position in rows]
    assert [batch.stream_of(row) for row in range(batch.size)] == [s for s, _ in rows]
    assert [(p.stream, q) for p in batch.spans for q in p.positions] == rows
