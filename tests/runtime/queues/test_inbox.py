import threading

import pytest

from modelflow.buffer import Buffer
from modelflow.runtime.kinds.loop.looping import ENTRY, RETURN, LoopOrder
from modelflow.runtime.kinds.stream.by_session import BySession
from modelflow.runtime.kinds.stream.session_queue import OpenStream
from modelflow.runtime.orders.fair import Fair
from modelflow.runtime.orders.fifo import Fifo
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.session.segment import Segment, Stream
from tests.runtime.fake_clock import FakeClock, Passing
from tests.runtime.fake_session import FakeSession


def stream(name="s"):
    return Stream(FakeSession(name=name, is_cancelled=False))


def segment(of, first, count, is_last=False):
    positions = range(first, first + count)
    return Segment(of, positions, [[Buffer(i) for i in positions]], is_last, False)


def data(batch):
    return [buffer.data for buffer in batch.columns[0]]


def inbox(ports=("in",), clock=None, **policy):
    policy.setdefault("bounds", (32,) * len(ports))
    made = InboxPolicy(**policy)
    return Inbox("node", ports, made, Fifo(made, len(ports)), clock or FakeClock())


def test_take_cuts_batches_of_at_most_batch_size():
    box, s = inbox(batch_size=4), stream()
    box.append(0, [segment(s, 0, 3), segment(s, 3, 3)])
    assert data(box.take()) == [0, 1, 2, 3]
    assert data(box.take()) == [4, 5]


def test_take_joins_neighbours_of_one_stream_into_one_slice():
    box, s = inbox(batch_size=8), stream()
    box.append(0, [segment(s, 0, 1), segment(s, 1, 2, is_last=True)])
    (part,) = box.take().spans
    assert part.positions == range(3)
    assert part.is_last


def test_take_mixes_sessions_in_one_batch():
    box, a, b = inbox(batch_size=8), stream("a"), stream("b")
    box.append(0, [segment(a, 0, 2), segment(b, 0, 1), segment(a, 2, 1)])
    batch = box.take()
    assert [(p.stream, list(p.positions)) for p in batch.spans] == [
        (a, [0, 1]),
        (b, [0]),
        (a, [2]),
    ]
    assert [batch.stream_of(row) for row in range(4)] == [a, a, b, a]


def test_take_carries_an_end_that_stands_behind_a_full_batch():
    box, s = inbox(batch_size=2), stream()
    box.append(0, [segment(s, 0, 2), segment(s, 2, 0, is_last=True)])
    batch = box.take()
    assert data(batch) == [0, 1]
    assert batch.spans[-1].is_last


def test_take_numbers_the_slices_of_each_stream():
    box, a, b = inbox(batch_size=1, is_ordered=True), stream(), stream()
    box.append(0, [segment(a, 0, 2), segment(b, 0, 1), segment(a, 2, 1, is_last=True)])
    tickets = [(p.stream, p.ticket) for _ in range(4) for p in box.take().spans]
    assert tickets == [(a, 0), (a, 1), (b, 0), (a, 2)]


def test_take_gives_no_ticket_where_the_whole_stream_is_one_slice():
    box, s = inbox(is_ordered=True), stream()
    box.append(0, [segment(s, 0, 1, is_last=True)])
    assert box.take().spans[0].ticket is None


def test_take_returns_none_once_closed():
    box = inbox()
    taken = []
    worker = threading.Thread(target=lambda: taken.append(box.take()), name="modelflow/test")
    worker.start()
    box.close()
    worker.join()
    assert taken == [None]


def test_byte_bound_counts_arrays_and_texts():
    box, s = inbox(byte_bound=10), stream()
    box.append(0, [Segment(s, range(1), [[Buffer(b"x" * 10)]], False, False)])
    assert not box.has_room(0)
    box.take()
    assert box.has_room(0)


def test_discard_drops_one_stream_and_keeps_the_others():
    box, a, b = inbox(batch_size=9, is_ordered=True), stream(), stream()
    box.append(0, [segment(a, 0, 2), segment(b, 0, 1), segment(a, 2, 1)])
    box.discard(a.session)
    assert box.ready == 1
    assert [part.stream for part in box.take().spans] == [b]


