"""Tests of a queue's bounds, and of producers that wait for room."""

import threading

from modelflow.buffer import Buffer
from modelflow.runtime.session.segment import Segment
from tests.runtime.fake_clock import FakeClock, Passing
from tests.runtime.queues.test_inbox import inbox, segment, stream


def test_producers_are_woken_when_half_is_free_and_not_before():
    box, s, woken = inbox(bounds=(4,), batch_size=1), stream(), []
    box.append(0, [segment(s, 0, 4)])
    assert not box.has_room(0)
    box.on_room(0, lambda: woken.append(box.ready))
    box.take()
    assert woken == []
    box.take()
    assert woken == [2]


def test_producers_are_woken_when_half_of_the_bytes_are_free_and_not_before():
    box, s, woken = inbox(bounds=(32,), byte_bound=4, batch_size=1), stream(), []
    column = [Buffer(b"x") for _ in range(4)]
    box.append(0, [Segment(s, range(4), [column], False, False)])
    box.on_room(0, lambda: woken.append(box.ready))
    box.take()
    assert woken == []
    box.take()
    assert woken == [2]


def test_a_producer_that_waits_at_the_bound_goes_on_when_there_is_room():
    clock = FakeClock()
    box, s = inbox(clock=clock, bounds=(2,), batch_size=1), stream()
    box.append(0, [segment(s, 0, 2)])
    producer = threading.Thread(target=box.wait_for_room, args=(0,), name="modelflow/test")
    producer.start()
    clock.until_waiting()
    box.take()
    producer.join()
    assert box.ready == 1


def test_wait_for_room_gives_up_after_its_time():
    clock = FakeClock()
    box, s = inbox(clock=clock, bounds=(1,)), stream()
    box.append(0, [segment(s, 0, 1)])
    result = []
    producer = threading.Thread(
        target=lambda: result.append(box.wait_for_room(0, 2.0)), name="modelflow/test"
    )
    producer.start()
    clock.until_sleeping()
    clock.advance(2.0)
    producer.join()
    assert result == [False]


def test_unmatched_rows_never_count_towards_the_bound():
    box, s = inbox(("a", "b"), bounds=(1, 1)), stream()
    box.append(0, [segment(s, 0, 100)])
    assert box.has_room(0)
    box.append(1, [segment(s, 0, 2)])
    assert not box.has_room(0)
    assert box.ready == 2


def test_unmatched_bound_holds_back_a_caller_who_forgets_the_other_port():
    box, s = inbox(("a", "b"), unmatched_bounds=(3, 3)), stream()
    box.append(0, [segment(s, 0, 3)])
    assert not box.has_room(0)
    assert box.is_unmatched(0)
    box.append(1, [segment(s, 0, 3)])
    assert box.has_room(0)


def test_on_room_calls_back_once_there_is_room():
    box, s = inbox(bounds=(1,)), stream()
    calls = []
    box.on_room(0, lambda: calls.append("at once"))
    box.append(0, [segment(s, 0, 1)])
    box.on_room(0, lambda: calls.append("later"))
    assert calls == ["at once"]
    box.take()
    assert calls == ["at once", "later"]


def test_a_full_queue_says_whose_it_is():
    box, s = inbox(bounds=(1,)), stream()
    assert box.find_backpressure(0) is None
    box.append(0, [segment(s, 0, 1)])
    assert box.find_backpressure(0) == "node"


def test_who_is_woken_too_early_waits_for_room_until_the_end_of_his_time():
    clock, s = Passing(longest=1.5), stream()
    box = inbox(clock=clock, bounds=(1,))
    box.append(0, [segment(s, 0, 1)])
    assert not box.wait_for_room(0, 2.0)
    assert clock.waits == [1.5, 0.5]


def test_who_has_waited_for_room_is_told_of_it():
    clock = FakeClock()
    box, s, result = inbox(clock=clock, bounds=(1,)), stream(), []
    box.append(0, [segment(s, 0, 1)])
    producer = threading.Thread(
        target=lambda: result.append(box.wait_for_room(0, 2.0)), name="modelflow/test"
    )
    producer.start()
    clock.until_sleeping()
    box.take()
    producer.join()
    assert result == [True]


def test_who_waits_for_room_for_a_session_that_is_over_goes_on():
    box, s, called = inbox(bounds=(1,)), stream(), []
    box.append(0, [segment(s, 0, 1)])
    s.session.progress.is_closed = True
    box.on_room(0, lambda: called.append("over"), s.session)
    assert called == ["over"]


def test_a_callback_for_room_that_was_taken_back_is_not_called():
    box, s, called = inbox(bounds=(1,)), stream(), []
    box.append(0, [segment(s, 0, 1)])
    wait = lambda: called.append("room")  # noqa: E731
    box.on_room(0, wait)
    box.forget(wait)
    box.take()
    assert called == []
