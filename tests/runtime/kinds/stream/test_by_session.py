"""Tests of a session's calls, which never overlap; events and rows alternate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.buffer import Buffer
from modelflow.runtime.kinds.stream.by_session import BySession
from modelflow.runtime.kinds.stream.numbering import Numbering
from modelflow.runtime.kinds.stream.session_queue import OpenStream
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.orders.turns import PATIENCE
from modelflow.runtime.session.segment import Segment, Stream
from tests.runtime.fake_clock import FakeClock
from tests.runtime.queues.test_inbox import data, segment, stream


def order(bound=8, clock=None, **more):
    return BySession(InboxPolicy((bound,), **more), 1, clock or FakeClock())


def begin(here, size=8):
    """Takes the next batch, and opens its stream as a worker does."""
    batch = here.cut(size)
    if batch.session_queue.open is None:
        (span,) = batch.spans
        batch.session_queue.open = OpenStream(span.stream, [Numbering(span.stream)])
    return batch


def end(here, batch, *, is_session_end=False, is_parked=False):
    (span,) = batch.spans
    if span.is_last or batch.session_queue.open.is_ended:
        is_session_end = (
            here.try_end(batch.session_queue, batch.session_queue.open) and span.stream.depth == 0
        )
    return here.mark_done(batch.session_queue, is_session_end=is_session_end, is_parked=is_parked)


def test_a_session_has_one_batch_at_a_time_and_others_pass():
    here, a, b = order(), stream("a"), stream("b")
    here.add(0, [segment(a, 0, 4), segment(b, 0, 1)])
    first, other = begin(here, 2), begin(here, 2)
    assert (data(first), data(other)) == ([0, 1], [0])
    assert not here.waiting
    end(here, first)
    assert data(begin(here, 2)) == [2, 3]


def test_a_batch_holds_the_rows_of_one_stream_alone():
    here, s = order(), stream()
    subs = [Stream(s.session, s, position) for position in range(2)]
    here.add(0, [segment(subs[0], 0, 2, is_last=True), segment(subs[1], 0, 1, is_last=True)])
    batch = begin(here)
    assert [span.stream for span in batch.spans] == [subs[0]]
    end(here, batch)
    assert begin(here).spans[0].stream is subs[1]


def test_a_full_batch_takes_the_end_behind_it():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 2), segment(s, 2, 0, is_last=True)])
    batch = begin(here, 2)
    assert data(batch) == [0, 1]
    assert batch.spans[0].is_last


def test_events_and_rows_take_turns_so_that_neither_starves():
    here, s = order(), stream()
    here.add(0, [segment(s, i, 1) for i in range(3)])
    seen = []
    batch = begin(here, 1)
    for _ in range(6):
        seen.append(batch.event or data(batch)[0])
        assert here.post(batch.session_queue, batch.session_queue.open, "event", 0.0)
        end(here, batch)
        batch = begin(here, 1)
    assert seen == [0, "event", 1, "event", 2, "event"]
    assert batch.event == "event"


def test_a_stream_stays_open_while_events_are_left():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1, is_last=True)])
    batch = begin(here)
    here.post(batch.session_queue, batch.session_queue.open, "once more", 0.0)
    end(here, batch)
    again = begin(here)
    assert again.event == "once more"
    assert here.count_held() > 0
    end(here, again)
    assert here.count_held() == 0


def test_rows_behind_a_stream_that_waits_for_an_event_do_not_count_as_ready():
    here, s = order(bound=2), stream()
    first, second = (Stream(s.session, s, position) for position in range(2))
    here.add(0, [segment(first, 0, 1, is_last=True), segment(second, 0, 2)])
    batch = begin(here)
    assert not here.has_room(0, None)
    here.post(batch.session_queue, batch.session_queue.open, "later", 5.0)
    end(here, batch)
    assert here.has_room(0, None)
    assert here.ready == 0
    assert not here.waiting


def test_a_delayed_event_comes_when_it_is_due():
    clock = FakeClock()
    here, s = order(clock=clock), stream()
    here.add(0, [segment(s, 0, 1)])
    batch = begin(here)
    assert here.post(batch.session_queue, batch.session_queue.open, "late", 5.0)
    end(here, batch)
    assert here.next_due() == 5.0
    assert not here.waiting
    clock.advance(5)
    assert here.next_due() is None
    assert not here.has_delays
    assert begin(here).event == "late"


def test_while_the_flow_drains_what_was_delayed_comes_at_once_and_nothing_is_delayed_any_more():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1)])
    batch = begin(here)
    here.post(batch.session_queue, batch.session_queue.open, "late", 5.0)
    here.drain()
    assert not here.post(batch.session_queue, batch.session_queue.open, "later", 5.0)
    assert here.post(batch.session_queue, batch.session_queue.open, "now", 0.0)
    end(here, batch)
    late = begin(here)
    end(here, late)
    assert (late.event, begin(here).event) == ("late", "now")


def test_when_cycles_end_no_event_is_taken_and_a_held_stream_ends():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1, is_last=True)])
    batch = begin(here)
    batch.session_queue.open.is_held = True
    end(here, batch)
    assert not here.waiting
    here.end_cycles()
    last = begin(here)
    assert not here.post(last.session_queue, last.session_queue.open, "again", 0.0)
    assert last.spans[0].is_last
    end(here, last)
    assert here.count_held() == 0


def test_a_parked_lane_keeps_its_events_until_it_is_let_go():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 2)])
    batch = begin(here, 1)
    here.post(batch.session_queue, batch.session_queue.open, "event", 0.0)
    assert end(here, batch, is_parked=True)
    assert data(begin(here)) == [1]
    here.mark_done(batch.session_queue, is_session_end=False, is_parked=True)
    assert not here.waiting
    here.unpark(batch.session_queue)
    assert begin(here).event == "event"


def test_a_lane_without_events_is_not_parked():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1)])
    assert not end(here, begin(here), is_parked=True)


def test_a_dropped_session_s_open_stream_is_ended_and_its_rows_are_gone():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 4)])
    batch = begin(here, 1)
    here.drop(s.session)
    assert not here.post(batch.session_queue, batch.session_queue.open, "event", 0.0)
    end(here, batch)
    last = begin(here)
    assert (last.size, last.spans[0].is_last) == (0, True)
    end(here, last, is_session_end=True)
    assert here.count_held() == 0


def test_a_session_that_has_not_begun_is_dropped_without_a_call():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 4)])
    here.drop(s.session)
    here.drop(stream().session)  # a session that the queue has never seen
    assert here.cut(1) is None
    assert here.count_held() == 0


def test_rows_of_a_cancelled_session_are_not_taken_in():
    here, s = order(), stream()
    s.session.is_cancelled = True
    here.add(0, [segment(s, 0, 4)])
    assert here.count_held() == 0


def test_events_of_a_dropped_session_that_were_delayed_are_dropped_when_they_are_due():
    clock = FakeClock()
    here, s = order(clock=clock), stream()
    here.add(0, [segment(s, 0, 1)])
    batch = begin(here)
    here.post(batch.session_queue, batch.session_queue.open, "late", 5.0)
    here.drop(s.session)
    clock.advance(5)
    here.next_due()
    assert not batch.session_queue.open.events


def test_room_is_bounded_by_rows_and_by_bytes_and_half_is_roomy():
    here, s = order(bound=4, byte_bound=4), stream()
    rows = segment(s, 0, 4)
    for buffer in rows.columns[0]:
        buffer.data = b"x"
    here.add(0, [rows])
    assert not here.has_room(0, None)
    batch = begin(here, 1)
    assert not here.is_roomy()
    end(here, batch)
    begin(here, 1)
    assert here.is_roomy()
    assert here.has_room(0, None)


def test_clear_leaves_only_the_streams_that_must_be_ended():
    here, begun, new = order(), stream("begun"), stream("new")
    here.add(0, [segment(begun, 0, 2), segment(new, 0, 2)])
    batch = begin(here, 1)
    here.post(batch.session_queue, batch.session_queue.open, "late", 5.0)
    end(here, batch)
    here.clear()
    last = here.end_abandoned()
    assert last.spans[0].stream is begun
    assert here.end_abandoned() is None
    here.try_end(last.session_queue, last.session_queue.open)
    here.mark_done(last.session_queue, is_session_end=True, is_parked=False)
    assert here.count_held() == 0


def test_pausing_means_nothing_where_calls_are_one_after_the_other():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1)])
    here.pause(s.session)
    assert data(begin(here)) == [0]
    here.resume(s.session)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=20), st.integers(1, 4))
def test_every_session_comes_out_whole_and_in_order(steps, size):
    here = order(byte_bound=1 << 20)
    streams = [stream(str(number)) for number in range(3)]
    sent, got = dict.fromkeys(streams, 0), {s: [] for s in streams}
    for number, count in steps:
        s = streams[number]
        here.add(0, [segment(s, sent[s], count)])
        sent[s] += count
    for s in streams:
        here.add(0, [segment(s, sent[s], 0, is_last=True)])
    while here.waiting:
        batch = begin(here, size)
        assert batch.size <= size
        got[batch.spans[0].stream] += batch.spans[0].positions
        end(here, batch)
    assert got == {s: list(range(sent[s])) for s in streams}
    assert here.count_held() == 0


def of_bytes(rows):
    for buffer in rows.columns[0]:
        buffer.data = b"x"
    return rows


def counts(here):
    return here.ready, here.ready_bytes, here.count_held()


def test_rows_and_bytes_are_ready_until_they_are_taken_unless_their_lane_is_stalled():
    here, s = order(byte_bound=100), stream()
    first, second = Stream(s.session, s, 0), Stream(s.session, s, 1)
    here.add(0, [of_bytes(segment(first, 0, 3)), of_bytes(segment(first, 3, 1, is_last=True))])
    # a session queue, its entry in the ready list, the rows
    assert counts(here) == (4, 4, 1 + 1 + 4)
    batch = begin(here, 2)
    assert counts(here) == (2, 2, 1 + 2)
    end(here, batch)
    batch = begin(here, 2)
    assert data(batch) == [b"x", b"x"]
    batch.session_queue.open.is_held = True
    end(here, batch)
    here.add(0, [of_bytes(segment(second, 0, 3))])
    assert counts(here) == (0, 0, 1)  # they wait for the event of the stream before
    assert not here.waiting
    here.post(batch.session_queue, batch.session_queue.open, "event", 0.0)
    batch = begin(here)
    batch.session_queue.open.is_held = False
    end(here, batch)
    assert counts(here) == (3, 3, 1 + 1 + 3)
    here.drop(s.session)
    assert (here.ready, here.ready_bytes) == (0, 0)


def test_what_waits_behind_a_stream_is_not_ready_when_its_last_row_is_out():
    here, s = order(byte_bound=100), stream()
    first, second = Stream(s.session, s, 0), Stream(s.session, s, 1)
    here.add(0, [segment(first, 0, 1, is_last=True), of_bytes(segment(second, 0, 2))])
    batch = begin(here)
    batch.session_queue.open.is_held = True
    end(here, batch)
    assert (here.ready, here.ready_bytes) == (0, 0)
    here.end_cycles()
    batch = begin(here)
    assert (batch.spans[0].stream, batch.spans[0].is_last) == (first, True)
    end(here, batch)
    assert (here.ready, here.ready_bytes) == (2, 2)


def test_delays_are_known_from_the_first_delayed_event_to_the_last():
    clock = FakeClock()
    here, s = order(clock=clock), stream()
    assert not here.has_delays
    here.add(0, [segment(s, 0, 1)])
    batch = begin(here)
    for delay in (1.0, 2.0):
        assert here.post(batch.session_queue, batch.session_queue.open, delay, delay)
    assert (here.has_delays, batch.session_queue.open.delayed) == (True, 2)
    clock.advance(1.0)
    assert here.next_due() == 1.0
    assert (here.has_delays, batch.session_queue.open.delayed) == (True, 1)
    clock.advance(1.0)
    assert here.next_due() is None
    assert (here.has_delays, batch.session_queue.open.delayed) == (False, 0)
    here.post(batch.session_queue, batch.session_queue.open, 3.0, 3.0)
    here.drain()
    assert (here.has_delays, batch.session_queue.open.delayed) == (False, 0)
    assert list(batch.session_queue.open.events) == [1.0, 2.0, 3.0]


def test_an_event_for_a_dropped_lane_or_a_stream_that_is_over_is_refused():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1)])
    batch = begin(here)
    assert here.post(batch.session_queue, batch.session_queue.open, "event", 0.0)
    batch.session_queue.open.is_over = True
    assert not here.post(batch.session_queue, batch.session_queue.open, "event", 0.0)
    batch.session_queue.open.is_over = False
    here.drop(s.session)
    assert not here.post(batch.session_queue, batch.session_queue.open, "event", 0.0)


def test_a_queue_is_full_at_its_bound_and_roomy_at_half_of_it():
    here, s = order(bound=4, byte_bound=4), stream()
    for number, (has_room, is_roomy) in enumerate(
        [(True, True), (True, True), (True, False), (False, False)]
    ):
        here.add(0, [of_bytes(segment(s, number, 1))])
        assert (here.has_room(0, None), here.is_roomy()) == (has_room, is_roomy)
    small = order(bound=100, byte_bound=4)
    for number in range(3):
        small.add(0, [of_bytes(segment(s, number, 1))])
    assert (small.has_room(0, None), small.is_roomy()) == (True, False)
    small.add(0, [of_bytes(segment(s, 3, 1))])
    assert not small.has_room(0, None)
    unbounded = order(bound=4)
    unbounded.add(0, [segment(s, 0, 2)])
    assert unbounded.is_roomy()


def test_a_batch_knows_its_errors_and_when_its_first_row_came():
    here, s = order(), stream()
    rows = segment(s, 0, 2)
    rows.has_errors, rows.arrived = True, 7.0
    later = segment(s, 2, 1)
    later.arrived = 9.0
    here.add(0, [rows, later])
    batch = here.cut(8)
    assert (data(batch), batch.has_errors, batch.arrived, batch.event) == (
        [0, 1, 2],
        True,
        7.0,
        None,
    )


def test_a_batch_ends_behind_the_end_of_a_stream_and_at_its_size():
    here, s = order(), stream()
    first, second = Stream(s.session, s, 0), Stream(s.session, s, 1)
    here.add(0, [segment(first, 0, 5, is_last=True), segment(second, 0, 1)])
    for rows, is_last in (([0, 1], False), ([2, 3], False), ([4], True)):
        batch = begin(here, 2)
        assert (data(batch), batch.spans[0].is_last) == (rows, is_last)
        end(here, batch)
    assert data(begin(here, 2)) == [0]


def test_a_session_that_is_not_here_is_dropped_without_effect():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1)])
    here.drop(stream().session)
    assert here.count_held() == 3
    here.clear()
    assert counts(here) == (0, 0, 0)


def test_a_cleared_order_hands_out_nothing_that_comes_later():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1)])
    batch = begin(here)
    here.clear()
    here.add(0, [segment(s, 1, 1)])
    here.mark_done(batch.session_queue, is_session_end=False, is_parked=False)
    assert not here.waiting
    assert not here.post(batch.session_queue, batch.session_queue.open, "event", 0.0)


def test_an_event_and_the_end_of_a_dropped_stream_come_with_empty_columns():
    order_of_two = BySession(InboxPolicy((8, 8)), 2, FakeClock())
    s = stream()
    order_of_two.add(0, [Segment(s, range(1), [[Buffer(0)], [Buffer(0)]], False, False)])
    batch = begin(order_of_two)
    order_of_two.post(batch.session_queue, batch.session_queue.open, "event", 0.0)
    end(order_of_two, batch)
    batch = order_of_two.cut(1)
    assert (batch.event, batch.columns, batch.spans[0].is_last) == ("event", [[], []], False)
    order_of_two.mark_done(batch.session_queue, is_session_end=False, is_parked=False)
    order_of_two.drop(s.session)
    batch = order_of_two.cut(1)
    assert (batch.event, batch.columns, batch.spans[0].is_last) == (None, [[], []], True)
    order_of_two.mark_done(batch.session_queue, is_session_end=False, is_parked=False)
    assert order_of_two.waiting


def test_rows_that_come_during_a_call_wait_until_the_lane_is_back():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1)])
    batch = begin(here)
    here.add(0, [segment(s, 1, 1)])
    assert not here.waiting
    here.post(batch.session_queue, batch.session_queue.open, "event", 0.0)
    assert not here.waiting
    end(here, batch)
    assert here.waiting


def test_rows_of_other_lanes_stay_ready_when_a_stream_is_over():
    here, s, other = order(byte_bound=100), stream(), stream("other")
    first, second = Stream(s.session, s, 0), Stream(s.session, s, 1)
    here.add(0, [segment(first, 0, 1, is_last=True), of_bytes(segment(second, 0, 2))])
    here.add(0, [of_bytes(segment(other, 0, 3))])
    end(here, begin(here))
    assert (here.ready, here.ready_bytes) == (5, 5)


def test_a_lane_stays_until_its_session_has_ended_or_is_dropped():
    here, s = order(), stream()
    sub = Stream(s.session, s, 0)
    here.add(0, [segment(sub, 0, 1, is_last=True)])
    end(here, begin(here))
    assert here.count_held() == 1
    here.add(0, [segment(s, 0, 1)])
    batch = begin(here)
    here.drop(s.session)
    assert here.count_held() == 1  # a worker has the batch
    here.mark_done(batch.session_queue, is_session_end=False, is_parked=False)
    assert here.count_held() == 2  # the session queue is ready, because the stream must end
    last = here.cut(1)
    assert list(last.spans[0].positions) == []
    here.try_end(last.session_queue, last.session_queue.open)
    here.mark_done(last.session_queue, is_session_end=True, is_parked=False)
    assert here.count_held() == 0
    # the queue is already gone
    here.mark_done(last.session_queue, is_session_end=True, is_parked=False)


def test_a_lane_that_a_worker_has_not_opened_yet_is_dropped_when_it_comes_back():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1)])
    batch = here.cut(1)
    here.drop(s.session)
    assert here.count_held() == 1
    here.mark_done(batch.session_queue, is_session_end=False, is_parked=False)
    assert here.count_held() == 0


def test_held_counts_lanes_turns_rows_and_whether_anything_comes_later():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1)])
    batch = begin(here)
    for delay in (1.0, 2.0):
        here.post(batch.session_queue, batch.session_queue.open, "late", delay)
    assert here.count_held() == 1 + 1
    end(here, batch)
    here.add(0, [segment(s, 1, 3)])
    assert here.count_held() == 1 + 1 + 3 + 1
    here.clear()
    assert (batch.session_queue.rows, batch.session_queue.bytes, here.count_held()) == (0, 0, 1)
    assert here.end_abandoned().columns == [[]]


def test_of_what_comes_together_only_the_cancelled_session_is_left_out():
    here, gone, other = order(), stream("gone"), stream("other")
    gone.session.is_cancelled = True
    here.add(0, [segment(gone, 0, 1), segment(other, 0, 2)])
    assert (data(begin(here)), here.ready) == ([0, 1], 0)


def test_when_cycles_end_a_stream_that_has_rows_or_a_worker_goes_on():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 2)])
    batch = begin(here, 1)
    here.end_cycles()
    assert not here.waiting
    end(here, batch)
    assert data(begin(here, 1)) == [1]


def test_an_event_that_is_due_in_less_than_a_second_is_delayed():
    clock = FakeClock()
    here, s = order(clock=clock), stream()
    here.add(0, [segment(s, 0, 1)])
    batch = begin(here)
    here.post(batch.session_queue, batch.session_queue.open, "soon", 0.5)
    assert not batch.session_queue.open.events
    assert here.next_due() == 0.5


def test_bytes_are_not_counted_where_they_are_not_bounded():
    here, s = order(), stream()
    here.add(0, [of_bytes(segment(s, 0, 2))])
    assert here.ready_bytes == 0


def test_what_is_many_bytes_and_few_rows_is_not_roomy():
    here, s = order(bound=8, byte_bound=4), stream()
    here.add(0, [of_bytes(segment(s, 0, 1))])
    here.add(0, [of_bytes(segment(s, 1, 2))])
    assert (here.ready_bytes, here.is_roomy(), here.has_room(0, None)) == (3, False, True)


@pytest.mark.parametrize("where", ["_count", "_offer"])
def test_a_session_whose_row_ctrl_c_cut_off_from_its_count_is_dropped_whole(where, monkeypatch):
    here, torn, other = order(byte_bound=100), stream("torn"), stream("other")
    here.add(0, [segment(other, 0, 3)])

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(here, where, interrupt)
        here.add(0, [segment(torn, 0, 2)])
    here.drop(torn.session)
    assert here.ready == 3
    here.drop(other.session)
    assert here.cut(8) is None
    assert (here.ready, here.ready_bytes, here.count_held()) == (0, 0, 0)


def test_sessions_of_the_first_class_take_turns_and_let_the_second_class_advance():
    clock = FakeClock()
    here, other, one, two = order(100, clock), stream("other"), stream("one"), stream("two")
    one.session.is_first = two.session.is_first = True
    for s in (other, one, two):
        here.add(0, [segment(s, 0, 20)])
    names = []
    for _ in range(14):
        batch = begin(here, 1)
        names.append(batch.spans[0].stream.session.name)
        end(here, batch)
        clock.advance(PATIENCE / 6 * 1.001)
    assert names[:6] == ["one", "two"] * 3
    assert names[6:9] == ["other", "one", "two"]
    assert names.count("other") == 2


def test_a_load_of_the_first_class_does_not_keep_other_sessions_out():
    here, other, one = order(4), stream("other"), stream("one")
    one.session.is_first = True
    here.add(0, [segment(one, 0, 10)])
    assert here.room(0) == 4
    assert here.is_roomy()
    assert here.has_room(0, other.session)
    assert not here.has_room(0, one.session)
    here.add(0, [segment(other, 0, 4)])
    assert (here.room(0), here.is_roomy()) == (0, False)
    assert not here.has_room(0, other.session)
    here.drop(one.session)
    assert (here.room(0), here.is_roomy()) == (0, False)
