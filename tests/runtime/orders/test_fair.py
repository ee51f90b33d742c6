"""Tests that sessions alternate, that each session keeps its order, and that each has the bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.runtime.orders.fair import Fair
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.orders.turns import PATIENCE
from modelflow.runtime.queues.inbox import Inbox
from tests.runtime.fake_clock import FakeClock
from tests.runtime.queues.test_inbox import data, segment, stream


def inbox(split_size=2, batch_size=4, bound=8, **more):
    policy = InboxPolicy((bound,), batch_size, is_ordered=True, **more)
    return Inbox("node", ("in",), policy, Fair(policy, 1, split_size), FakeClock())


def test_a_small_request_is_in_the_next_batch_however_big_the_one_before_it():
    box, big, small = inbox(), stream("big"), stream("small")
    box.append(0, [segment(big, 0, 100, is_last=True)])
    box.append(0, [segment(small, 0, 1, is_last=True)])
    batch = box.take()
    assert [(p.stream, list(p.positions)) for p in batch.spans] == [
        (big, [0, 1]),
        (small, [0]),
        (big, [2]),
    ]


def test_a_session_that_is_alone_gets_whole_batches():
    box, big = inbox(split_size=1), stream("big")
    box.append(0, [segment(big, 0, 9)])
    assert [len(data(box.take())) for _ in range(3)] == [4, 4, 1]


def test_turns_go_on_where_the_batch_before_ended():
    box = inbox(split_size=2, batch_size=2)
    for name in "abc":
        box.append(0, [segment(stream(name), 0, 6)])
    names = [box.take().spans[0].stream.session.name for _ in range(6)]
    assert names == ["a", "b", "c", "a", "b", "c"]


def test_room_is_the_sessions_own():
    box, big, small = inbox(bound=8), stream("big"), stream("small")
    box.append(0, [segment(big, 0, 700)])
    assert not box.has_room(0, big.session)
    assert box.has_room(0, small.session)
    assert box.wait_for_room(0, 0, small.session)
    assert not box.wait_for_room(0, 0, big.session)


def test_all_sessions_together_are_bounded():
    box = inbox(bound=8)
    for _ in range(16):
        box.append(0, [segment(stream(), 0, 8)])
    assert not box.has_room(0, stream("other").session)
    box.take()
    assert box.has_room(0, stream("other").session)


def test_callback_comes_when_its_session_has_room():
    box, big = inbox(bound=4), stream("big")
    box.append(0, [segment(big, 0, 5)])
    called = []
    box.on_room(0, lambda: called.append(1), big.session)
    assert not called
    box.take()
    assert called


def test_cancelled_sessions_are_dropped():
    box, gone, other = inbox(), stream("gone"), stream("other")
    box.append(0, [segment(gone, 0, 5), segment(other, 0, 1)])
    gone.session.is_cancelled = True
    assert data(box.take()) == [0]
    assert box.ready == 0
    box.append(0, [segment(other, 1, 2)])
    box.discard(other.session)
    assert box.take_nowait() is None
    assert box.ready == 0
    assert box.has_room(0, other.session)


def test_end_without_rows_passes():
    box, s = inbox(), stream()
    box.append(0, [segment(s, 0, 0, is_last=True)])
    (part,) = box.take().spans
    assert part.is_last


def test_close_wakes_and_drops():
    box, s = inbox(bound=1), stream()
    box.append(0, [segment(s, 0, 3)])
    box.close()
    assert box.take() is None
    assert box.has_room(0, s.session)


@given(
    lengths=st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6),
    split_size=st.integers(1, 5),
    batch_size=st.integers(1, 8),
)
def test_everything_comes_out_once_in_the_order_of_its_session(lengths, split_size, batch_size):
    box = inbox(split_size, batch_size)
    streams = [stream(str(number)) for number in range(len(lengths))]
    for turn in range(4):
        for s, counts in zip(streams, lengths, strict=True):
            if turn < len(counts):
                box.append(0, [segment(s, sum(counts[:turn]), counts[turn])])
    seen = {s: [] for s in streams}
    tickets = {s: [] for s in streams}
    while (batch := box.take_nowait()) is not None:
        assert batch.size <= batch_size
        for part in batch.spans:
            seen[part.stream].extend(part.positions)
            tickets[part.stream].append(part.ticket)
    for s, counts in zip(streams, lengths, strict=True):
        assert seen[s] == list(range(sum(counts)))
        assert tickets[s] == list(range(len(tickets[s])))
    assert box.ready == 0


@pytest.mark.parametrize("reason", ["full", "timeout", "end_of_stream", "nothing_waiting"])
def test_batches_say_why_they_closed_and_how_long_they_waited(reason):
    timeout = 2**-8 if reason == "timeout" else 0.0
    box = inbox(bound=8, is_measured=True, batch_timeout=timeout)
    rows = 4 if reason == "full" else 2
    box.append(0, [segment(stream(), 0, rows, is_last=reason == "end_of_stream")])
    box._clock.advance(0.003 if reason != "timeout" else 2**-8)
    before = box._clock.now() - box.take_nowait().arrived
    assert dict(box.stats.closed) == {reason: 1}
    assert before == (2**-8 if reason == "timeout" else pytest.approx(0.003))


def test_a_paused_session_loses_its_turn_until_it_is_resumed():
    box, held, other = inbox(split_size=1, batch_size=4), stream("held"), stream("other")
    box.append(0, [segment(held, 0, 2), segment(other, 0, 1)])
    box.pause(held.session)
    box.append(0, [segment(held, 2, 1)])
    batch = box.take_nowait()
    assert [span.stream for span in batch.spans] == [other]
    assert box.take_nowait() is None
    box.resume(held.session)
    assert data(box.take_nowait()) == [0, 1, 2]


def test_a_session_is_paused_and_resumed_more_than_once():
    box, held = inbox(), stream("held")
    box.append(0, [segment(held, 0, 1)])
    for _ in range(2):
        box.pause(held.session)
    for _ in range(2):
        box.resume(held.session)
    assert data(box.take_nowait()) == [0]
    assert box.take_nowait() is None


def test_a_paused_session_that_is_dropped_is_forgotten():
    box, held = inbox(), stream("held")
    box.append(0, [segment(held, 0, 1)])
    box.pause(held.session)
    box.discard(held.session)
    box.resume(held.session)
    assert box.count_held() == 0


def test_a_session_may_have_as_many_rows_here_as_its_bound():
    box, s = inbox(bound=8), stream()
    box.append(0, [segment(s, 0, 7)])
    assert box.has_room(0, s.session)
    box.append(0, [segment(s, 7, 1)])
    assert not box.has_room(0, s.session)
    box.take()
    assert box.has_room(0, s.session)
    assert inbox(bound=1).has_room(0, s.session)


def test_bytes_are_bounded_for_all_sessions_together():
    box, one, other = inbox(byte_bound=4, batch_size=2), stream("one"), stream("other")
    for s in (one, other):
        rows = segment(s, 0, 2)
        for buffer in rows.columns[0]:
            buffer.data = b"x"
        assert box.has_room(0, s.session)
        box.append(0, [rows])
    assert not box.has_room(0, stream().session)
    box.take()
    assert box.has_room(0, stream().session)


def test_the_bytes_of_a_session_that_is_dropped_are_free():
    box, gone, other = inbox(byte_bound=4), stream("gone"), stream("other")
    for s, rows in ((gone, 3), (other, 1)):
        arriving = segment(s, 0, rows)
        for buffer in arriving.columns[0]:
            buffer.data = b"x"
        box.append(0, [arriving])
    assert not box.has_room(0, stream().session)
    box.discard(gone.session)
    assert box.has_room(0, stream().session)
    assert box._order.ready_bytes == 1


def test_a_batch_is_filled_though_a_session_between_was_cancelled():
    box, gone = inbox(batch_size=4), stream("gone")
    box.append(0, [segment(stream(), 0, 1), segment(gone, 1, 1), segment(stream(), 2, 1)])
    gone.session.is_cancelled = True
    assert data(box.take_nowait()) == [0, 2]


def test_where_everything_was_cancelled_there_is_no_batch():
    box, gone = inbox(), stream("gone")
    box.append(0, [segment(gone, 0, 1)])
    gone.session.is_cancelled = True
    assert box.take_nowait() is None
    assert box.count_held() == 0


def test_a_session_that_is_not_here_is_dropped_without_effect():
    box, here = inbox(), stream()
    box.append(0, [segment(here, 0, 2)])
    held = box.count_held()
    box.discard(stream().session)
    assert box.count_held() == held


def test_a_session_that_is_dropped_leaves_nothing_and_its_tickets_begin_anew():
    box, s = inbox(batch_size=1), stream()
    box.append(0, [segment(s, 0, 3)])
    box.take()
    box.discard(s.session)
    assert box.count_held() == 0


def test_held_counts_sessions_rows_and_tickets():
    box, s = inbox(batch_size=1), stream()
    assert box.count_held() == 0
    box.append(0, [segment(s, 0, 3)])
    # the session, its count, and the three rows, which are ready and therefore count as load
    assert box.count_held() == 1 + 1 + 3 + 3
    box.take()
    assert box.count_held() == 1 + 1 + 2 + 2 + 1
    box.close()
    assert box.count_held() == 0


def test_the_second_class_advances_under_a_permanent_load_of_the_first():
    clock = FakeClock()
    here, other = Fair(InboxPolicy((8,)), 1, 1, clock), stream("other")
    here.add(0, [segment(other, 0, 2)])
    names = []
    for number in range(15):
        one = stream(f"first {number}")
        one.session.is_first = True
        here.add(0, [segment(one, 0, 1)])
        names.append(here.cut(1).spans[0].stream.session.name)
        clock.advance(PATIENCE / 6 * 1.001)
    assert [place for place, name in enumerate(names) if name == "other"] == [6, 12]


@pytest.mark.parametrize("where", ["_add_rows", "turn"])
def test_a_session_whose_row_ctrl_c_cut_off_from_its_count_is_dropped_whole(where, monkeypatch):
    policy = InboxPolicy((8,), 4, byte_bound=100)
    order, torn, other = Fair(policy, 1, 2), stream("torn"), stream("other")
    order.add(0, [segment(other, 0, 3)])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        if where == "turn":
            patch.setattr(order, "_turns", Interrupted())
        else:
            patch.setattr(order, where, interrupt)
        order.add(0, [segment(torn, 0, 2)])
    order.drop(torn.session)
    assert order.ready == 3
    order.drop(other.session)
    assert (order.count_held(), order.ready_bytes, bool(order.waiting)) == (0, 0, False)


def interrupt(*_):
    raise KeyboardInterrupt


class Interrupted:
    """A queue that raises Ctrl-C."""

    append = staticmethod(interrupt)
