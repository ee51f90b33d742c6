"""Tests of first come, first served, and of sessions set aside while their rows wait."""

from hypothesis import given
from hypothesis import strategies as st

from modelflow.runtime.orders import fifo
from modelflow.runtime.orders.fifo import Fifo
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.orders.turns import PATIENCE
from modelflow.runtime.session.segment import Batch
from tests.runtime.queues.test_inbox import data, segment, stream


def order(bound=8, **more):
    return Fifo(InboxPolicy((bound,), **more), 1)


def rows_of(batch):
    return [(span.stream.session.name, p) for span in batch.spans for p in span.positions]


def test_a_paused_session_is_passed_by_and_comes_first_when_it_is_resumed():
    here, held, other = order(), stream("held"), stream("other")
    here.add(0, [segment(held, 0, 2), segment(other, 0, 1), segment(held, 2, 1)])
    here.pause(held.session)
    assert rows_of(here.cut(8)) == [("other", 0)]
    assert here.ready == 0
    assert not here.waiting
    here.add(0, [segment(other, 1, 1)])
    here.resume(held.session)
    assert here.ready == 4
    assert rows_of(here.cut(8)) == [("held", 0), ("held", 1), ("held", 2), ("other", 1)]


def test_a_paused_session_has_no_room_and_the_others_have():
    here, held, other = order(), stream("held"), stream("other")
    here.pause(held.session)
    assert not here.has_room(0, held.session)
    assert here.has_room(0, other.session)
    assert here.has_room(0, None)


def test_what_is_put_aside_is_bounded_for_all_sessions_together():
    here, held, other = order(bound=2), stream("held"), stream("other")
    here.pause(held.session)
    here.add(0, [segment(held, 0, 2 * fifo._PAUSED_SHARE)])
    assert here.cut(8) is None
    assert not here.has_room(0, other.session)
    here.resume(held.session)
    assert not here.has_room(0, other.session)
    while here.waiting:
        here.cut(8)
    assert here.has_room(0, other.session)


def test_a_paused_session_that_is_dropped_frees_its_place():
    here, held, other = order(bound=1, byte_bound=100), stream("held"), stream("other")
    here.pause(held.session)
    here.add(0, [segment(held, 0, fifo._PAUSED_SHARE)])
    here.cut(8)
    here.drop(held.session)
    assert here.has_room(0, other.session)
    here.resume(held.session)
    assert here.count_held() == 0


def test_a_session_that_was_never_paused_is_resumed_without_effect():
    here, s = order(), stream()
    here.add(0, [segment(s, 0, 1)])
    here.resume(s.session)
    assert here.ready == 1


def of_bytes(rows):
    for buffer in rows.columns[0]:
        buffer.data = b"x"
    return rows


def test_bytes_of_what_is_put_aside_do_not_count():
    here, held = order(byte_bound=2), stream("held")
    here.add(0, [of_bytes(segment(held, 0, 3))])
    assert not here.has_room(0, None)
    here.pause(held.session)
    assert here.cut(8) is None
    assert here.has_room(0, None)
    here.resume(held.session)
    assert here.ready_bytes == 3
    assert not here.has_room(0, None)


def test_clear_drops_everything():
    here, held, other = order(is_ordered=True), stream("held"), stream("other")
    here.add(0, [segment(other, 0, 2), segment(held, 0, 1)])
    here.cut(1)
    here.pause(held.session)
    here.cut(1)
    here.clear()
    assert here.count_held() == 0
    assert not here.waiting


def test_an_end_behind_a_full_batch_goes_with_it_and_one_of_another_session_too():
    here, a, b = order(), stream("a"), stream("b")
    here.add(0, [segment(a, 0, 1, is_last=True), segment(b, 0, 0, is_last=True)])
    batch = here.cut(1)
    assert [span.is_last for span in batch.spans] == [True, True]
    assert not here.waiting


def test_nothing_is_delayed():
    here = order()
    here.drain()
    here.end_cycles()
    assert here.next_due() is None
    assert not here.has_delays


steps = st.lists(
    st.tuples(st.sampled_from(["add", "cut", "pause", "resume"]), st.integers(0, 2)), max_size=40
)


