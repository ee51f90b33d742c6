"""Percentiles of a sample."""

from hypothesis import given
from hypothesis import strategies as st

from modelflow.tune.percentile import percentile_of


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 100))
def test_so_many_percent_do_not_exceed_it_and_fewer_not_the_one_before(values, percent):
    rising = sorted(values)
    found = percentile_of(rising, percent)
    assert found in values
    assert sum(value <= found for value in rising) >= percent / 100 * len(rising) - 1e-9
    below = [value for value in rising if value < found]
    assert len(below) < percent / 100 * len(rising) + 1e-9


def test_of_nothing_it_is_nothing():
    assert percentile_of([], 50) == 0.0