def test_cancelled_session_is_dropped_when_it_is_appended_or_taken():
    box, a, b = inbox(batch_size=9), stream(), stream()
    box.append(0, [segment(a, 0, 2), segment(b, 0, 1)])
    a.session.is_cancelled = True
    box.append(0, [segment(a, 2, 1)])
    assert data(box.take()) == [0]
    assert box.ready == 0


@pytest.mark.parametrize("first", [0, 1])
def test_ports_are_paired_position_by_position(first):
    box, s = inbox(("a", "b"), batch_size=9), stream()
    box.append(first, [segment(s, 0, 2)])
    box.append(1 - first, [segment(s, 0, 1)])
    batch = box.take()
    assert [[b.data for b in column] for column in batch.columns] == [[0], [0]]
    box.append(1 - first, [segment(s, 1, 1, is_last=True)])
    batch = box.take()
    assert list(batch.spans[0].positions) == [1]
    assert not batch.spans[0].is_last
    box.append(first, [segment(s, 2, 0, is_last=True)])
    assert box.take().spans[0].is_last


def test_a_port_that_ends_early_gives_errors_for_the_rest():
    box, s = inbox(("a", "b"), batch_size=9), stream()
    box.append(0, [segment(s, 0, 3, is_last=True)])
    box.append(1, [segment(s, 0, 1, is_last=True)])
    batch = box.take()
    assert batch.spans[-1].is_last
    assert batch.has_errors
    errors = [buffer.error for buffer in batch.columns[1]]
    assert errors[0] is None
    assert "input 'b' ended after 1 buffers" in str(errors[1])
    assert "input 'b' ended after 1 buffers" in str(errors[2])


def test_ports_out_of_step_are_an_internal_error():
    box, s = inbox(("a", "b")), stream()
    box.append(0, [segment(s, 0, 1)])
    with pytest.raises(AssertionError, match="out of step"):
        box.append(1, [segment(s, 1, 1)])


def test_a_batch_that_the_queue_cannot_hold_is_not_waited_for():
    clock = FakeClock()
    box, s = inbox(clock=clock, bounds=(2,), batch_size=8, batch_timeout=60), stream()
    box.append(0, [segment(s, 0, 2)])
    assert data(box.take()) == [0, 1]


def test_what_falls_due_between_two_looks_at_the_clock_is_handed_out():
    class Moving(Passing):
        def now(self):
            self.time += 0.25
            return self.time

    clock, session = Moving(), FakeSession()
    order = BySession(InboxPolicy((8,)), 1, clock)
    box = Inbox("node", ("in",), order._policy, order, clock)
    box.append(0, [segment(Stream(session), 0, 1)])
    session_queue = box.take().session_queue
    session_queue.open = OpenStream(Stream(session), [])
    box.change(lambda: order.post(session_queue, session_queue.open, "event", 0.6))
    box.change(lambda: order.mark_done(session_queue, is_session_end=False, is_parked=False))
    assert box.take().event == "event"


def test_rows_that_come_back_from_a_pause_wait_for_a_fuller_batch_but_not_for_ever():
    clock, s = Passing(), stream()
    box = inbox(clock=clock, batch_size=4, batch_timeout=0.5)
    box.append(0, [segment(s, 0, 1)])
    box.pause(s.session)
    assert box.take_nowait() is None
    box.resume(s.session)
    assert data(box.take()) == [0]
    assert clock.waits == [0.5]


def test_what_waits_behind_a_held_stream_does_not_count_in_bytes_either():
    session = FakeSession()
    policy = InboxPolicy((8,), byte_bound=10)
    order = BySession(policy, 1, FakeClock())
    box = Inbox("node", ("in",), policy, order, FakeClock())
    first, second = Stream(session), Stream(session)
    box.append(0, [Segment(first, range(1), [[Buffer(b"x")]], True, False)])
    session_queue = box.take().session_queue
    session_queue.open = OpenStream(first, [])
    session_queue.open.is_held = True
    box.append(0, [Segment(second, range(1), [[Buffer(bytes(100))]], True, False)])
    assert not box.has_room(0)
    assert not box.change(lambda: order.try_end(session_queue, session_queue.open))
    assert box.has_room(0)


@pytest.mark.parametrize("ports", [("in",), ("a", "b")])
def test_a_closed_inbox_keeps_nothing(ports):
    box, s = inbox(ports, is_ordered=True), stream()
    box.append(0, [segment(s, 0, 2)])
    box.take_nowait()
    box.append(0, [segment(s, 2, 2)])
    box.close()
    assert box.count_held() == 0