@given(steps, st.integers(1, 5))
def test_whatever_is_paused_every_session_comes_out_whole_and_in_order(steps, size):
    here = order(is_ordered=True, byte_bound=1 << 20)
    streams = [stream(str(number)) for number in range(3)]
    sent, got = dict.fromkeys(streams, 0), {s: [] for s in streams}
    tickets = {s: [] for s in streams}

    def cut():
        batch = here.cut(size)
        for span in batch.spans if batch is not None else ():
            got[span.stream] += span.positions
            tickets[span.stream].append(span.ticket)
        assert batch is None or len(data(batch)) <= size

    for what, number in steps:
        s = streams[number]
        if what == "add":
            here.add(0, [of_bytes(segment(s, sent[s], 3))])
            sent[s] += 3
        elif what == "cut":
            cut()
        else:
            getattr(here, what)(s.session)
    for s in streams:
        here.resume(s.session)
    while here.waiting:
        cut()
    assert got == {s: list(range(sent[s])) for s in streams}
    assert all(numbers == list(range(len(numbers))) for numbers in tickets.values())
    assert (here.ready, here.ready_bytes) == (0, 0)


def test_bytes_are_counted_while_rows_wait_and_no_longer():
    here, held, other = order(byte_bound=100), stream("held"), stream("other")
    for first in (0, 2):
        here.add(0, [of_bytes(segment(held, first, 2)), of_bytes(segment(other, first, 3))])
    assert here.ready_bytes == 10
    here.pause(held.session)
    here.cut(1)
    assert here.ready_bytes == 7
    here.cut(1)
    assert here.ready_bytes == 6
    here.resume(held.session)
    assert here.ready_bytes == 8
    here.drop(held.session)
    assert here.ready_bytes == 4


def test_room_is_bounded_by_what_is_aside_of_several_sessions_as_they_come_and_go():
    here, a, b, other = order(bound=1), stream("a"), stream("b"), stream("other")

    def put_aside(s, *counts):
        here.pause(s.session)
        here.add(0, [segment(s, 0, count) for count in counts])
        assert here.cut(1) is None

    put_aside(a, 5, 5)
    put_aside(b, 5)
    assert here.has_room(0, other.session)
    put_aside(b, 1)
    assert not here.has_room(0, other.session)
    here.resume(a.session)
    while here.waiting:
        here.cut(8)
    put_aside(a, 9)  # in addition to six of b
    assert here.has_room(0, other.session)
    here.drop(b.session)
    put_aside(b, 6)
    assert here.has_room(0, other.session)
    put_aside(b, 1)
    assert not here.has_room(0, other.session)


def test_a_cancelled_session_whose_rows_are_met_leaves_no_ticket():
    here, s = order(is_ordered=True), stream()
    here.add(0, [segment(s, 0, 2)])
    here.cut(1)
    s.session.is_cancelled = True
    assert here.cut(1) is None
    assert here.count_held() == 0


def test_held_counts_what_waits_and_the_states_of_sessions():
    here, held, other = order(is_ordered=True), stream("held"), stream("other")
    here.add(0, [segment(other, 0, 3)])
    here.pause(held.session)
    here.cut(1)
    assert here.count_held() == 1 + 2 + 1 + 1  # a segment of two rows, a ticket, a pause


def test_an_end_alone_in_a_measured_queue_has_not_waited():
    here = order(is_measured=True)
    here.add(0, [segment(stream(), 0, 0, is_last=True)])
    assert here.cut(1).arrived == 0.0


# -- batches that arrive whole ------------------------------------------------------------------


def whole(*segments):
    """Returns a batch as emitted by a stage."""
    return Batch.of(segments, 1)


def test_a_batch_of_as_many_rows_as_are_taken_goes_on_as_it_is():
    here, a, b = order(), stream("a"), stream("b")
    first, second = whole(segment(a, 0, 2), segment(b, 0, 2)), whole(segment(a, 2, 4))
    for batch in (first, second):
        here.add_whole(batch)
    assert here.ready == 8
    assert here.cut(4) is first
    assert here.cut(4) is second
    assert (here.ready, here.count_held()) == (0, 0)


def test_a_smaller_batch_goes_on_as_it_is_where_nothing_else_waits():
    here = order()
    batch = whole(segment(stream(), 0, 2))
    here.add_whole(batch)
    assert here.cut(4) is batch


def test_smaller_batches_are_joined_and_larger_ones_cut():
    here, a, b = order(), stream("a"), stream("b")
    here.add_whole(whole(segment(a, 0, 2)))
    here.add_whole(whole(segment(a, 2, 1), segment(b, 0, 4)))
    found = [here.cut(4), here.cut(4)]
    assert [rows_of(batch) for batch in found] == [
        [("a", 0), ("a", 1), ("a", 2), ("b", 0)],
        [("b", 1), ("b", 2), ("b", 3)],
    ]
    assert [data(batch) for batch in found] == [[0, 1, 2, 0], [1, 2, 3]]


