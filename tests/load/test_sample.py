"""Tests of the percentiles of measurements."""

import pytest

from modelflow.insight.load.report import Sample


def test_percentiles_are_values_of_the_sample():
    found = Sample([n / 1000 for n in range(1000, 0, -1)])
    wanted = {0: 0.001, 50: 0.5, 90: 0.9, 99: 0.99, 99.9: 0.999, 100: 1.0}
    assert {percent: found.percentile(percent) for percent in wanted} == wanted
    assert (len(found), found.max) == (1000, 1.0)
    assert found.mean == pytest.approx(0.5005)


def test_a_sample_of_one_has_one_percentile():
    assert {Sample([2.0]).percentile(percent) for percent in (0, 1, 50, 99.9, 100)} == {2.0}


def test_an_empty_sample_has_zeros():
    found = Sample().document()
    assert found["count"] == 0
    assert set(found.values()) == {0}


def test_a_percentile_is_from_0_to_100():
    with pytest.raises(ValueError, match="percent: got 101; expected 0 to 100"):
        Sample([1.0]).percentile(101)


def test_a_percentile_is_exact_where_its_place_is_no_binary_number():
    # 41 000 * 99.9 / 100 is a little more than 40 959 in floating point.
    assert Sample(range(1, 41_001)).percentile(99.9) == 40_959.0
