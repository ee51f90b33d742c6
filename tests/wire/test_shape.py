import pytest

from modelflow.wire.problem import Problem
from modelflow.wire.tensor import MOST_AXES, check_shape


@pytest.mark.parametrize(
    "shape", [[], [0], [2, 3], (0, 1 << 48), [1] * MOST_AXES, [1 << 24, 1 << 24]]
)
def test_a_list_of_lengths_is_a_shape(shape):
    assert check_shape(shape, "x") == tuple(shape)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (None, "x: shape None; expected a list of integers"),
        (3, "x: shape 3; expected a list of integers"),
        ("33", "x: shape .33.; expected a list of integers"),
        ([-1], r"x: shape \[-1\]; expected integers of 0 or more"),
        ([True], r"x: shape \[True\]; expected integers of 0 or more"),
        ([1.0], "x: shape .*; expected integers of 0 or more"),
        (["1"], "x: shape .*; expected integers of 0 or more"),
        ([[1]], "x: shape .*; expected integers of 0 or more"),
        ([1] * (MOST_AXES + 1), "x: 33 axes; at most 32 are possible"),
        ([1 << 48, 2], "x: shape .*; its axes, those of 0 left out, may make 2"),
        ([1 << 62, 0], "x: shape .*; its axes, those of 0 left out, may make 2"),
    ],
)
def test_what_is_no_shape_is_a_problem(shape, said):
    with pytest.raises(Problem, match=said):
        check_shape(shape, "x")