def test_rows_of_a_cancelled_session_are_dropped_from_a_whole_batch():
    here, gone, other = order(), stream("gone"), stream("other")
    here.add_whole(whole(segment(gone, 0, 2), segment(other, 0, 2)))
    gone.session.is_cancelled = True
    assert rows_of(here.cut(4)) == [("other", 0), ("other", 1)]
    assert here.ready == 0


def test_a_session_is_dropped_out_of_whole_batches():
    here, gone, other = order(), stream("gone"), stream("other")
    here.add_whole(whole(segment(gone, 0, 2), segment(other, 0, 1)))
    here.add_whole(whole(segment(gone, 2, 2)))
    here.drop(gone.session)
    assert here.ready == 1
    assert rows_of(here.cut(8)) == [("other", 0)]


def test_a_paused_session_is_put_aside_out_of_a_whole_batch():
    here, held, other = order(), stream("held"), stream("other")
    here.pause(held.session)
    here.add_whole(whole(segment(held, 0, 1), segment(other, 0, 1)))
    assert rows_of(here.cut(2)) == [("other", 0)]
    here.resume(held.session)
    assert rows_of(here.cut(2)) == [("held", 0)]


def test_a_whole_batch_has_the_tickets_of_the_stage_that_it_comes_to():
    ordered, plain, s = order(is_ordered=True), order(), stream()
    for here, tickets in ((ordered, [0, 1]), (plain, [None, None])):
        for first in (0, 2):
            batch = whole(segment(s, first, 2))
            batch.spans[0].ticket = 7
            here.add_whole(batch)
        assert [here.cut(2).spans[0].ticket for _ in range(2)] == tickets


def test_batches_are_not_taken_whole_where_rows_are_weighed():
    assert order(byte_bound=100).add_whole is None


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)))),
        max_size=12,
    ),
    st.integers(1, 8),
    st.integers(1, 4),
)
def test_whole_batches_give_the_same_rows_as_their_segments(parts, size, every):
    streams = [stream(name) for name in "abc"]
    sent = [0, 0, 0]
    both, found = (order(bound=1000), order(bound=1000)), ([], [])
    for turn, (is_whole, spans) in enumerate(parts):
        made = []
        for which, count in spans:
            made.append(segment(streams[which], sent[which], count))
            sent[which] += count
        if is_whole and made:
            both[0].add_whole(whole(*made))
        else:
            both[0].add(0, made)
        both[1].add(0, made)
        for here, rows in zip(both, found, strict=True):
            if turn % every == 0 and (batch := here.cut(size)) is not None:
                rows += rows_of(batch)
    for here, rows in zip(both, found, strict=True):
        while here.waiting:
            batch = here.cut(size)
            assert batch is None or batch.size <= size
            rows += [] if batch is None else rows_of(batch)
        assert here.ready == 0
    assert found[0] == found[1]


def first(name):
    found = stream(name)
    found.session.is_first = True
    return found


def arriving(found, at, *rows):
    one = segment(found, *rows)
    one.arrived = at
    return one


def test_rows_of_the_first_class_come_before_others_and_in_their_own_order():
    here, other, one, two = order(), stream("other"), first("one"), first("two")
    here.add(0, [segment(other, 0, 3)])
    assert rows_of(here.cut(1)) == [("other", 0)]
    here.add(0, [segment(one, 0, 1), segment(other, 3, 1)])
    here.add(0, [segment(two, 0, 2)])
    assert here.ready == 6
    assert rows_of(here.cut(2)) == [("one", 0), ("two", 0)]
    assert rows_of(here.cut(8)) == [("two", 1), ("other", 1), ("other", 2), ("other", 3)]


def test_rows_of_the_first_class_leave_a_batch_that_moved_as_a_whole():
    here, other, one = order(), stream("other"), first("one")
    here.add(0, [segment(other, 0, 1)])
    here.add_whole(Batch.of([segment(other, 1, 1), segment(one, 0, 2)], 1))
    assert rows_of(here.cut(3)) == [("one", 0), ("one", 1), ("other", 0)]


def test_only_a_batch_of_a_long_segment_passes_the_first_class():
    here, other, one = order(), stream("other"), first("one")
    here.add(0, [arriving(other, 0.0, 0, 6)])
    here.add(0, [arriving(one, 1.1 * PATIENCE, 0, 2)])
    assert rows_of(here.cut(2)) == [("other", 0), ("other", 1)]
    assert rows_of(here.cut(2)) == [("one", 0), ("one", 1)]
    assert rows_of(here.cut(8)) == [("other", n) for n in range(2, 6)]


