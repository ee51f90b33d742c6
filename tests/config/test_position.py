"""Tests of a node's position, in Graphviz's words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.config.flow_config import format_position, read_position

WHOLE = st.integers(-10_000, 10_000)


@given(WHOLE, WHOLE)
def test_what_is_written_is_read_again(x, y):
    assert read_position(format_position((x, y))) == (x, y)


def test_in_a_file_y_goes_upwards():
    assert format_position((300.4, -20.6)) == "300,21!"
    assert read_position("300,21!") == (300, -21)


@pytest.mark.parametrize(
    ("value", "position"),
    [
        ("27,90", (27, -90)),
        (" 1.5 , -2e1 ! ", (1.5, 20)),
        ([3, 4], (3, -4)),
        (None, None),
        ("", None),
        ("1", None),
        ("1,2,3", None),
        ("a,b!", None),
        ("--1,2", None),
        ("nan,1", None),
        ("1e9,1", None),
        ([1], None),
        ([1, "x"], None),
        ({"x": 1}, None),
        (7, None),
    ],
)
def test_what_is_no_position_is_passed_over(value, position):
    assert read_position(value) == position
