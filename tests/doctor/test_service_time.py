"""Tests of the line through the durations of calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.insight.doctor import ServiceTime


@given(
    st.floats(0.0, 1.0), st.floats(1e-6, 1.0), st.sets(st.integers(1, 64), min_size=2, max_size=6)
)
def test_what_lies_on_a_line_gives_that_line(fixed, each, sizes):
    calls = {size: (5, 5 * (fixed + each * size)) for size in sizes}
    found = ServiceTime.of(calls)
    assert found is not None
    for size in sizes:
        assert found.seconds(size) == pytest.approx(fixed + each * size, rel=1e-6)
    assert found.error < 1e-6


@given(
    st.dictionaries(
        st.integers(1, 64), st.tuples(st.integers(3, 50), st.floats(1e-6, 9.0)), min_size=2
    )
)
def test_neither_part_is_ever_negative(calls):
    found = ServiceTime.of(calls)
    assert found is not None
    assert found.fixed >= 0
    assert found.each >= 0


def test_what_was_hardly_called_says_nothing():
    assert ServiceTime.of({4: (100, 1.0), 8: (2, 1.0), 0: (50, 1.0)}) is None


def test_a_step_is_seen_as_a_deviation():
    found = ServiceTime.of({n: (9, 9 * (0.01 if n <= 4 else 0.04)) for n in (1, 2, 4, 5, 8)})
    assert found is not None
    assert found.error > 0.15


def test_it_says_rates():
    line = ServiceTime(0.009, 0.001)
    assert line.rate(16) == pytest.approx(640)
    assert str(line) == "t(n) = 9 ms + 1 ms n"
    assert ServiceTime(0.0, 0.0).rate(1) == float("inf")
