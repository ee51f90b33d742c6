"""Tests of merges, which restore the order before the condition."""

import threading

from modelflow.runtime.session.segment import Segment, Stream
from modelflow.runtime.stages.merge import BRANCH, ORDER, Merge
from tests.runtime.fake_clock import FakeClock
from tests.runtime.queues.test_inbox import stream
from tests.runtime.stages.test_outbox import Receiver


def told(of, *positions, is_last=False):
    return [Segment(of, positions, [[]], is_last, False)]


def brought(of, *positions, is_last=False):
    from modelflow.buffer import Buffer

    return [Segment(of, positions, [[Buffer(p) for p in positions]], is_last, False)]


def merge(edges=2, bound=None, clock=None):
    to = Receiver()
    return Merge("join", (to, 0), edges, bound, clock or FakeClock()), to


def test_what_the_branches_bring_goes_on_in_the_order_that_was_told():
    here, to = merge()
    s = stream()
    here.append(BRANCH, brought(s, 1, 2))
    here.append(ORDER, told(s, 0, 1, 2, 3))
    assert to.got == []
    here.append(BRANCH, brought(s, 0))
    assert to.values(s) == [0, 1, 2]
    here.append(BRANCH, brought(s, 3))
    assert to.values(s) == [0, 1, 2, 3]
    here.append(ORDER, told(s, is_last=True))
    for _ in range(2):
        here.append(BRANCH, brought(s, is_last=True))
    assert to.got[-1].is_last
    assert here.count_held() == 0


def test_what_a_branch_has_dropped_is_not_waited_for_once_all_have_ended():
    here, to = merge()
    s = stream()
    here.append(ORDER, told(s, 0, 1, 2, is_last=True))
    here.append(BRANCH, brought(s, 0, is_last=True))
    here.append(BRANCH, brought(s, 2))
    assert to.values(s) == [0]
    here.append(BRANCH, brought(s, is_last=True))
    assert to.values(s) == [0, 2]
    assert to.got[-1].is_last
    assert here.count_held() == 0


def test_what_a_branch_has_added_goes_on_at_the_end():
    here, to = merge()
    s = stream()
    here.append(ORDER, told(s, 0, is_last=True))
    here.append(BRANCH, brought(s, 0, 1, 2, is_last=True))
    here.append(BRANCH, brought(s, is_last=True))
    assert to.values(s) == [0, 1, 2]


def test_one_session_does_not_wait_for_another():
    here, to = merge()
    slow, quick = stream("slow"), stream("quick")
    here.append(ORDER, told(slow, 0) + told(quick, 0))
    here.append(BRANCH, brought(quick, 0))
    assert to.values(quick) == [0]


def test_the_condition_alone_is_held_back_while_too_much_waits():
    clock = FakeClock()
    here, _ = merge(bound=2, clock=clock)
    s = stream()
    here.append(ORDER, told(s, 0, 1, 2, 3))
    here.append(BRANCH, brought(s, 1, 2))
    here.wait_for_room(BRANCH)
    assert here.find_backpressure(ORDER) == "the branches that meet before 'join'"
    assert here.find_backpressure(BRANCH) is None
    thread = threading.Thread(target=here.wait_for_room, args=(ORDER,), name="modelflow/test")
    thread.start()
    clock.until_waiting()
    here.append(BRANCH, brought(s, 0))
    thread.join()
    assert here.find_backpressure(ORDER) is None


def test_without_a_bound_the_condition_goes_on():
    here, _ = merge(bound=None)
    s = stream()
    here.append(ORDER, told(s, *range(100)))
    here.append(BRANCH, brought(s, *range(1, 100)))
    here.wait_for_room(ORDER)
    assert here.find_backpressure(ORDER) is None


def test_a_session_that_is_cancelled_leaves_nothing_and_wakes_the_condition():
    clock = FakeClock()
    here, to = merge(bound=1, clock=clock)
    s, other = stream(), stream("other")
    here.append(ORDER, told(s, 0, 1))
    here.append(BRANCH, brought(s, 1))
    thread = threading.Thread(target=here.wait_for_room, args=(ORDER,), name="modelflow/test")
    thread.start()
    clock.until_waiting()
    s.session.is_cancelled = True
    here.discard(s.session)
    thread.join()
    here.append(BRANCH, brought(s, 0))
    assert (here.count_held(), to.got) == (0, [])
    here.append(ORDER, told(other, 0))
    here.append(BRANCH, brought(other, 0))
    assert to.values(other) == [0]


def test_close_wakes_the_condition_and_takes_nothing_more():
    clock = FakeClock()
    here, to = merge(bound=1, clock=clock)
    s = stream()
    here.append(ORDER, told(s, 0, 1))
    here.append(BRANCH, brought(s, 1))
    thread = threading.Thread(target=here.wait_for_room, args=(ORDER,), name="modelflow/test")
    thread.start()
    clock.until_waiting()
    here.close()
    thread.join()
    assert not here.append(BRANCH, brought(s, 0))
    assert (here.count_held(), to.got) == (0, [])


def test_what_comes_with_a_cancelled_session_passes_and_the_session_is_forgotten():
    here, to = merge()
    gone, other = stream("gone"), stream("other")
    here.append(ORDER, told(gone, 0, 1) + told(other, 0))
    here.append(BRANCH, brought(gone, 1))
    gone.session.is_cancelled = True
    here.append(BRANCH, brought(gone, 0) + brought(other, 0))
    assert to.values(other) == [0]
    assert here.count_held() == 1


def test_a_condition_waits_for_the_bound_of_each_session_that_waits():
    here, _ = merge(bound=2)
    one, other = stream("one"), stream("other")
    here.append(ORDER, told(one, *range(4)) + told(other, *range(4)))
    here.append(BRANCH, brought(one, 1) + brought(other, 1))
    here.append(BRANCH, brought(one, 2))
    assert here.find_backpressure(ORDER) is None
    here.append(BRANCH, brought(one, 3))
    assert here.find_backpressure(ORDER) is not None


def test_nothing_goes_on_while_the_first_has_not_come():
    here, to = merge()
    here.append(ORDER, told(stream(), 0, is_last=True))
    assert to.got == []


def test_an_empty_stream_passes_and_of_a_sub_stream_nothing_is_left():
    here, to = merge()
    s = stream()
    for position, rows in enumerate([(), (0, 1)]):
        sub = Stream(s.session, s, position)
        here.append(ORDER, told(sub, *rows, is_last=True))
        here.append(BRANCH, brought(sub, *rows, is_last=True))
        here.append(BRANCH, brought(sub, is_last=True))
        assert to.got[-1].stream is sub
        assert to.got[-1].is_last
    (waits,) = here._sessions.values()
    assert (waits.rows, waits.ends, len(waits.order)) == ({}, {}, 0)


def test_a_branch_waits_for_the_port_behind_the_merge():
    class Full(Receiver):
        def find_backpressure(self, port):
            return f"port {port}"

    here = Merge("join", (Full(), 7), 2, None, FakeClock())
    assert here.find_backpressure(BRANCH) == "port 7"
