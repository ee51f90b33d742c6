"""Tests of the estimate of a model's speed by its load."""

import pytest

from modelflow.serve.requests.admission import WaitEstimator


class Time:
    """A clock that the test advances."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def pace(time):
    return WaitEstimator(time)


def test_nothing_is_known_at_first(pace):
    assert pace.wait(1) is None


def test_a_batch_is_as_many_answers_at_once(pace):
    pace.note(32, 0.032, 32)
    assert pace.wait(32) == pytest.approx(0.032)
    assert pace.wait(63) == pytest.approx(0.063)


def test_the_answers_of_a_batch_that_come_in_parts_count_as_those_of_one(pace):
    for _ in range(200):
        pace.note(32, 0.032, 1)
        pace.note(32, 0.0, 31)
    assert pace.wait(32) == pytest.approx(0.032, rel=0.1)


def test_the_mean_follows_what_changes(pace):
    pace.note(1, 1.0, 1)
    for _ in range(200):
        pace.note(1, 0.01, 1)
    assert pace.wait(1) == pytest.approx(0.01, rel=0.01)


def test_to_the_next_doubling_all_are_thought_to_take_no_longer_and_beyond_it_each_twice_that(pace):
    pace.note(7, 0.01, 7)
    assert pace.wait(7) == pytest.approx(0.01)
    assert pace.wait(8) == pace.wait(15) == pytest.approx(0.01)
    assert pace.wait(16) == pytest.approx(0.02)
    assert pace.wait(32) == pytest.approx(0.04)


def test_fewer_than_ever_seen_take_a_part_of_the_time(pace):
    pace.note(64, 0.064, 64)
    assert pace.wait(2) == pytest.approx(0.002)


def test_what_was_seen_long_ago_is_given_another_try_once_fewer_do_well(pace, time):
    pace.note(16, 16.0, 16)
    time.now += 10
    assert pace.wait(16) == pytest.approx(16.0)
    pace.note(15, 0.015, 15)
    assert pace.wait(16) == pytest.approx(0.015)
