import numpy as np
import pytest

from modelflow.wire.open_inference.infer import classify
from modelflow.wire.problem import Problem


def test_the_best_classes_come_first_with_their_labels():
    scores = np.array([[0.1, 0.7, 0.7], [np.nan, -1, np.inf]], np.float32)
    assert classify(scores, 2, ["a", "b"], "y").tolist() == [
        [b"0.700000:1:b", b"0.700000:2"],
        [b"inf:2", b"-1.000000:1:b"],
    ]


def test_there_are_no_more_classes_than_scores():
    assert classify(np.array([[3, 5]]), 9, [], "y").tolist() == [[b"5:1", b"3:0"]]
    assert classify(np.zeros((0, 3)), 2, [], "y").shape[0] == 0
    assert classify(np.array([7, 8], np.int32), 1, [], "y").tolist() == [[b"7:0"], [b"8:0"]]


@pytest.mark.parametrize("scores", [np.array(["a"], object), np.float32(1)])
def test_what_has_no_scores_is_a_problem(scores):
    with pytest.raises(Problem, match="classes need rows of scores"):
        classify(np.asarray(scores), 1, [], "y")


def test_large_integers_and_unsigned_ones_are_compared_as_they_are():
    assert classify(np.array([[1, 200, 3]], np.uint8), 1, [], "y").tolist() == [[b"200:1"]]
    scores = np.array([[2**60, 2**60 + 1]])
    assert classify(scores, 1, [], "y").tolist() == [[f"{2**60 + 1}:1".encode()]]
