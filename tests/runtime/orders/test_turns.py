"""Tests of the turns of sessions of both classes."""

from hypothesis import given
from hypothesis import strategies as st

from modelflow.runtime.orders.turns import PATIENCE, Turns
from tests.runtime.fake_clock import FakeClock


def turns_of(*items):
    """Returns turns of items; capitals are of the first class."""
    turns = Turns()
    for item in items:
        turns.add(item, is_first=item.isupper())
    return turns


def take_all(turns):
    return "".join(turns.take(FakeClock().now) for _ in range(len(turns)))


def test_the_first_class_comes_first_and_each_class_in_its_order():
    assert take_all(turns_of(*"aAbBcC")) == "ABCabc"


def test_an_item_that_is_put_back_is_the_next_of_its_class():
    turns = turns_of(*"aA")
    turns.put_back("b", is_first=False)
    turns.put_back("B", is_first=True)
    assert take_all(turns) == "BAba"


def test_an_item_may_leave_and_all_items_may():
    turns = turns_of(*"abAB")
    turns.leave("A", is_first=True)
    turns.leave("a", is_first=False)
    turns.add("C", is_first=True)
    assert take_all(turns) == "BCb"
    turns = turns_of(*"aA")
    turns.clear()
    turns.add("b", is_first=False)
    turns.add("B", is_first=True)
    assert take_all(turns) == "Bb"


def test_the_second_class_has_one_turn_in_each_time_under_a_load_of_the_first():
    clock, turns, taken = FakeClock(), turns_of(*"abA"), ""
    for _ in range(31):
        item = turns.take(clock.now)
        taken += item
        turns.add(item, is_first=item.isupper())
        clock.advance(PATIENCE / 10 * 1.001)
    assert taken == "AAAAAAAAAAaAAAAAAAAAbAAAAAAAAAa"


def test_a_wait_that_has_ended_does_not_count_for_the_next():
    clock, turns = FakeClock(), turns_of(*"aA")
    assert turns.take(clock.now) == "A"
    assert turns.take(clock.now) == "a"
    clock.advance(2 * PATIENCE)
    turns.add("b", is_first=False)
    turns.add("B", is_first=True)
    assert turns.take(clock.now) == "B"


@given(st.lists(st.sampled_from("aAbB-"), max_size=30))
def test_every_item_has_one_turn(steps):
    clock, turns, added, taken = FakeClock(), Turns(), [], []
    for step in steps:
        clock.advance(PATIENCE / 2)
        if step != "-":
            turns.add(step, is_first=step.isupper())
            added.append(step)
        elif turns:
            taken.append(turns.take(clock.now))
        assert turns.first == sum(item.isupper() for item in turns)
    assert sorted([*taken, *turns]) == sorted(added)