def test_a_batch_of_short_segments_passes_the_first_class():
    here, one = order(), first("one")
    for name in "abc":
        here.add(0, [arriving(stream(name), 0.0, 0, 1)])
    here.add(0, [arriving(one, 1.1 * PATIENCE, 0, 2)])
    assert rows_of(here.cut(2)) == [("a", 0), ("b", 0)]
    assert rows_of(here.cut(2)) == [("one", 0), ("one", 1)]


def test_a_row_that_has_waited_too_long_passes_the_first_class_once_in_that_time():
    here, other, one = order(), stream("other"), first("one")
    here.add(0, [arriving(other, 0.0, 0, 1), arriving(other, 0.0, 1, 1)])
    here.add(0, [arriving(one, 0.9 * PATIENCE, 0, 1)])
    assert rows_of(here.cut(1)) == [("one", 0)]
    here.add(0, [arriving(one, 1.1 * PATIENCE, 1, 2)])
    assert rows_of(here.cut(1)) == [("other", 0)]
    assert rows_of(here.cut(1)) == [("one", 1)]
    here.add(0, [arriving(one, 2.2 * PATIENCE, 3, 1)])
    assert rows_of(here.cut(1)) == [("other", 1)]
    assert rows_of(here.cut(8)) == [("one", 2), ("one", 3)]


def test_a_load_of_the_first_class_does_not_keep_other_sessions_out():
    here, other, one = order(bound=4), stream("other"), first("one")
    here.add(0, [segment(one, 0, 10)])
    assert here.room(0) == 4
    assert here.is_roomy()
    assert here.has_room(0, other.session)
    assert not here.has_room(0, one.session)
    assert not here.has_room(0, None)
    here.add(0, [segment(other, 0, 3)])
    assert (here.room(0), here.is_roomy()) == (1, False)
    here.add(0, [segment(other, 3, 1)])
    assert here.room(0) == 0
    assert not here.has_room(0, other.session)
    assert here.cut(10).size == 10
    assert here.room(0) == 0
    assert here.cut(2).size == 2
    assert here.is_roomy()


ways_in = st.lists(
    st.tuples(
        st.sampled_from(["add", "whole", "cut", "pause", "resume"]),
        st.integers(0, 3),
        st.integers(1, 5),
        st.sampled_from([0.0, 0.5, 1.5]),
    ),
    max_size=40,
)


@given(ways_in, st.integers(1, 4))
def test_each_session_keeps_its_order_whichever_class_it_has(steps, size):
    here, now = order(is_ordered=True), 0.0
    streams = [first("a"), first("b"), stream("c"), stream("d")]
    sent, got = dict.fromkeys(streams, 0), {s: [] for s in streams}

    def cut():
        batch = here.cut(size)
        for span in batch.spans if batch is not None else ():
            got[span.stream] += span.positions
        assert batch is None or batch.size <= size

    for what, number, count, passed in steps:
        now += passed
        s = streams[number]
        if what in ("add", "whole"):
            rows = arriving(s, now, sent[s], count)
            sent[s] += count
            if what == "add":
                here.add(0, [rows])
            else:
                here.add_whole(Batch.of([rows], 1))
        elif what == "cut":
            cut()
        else:
            getattr(here, what)(s.session)
    for s in streams:
        here.resume(s.session)
    while here.waiting:
        cut()
    assert got == {s: list(range(sent[s])) for s in streams}
    assert here.ready == 0


def test_a_long_batch_that_passes_the_first_class_does_not_mix_its_rows():
    here, other, one = order(), stream("other"), first("one")
    here.add_whole(whole(arriving(other, 0.0, 0, 2)))
    here.add(0, [arriving(one, 1.1 * PATIENCE, 0, 1)])
    assert rows_of(here.cut(1)) == [("other", 0)]
    here.add(0, [arriving(one, 1.1 * PATIENCE, 1, 1)])
    assert [rows_of(here.cut(1)) for _ in range(3)] == [[("one", 0)], [("one", 1)], [("other", 1)]]


def test_a_resumed_session_of_the_second_class_stays_behind_the_first():
    here, other, one = order(), stream("other"), first("one")
    here.add(0, [segment(other, 0, 1)])
    here.pause(other.session)
    assert here.cut(8) is None
    here.add(0, [segment(one, 0, 1)])
    here.resume(other.session)
    here.add(0, [segment(one, 1, 1)])
    assert rows_of(here.cut(8)) == [("one", 0), ("one", 1), ("other", 0)]
