"""Tests of the time at which an ended replica is replaced."""

from modelflow.serve.processes.supervisor.restart import Backoff


def test_the_first_time_it_is_at_once_then_later_and_later():
    backoff = Backoff(10.0)
    assert [backoff.after(0.1) for _ in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]


def test_one_that_has_served_for_a_while_is_replaced_at_once():
    backoff = Backoff(10.0)
    assert [backoff.after(lived) for lived in (1, 1, 9.9, 10, 1, 1)] == [0, 1, 2, 0, 1, 2]
