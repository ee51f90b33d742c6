"""Tests of the requests that a model admits."""

import pytest

from modelflow.serve.requests.admission import Admission, OverloadedError, whole_seconds
from modelflow.wire.problem import Code


class Time:
    """A clock that the test advances."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def made(most=1000):
    time = Time()
    return Admission("m", most, time), time


def work(admission, time, seconds, count=1, at_once=1):
    """Answers requests, ``at_once`` of them in so many seconds."""
    for _ in range(count):
        for _ in range(at_once):
            admission.admit(None)
        time.now += seconds
        answer(admission, at_once)


def answer(admission, count=1):
    for _ in range(count):
        admission.on_done()
    admission.on_answer(count)


def test_as_many_are_taken_as_there_may_be():
    admission, time = made(most=2)
    admission.admit(None)
    admission.admit(None)
    assert not admission.takes(None)
    with pytest.raises(OverloadedError, match="2 requests under way") as refused:
        admission.admit(None)
    assert (refused.value.code, refused.value.reason) == (Code.UNAVAILABLE, "full")
    time.now += 1
    answer(admission)
    assert admission.takes(None)
    admission.admit(None)
    assert admission.refused == {"full": 1}


def test_what_would_come_too_late_is_refused():
    admission, time = made()
    work(admission, time, 0.1, 100, at_once=10)
    for _ in range(9):
        admission.admit(None)
    assert admission.expected_wait == pytest.approx(0.1)
    admission.admit(0.2)
    assert not admission.takes(0.05)
    with pytest.raises(OverloadedError, match=r"about 0\.11 s.*waits 0\.05 s") as refused:
        admission.admit(0.05)
    assert refused.value.reason == "would_miss_deadline"
    assert refused.value.retry_after == pytest.approx(0.06)


def test_where_nothing_is_under_way_one_is_tried_whatever_was():
    admission, time = made()
    work(admission, time, 10.0)
    assert admission.takes(0.001)
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


def test_one_that_is_given_up_makes_room_and_is_no_answer():
    admission, time = made(most=2)
    admission.admit(None)
    admission.admit(None)
    time.now += 0.01
    admission.on_done()
    admission.on_answer(0)
    assert admission.expected_wait is None
    time.now += 0.01
    answer(admission)
    assert admission.expected_wait == pytest.approx(0.02)


def test_one_that_comes_behind_many_that_were_given_up_is_one():
    admission, time = made()
    for _ in range(500):
        admission.admit(None)
    admission.on_done(500)
    admission.on_answer(0)
    work(admission, time, 0.01)
    for _ in range(499):
        admission.admit(None)
    # as in `WaitEstimator` for a single request
    assert admission.expected_wait == pytest.approx(0.01 * 128)


def test_a_deadline_that_many_at_once_can_meet_is_found_out_from_few():
    """Tests a model that takes as long for 32 requests as for a single request."""
    admission, time = made()
    work(admission, time, 0.01, 10)
    most = 0
    for _ in range(10):
        while admission.takes(0.025):
            admission.admit(0.025)
        most = max(most, admission.under_way)
        while admission.under_way:
            time.now += 0.01
            answer(admission, min(32, admission.under_way))
    assert 32 <= most < 128


@pytest.mark.parametrize(("seconds", "said"), [(0.001, 1), (1.0, 1), (1.2, 2), (59.9, 60)])
def test_the_time_to_come_again_is_said_in_whole_seconds(seconds, said):
    assert whole_seconds(OverloadedError("x", "full", seconds)) == said