@pytest.mark.parametrize("is_measured", [False, True])
def test_it_is_noted_why_batches_close_where_that_is_wanted(is_measured):
    box = inbox(is_measured=is_measured, batch_size=2)
    box.append(0, [segment(stream(), 0, 2)])
    box.take_nowait()
    assert box.is_noting == is_measured
    assert dict(box.stats.closed) == ({"full": 1} if is_measured else {})


def test_rows_of_cancelled_sessions_are_counted_as_dropped():
    box, one, other = inbox(), stream("one"), stream("other")
    box.append(0, [segment(one, 0, 2), segment(other, 0, 3)])
    box.discard(one.session)
    assert box.dropped == 2
    assert box.ready == 3


def in_order(order, *more):
    policy = InboxPolicy((8,), batch_size=4)
    return Inbox("node", ("in",), policy, order(policy, 1, *more), FakeClock())


@pytest.mark.parametrize("order", [(Fifo,), (Fair, 2)])
def test_rows_of_a_session_cancelled_before_they_are_taken_are_counted_as_dropped(order):
    """Tests that rows count once, even if a worker meets them before `discard` has the lock."""
    box, gone, other = in_order(*order), stream("gone"), stream("other")
    box.append(0, [segment(gone, 0, 2), segment(other, 0, 3)])
    gone.session.is_cancelled = True
    assert data(box.take_nowait()) == [0, 1, 2]
    box.discard(gone.session)
    assert box.dropped == 2


def test_rows_that_come_to_a_stream_unit_after_the_cancellation_are_counted_as_dropped():
    box, gone = in_order(BySession, FakeClock()), stream("gone")
    gone.session.is_cancelled = True
    box.append(0, [segment(gone, 0, 2)])
    assert box.dropped == 2


def test_partners_of_a_cancelled_session_are_counted_as_dropped():
    box, gone = inbox(("a", "b")), stream()
    gone.session.is_cancelled = True
    box.append(1, [segment(gone, 0, 2)])
    assert box.dropped == 2


def test_a_batch_knows_when_its_oldest_row_has_come():
    clock = FakeClock()
    box, s = inbox(batch_size=4, clock=clock), stream()
    first = clock.now()
    box.append(0, [segment(s, 0, 1)])
    clock.advance(1.0)
    box.append(0, [segment(s, 1, 1)])
    assert box.take_nowait().arrived == first


def test_a_row_has_come_when_its_last_partner_has():
    clock = FakeClock()
    box, s = inbox(("a", "b"), clock=clock), stream()
    box.append(0, [segment(s, 0, 1)])
    clock.advance(1.0)
    box.append(1, [segment(s, 0, 1)])
    assert box.take_nowait().arrived == clock.now()


def test_a_measured_queue_knows_by_which_port_rows_came():
    policy = InboxPolicy((8, 8), is_measured=True)
    order = LoopOrder(policy, 1, "node", "unit")
    box = Inbox("node", ("in", "back"), policy, order, is_matching=False)
    box.append(RETURN, [segment(stream(), 0, 1)])
    assert box.ready == 0
    box.append(ENTRY, [segment(stream(), 0, 2)])
    assert box.ready == 2


def test_append_says_when_a_partner_has_made_room():
    box, s, woken = inbox(("a", "b"), unmatched_bounds=(1, 1)), stream(), []
    assert not box.append(0, [segment(s, 0, 1)])
    box.on_room(0, lambda: woken.append("room"))
    assert box.append(1, [segment(s, 0, 1)])
    box.call_due()
    assert woken == ["room"]


def test_of_a_cancelled_session_nothing_waits_for_its_partner():
    box, s, other = inbox(("a", "b")), stream(), stream()
    box.append(0, [segment(s, 0, 2), segment(other, 0, 1)])
    s.session.is_cancelled = True
    box.append(1, [segment(s, 0, 1)])
    assert box.count_held() == 1
    box.discard(other.session)
    assert box.count_held() == 0


def test_held_counts_what_is_ready_and_what_lacks_a_partner():
    box, s = inbox(("a", "b")), stream()
    box.append(0, [segment(s, 0, 3)])
    box.append(1, [segment(s, 0, 1)])
    assert box.count_held() == 3  # a segment, its row, and the stream with the rest
