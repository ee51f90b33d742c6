"""Tests that delayed items are due in the order of their times, and of their arrival if equal."""

from hypothesis import given
from hypothesis import strategies as st

from modelflow.runtime.clock import Delayed
from tests.runtime.fake_clock import FakeClock


def test_items_come_when_they_are_due():
    clock = FakeClock()
    later = Delayed(clock)
    later.add("b", 5)
    later.add("a", 1)
    assert bool(later)
    assert later.remaining() == 1
    assert list(later.due()) == []
    clock.advance(2)
    assert list(later.due()) == ["a"]
    assert later.remaining() == 3
    clock.advance(3)
    assert list(later.due()) == ["b"]
    assert later.remaining() is None
    assert not later


@given(st.lists(st.integers(0, 5)))
def test_all_gives_everything_the_earliest_first(delays):
    later = Delayed(FakeClock())
    for number, delay in enumerate(delays):
        later.add((delay, number), delay)
    assert list(later.all()) == sorted((delay, number) for number, delay in enumerate(delays))
    assert not later


def test_what_is_due_at_the_same_time_comes_in_the_order_in_which_it_was_added():
    clock = FakeClock()
    later = Delayed(clock)
    for item in ({}, []):  # these items cannot be compared
        later.add(item, 1)
    clock.advance(1)
    assert list(later.due()) == [{}, []]
    later.add("dropped", 1)
    later.clear()
    assert not later
