"""Which requests a model takes."""

import pytest

from modelflow.serve.admission import Admission, RefusedError, whole_seconds
from modelflow.wire.problem import Code


class Time:
    """A clock that the test turns."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def made(most=1000):
    time = Time()
    return Admission("m", most, time), time


def work(admission, time, seconds, count=1):
    """Answers requests one after the other, each in so many seconds."""
    for _ in range(count):
        admission.admit(None)
        time.now += seconds
        admission.answered()


def test_as_many_are_taken_as_there_may_be():
    admission, time = made(most=2)
    admission.admit(None)
    admission.admit(None)
    with pytest.raises(RefusedError, match="2 requests under way") as refused:
        admission.admit(None)
    assert (refused.value.code, refused.value.reason) == (Code.UNAVAILABLE, "full")
    time.now += 1
    admission.answered()
    admission.admit(None)
    assert admission.refused == {"full": 1}


def test_what_would_come_too_late_is_refused():
    admission, time = made()
    work(admission, time, 0.01, 100)
    for _ in range(9):
        admission.admit(None)
    assert admission.expected_wait == pytest.approx(0.1)
    admission.admit(0.2)
    with pytest.raises(RefusedError, match=r"about 0\.11 s.*waits 0\.05 s") as refused:
        admission.admit(0.05)
    assert refused.value.reason == "would_miss_deadline"
    assert refused.value.retry_after == pytest.approx(0.06)


def test_where_nothing_is_under_way_one_is_tried_whatever_was():
    admission, time = made()
    work(admission, time, 10.0)
    admission.admit(0.001)


def test_where_nothing_was_answered_yet_nothing_is_predicted():
    admission, _ = made()
    assert admission.expected_wait is None
    admission.admit(0.001)
    admission.admit(0.001)


def test_time_in_which_there_was_nothing_to_do_does_not_count():
    admission, time = made()
    work(admission, time, 0.01, 50)
    time.now += 3600
    work(admission, time, 0.01)
    assert admission.expected_wait == pytest.approx(0.01)


def test_a_batch_is_as_many_answers_at_once():
    admission, time = made()
    for _ in range(32):
        admission.admit(None)
    time.now += 0.032
    admission.answered(32)
    assert admission.expected_wait == pytest.approx(0.001)


def test_the_mean_follows_what_changes():
    admission, time = made()
    work(admission, time, 1.0)
    work(admission, time, 0.01, 200)
    assert admission.expected_wait == pytest.approx(0.01, rel=0.01)


def test_one_that_is_dropped_is_not_waited_for():
    admission, _ = made(most=1)
    admission.admit(None)
    admission.dropped()
    admission.admit(None)


@pytest.mark.parametrize(("seconds", "said"), [(0.001, 1), (1.0, 1), (1.2, 2), (59.9, 60)])
def test_the_time_to_come_again_is_said_in_whole_seconds(seconds, said):
    assert whole_seconds(RefusedError("x", "full", seconds)) == said
