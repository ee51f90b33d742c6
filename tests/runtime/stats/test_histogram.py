"""Distributions of times."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.runtime.stats.histogram import ALL, EVERY, SHORT, Histogram, Record

TIMES = st.floats(1e-7, 1e4)
# The bound of a value's distance from the middle of its bucket.
NEAR = 2 ** (1 / 8) * 1.02


def recorded(times):
    record = Record()
    for seconds in times:
        record.add(seconds)
    return record.histogram()


@given(st.lists(TIMES, min_size=1, max_size=ALL), st.floats(0, 100))
def test_a_percentile_is_near_the_truth(times, percent):
    found = recorded(times).percentile(percent)
    place = max(1, math.ceil(len(times) * percent / 100))
    truth = sorted(times)[place - 1]
    assert truth / NEAR <= found <= truth * NEAR


@given(st.lists(TIMES, max_size=ALL), st.lists(TIMES, max_size=ALL))
def test_two_histograms_add_up_to_that_of_all(some, more):
    one, other, both = recorded(some), recorded(more), recorded(some)
    for seconds in more:
        both += recorded([seconds])
    assert (one + other).counts == both.counts
    assert (one + other).total == pytest.approx(sum(some) + sum(more))
    assert (one + other - other).counts == one.counts
    assert (one + other).count == len(some) + len(more)


@given(st.lists(TIMES, min_size=1, max_size=ALL))
def test_what_is_at_most_a_bound_grows_to_all(times):
    histogram = recorded(times)
    bounds = sorted(histogram.percentile(p) for p in (0, 25, 50, 100))
    found = histogram.at_most([0.0, *bounds, math.inf])
    assert found == sorted(found)
    assert found[0] == 0
    assert found[-2:] == [len(times)] * 2


@pytest.mark.parametrize(("seconds", "is_each"), [(SHORT / 2, False), (SHORT * 2, True)])
def test_of_many_short_times_one_of_several_counts_for_them_all(seconds, is_each):
    record = Record()
    for _ in range(ALL + 10 * EVERY):
        record.add(seconds)
    assert record.histogram().count == ALL + 10 * EVERY
    (bucket,) = record.histogram().counts
    record.add(seconds)
    assert record.counts[bucket] - (ALL + 10 * EVERY) == is_each


def test_a_time_of_nothing_has_a_bucket_too():
    assert recorded([0.0]).counts == {0: 1}


def test_an_empty_one_has_neither_mean_nor_percentile():
    assert (Histogram().count, Histogram().mean, Histogram().percentile(99)) == (0, 0.0, 0.0)


def test_the_mean_is_exact():
    assert recorded([0.25, 0.75]).mean == 0.5


@pytest.mark.parametrize("percent", [-1, 101])
def test_a_percent_is_from_0_to_100(percent):
    with pytest.raises(ValueError, match=f"percent: got {percent}; expected 0 to 100"):
        Histogram().percentile(percent)
