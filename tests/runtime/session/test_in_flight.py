"""Tests of the bound on the rows inside the whole graph."""

import threading

from modelflow.runtime.session.in_flight import InFlight
from tests.runtime.fake_clock import FakeClock


def never():
    return False


def test_it_is_full_at_its_bound_until_rows_leave_or_it_is_closed():
    here, found = InFlight(2, FakeClock()), []
    for change in (lambda: here.add(2), lambda: here.remove(1), lambda: here.add(5), here.close):
        change()
        found.append(here.is_full)
    assert found == [True, False, True, False]


def test_a_callback_comes_at_once_or_when_rows_have_left():
    here, calls = InFlight(1, FakeClock()), []
    here.on_room(lambda: calls.append("at once"), never)
    here.add(1)
    here.on_room(lambda: calls.append("over"), lambda: True)
    here.on_room(lambda: calls.append("later"), never)
    assert calls == ["at once", "over"]
    here.remove(1)
    here.call_due()
    assert calls == ["at once", "over", "later"]


def test_a_callback_that_was_taken_back_does_not_come():
    here, calls = InFlight(1, FakeClock()), []
    here.add(1)

    def call():
        calls.append(1)

    here.on_room(call, never)
    here.forget(call)
    here.close()
    assert calls == []


def test_a_thread_waits_until_it_is_woken_and_not_where_nothing_is_to_enter():
    here, clock = InFlight(1, FakeClock()), FakeClock()
    here.add(1)
    here.wait(clock, None, lambda: True)
    waiter = threading.Thread(
        target=here.wait, args=(clock, None, never), name="modelflow/test/waiter"
    )
    waiter.start()
    clock.until_waiting()
    here.wake()
    waiter.join()


def test_another_bound_holds_at_once_and_wakes_who_has_room_by_it():
    here, calls = InFlight(1, FakeClock()), []
    here.add(1)
    here.on_room(lambda: calls.append(1), never)
    here.go_by(2)
    assert (here.bound, here.is_full, calls) == (2, False, [1])


def test_the_seconds_at_the_bound_are_counted_with_those_that_still_pass():
    clock = FakeClock()
    here = InFlight(2, clock)
    here.add(2)
    clock.advance(3.0)
    assert here.full_seconds() == 3.0
    here.remove(1)
    clock.advance(5.0)
    assert here.full_seconds() == 3.0
    here.go_by(1)
    clock.advance(0.5)
    here.go_by(4)
    clock.advance(7.0)
    assert here.full_seconds() == 3.5
