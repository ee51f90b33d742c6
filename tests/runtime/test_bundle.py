"""Bundles: each row's request is told once, whatever comes in which order."""

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled
from modelflow.runtime.bundle import Bundle


class Waits:
    def __init__(self):
        self.found, self.failures = [], []

    def arrived(self, found):
        self.found.append({name: [b.data for b in buffers] for name, buffers in found.items()})

    def failed(self, failure):
        self.failures.append(failure)


def boarded(count, terminals=1):
    bundle, passengers = Bundle(terminals), [Waits() for _ in range(count)]
    bundle.board(passengers)
    return bundle, passengers


def buffers(*values):
    return [Buffer(value) for value in values]


def test_each_is_told_of_its_own_row_in_whatever_order_they_come():
    bundle, passengers = boarded(3)
    assert not bundle.put("out", [2, 0], buffers("c", "a"), is_output=True)
    assert all(not one.found for one in passengers)  # not while locks are held
    bundle.call_due()
    assert [one.found for one in passengers] == [[{"out": ["a"]}], [], [{"out": ["c"]}]]
    assert bundle.put("out", [1], buffers("b"), is_output=True)
    bundle.call_due()
    assert passengers[1].found == [{"out": ["b"]}]


def test_a_request_is_over_when_every_terminal_has_its_row():
    bundle, (first, second) = boarded(2, terminals=3)
    assert bundle.put("a", [0, 1], buffers(1, 2), is_output=True)
    assert not bundle.put("b", [1], buffers(20), is_output=True)
    assert bundle.put("sink", [0, 1], buffers(None, None), is_output=False)
    bundle.call_due()
    assert (first.found, second.found) == ([], [{"a": [2], "b": [20]}])
    assert bundle.put("b", [0], buffers(10), is_output=True)
    bundle.call_due()
    assert first.found == [{"a": [1], "b": [10]}]


def test_a_graph_without_outputs_answers_with_nothing():
    bundle, (only,) = boarded(1)
    assert bundle.put("sink", [0], buffers(1), is_output=False)
    bundle.call_due()
    assert only.found == [{}]


@pytest.mark.parametrize("terminals", [1, 2])
def test_what_is_given_up_is_told_at_once_and_never_again(terminals):
    bundle, (first, second) = boarded(2, terminals)
    failure = Cancelled("enough")
    bundle.leave(0, failure)
    bundle.leave(0, failure)
    assert (first.failures, bundle.gone) == ([failure], {0})
    for terminal in ("a", "b")[:terminals]:
        bundle.put(terminal, [0, 1], buffers(1, 2), is_output=True)
    bundle.call_due()
    bundle.leave(1, failure)
    bundle.fail(failure)
    assert (len(first.found), len(second.found)) == (0, 1)
    assert (len(first.failures), len(second.failures), bundle.gone) == (1, 0, {0})


def test_a_failure_is_told_to_those_that_are_not_over():
    bundle, passengers = boarded(3)
    bundle.put("out", [1], buffers("b"), is_output=True)
    failure = Cancelled("the flow has ended")
    bundle.fail(failure)
    bundle.fail(failure)
    bundle.call_due()
    assert [one.failures for one in passengers] == [[failure], [], [failure]]
    assert [len(one.found) for one in passengers] == [0, 1, 0]


def test_who_raises_is_logged_and_harms_no_other(caplog):
    bundle, (first, second) = boarded(2)
    first.arrived = lambda found: found["none"]
    bundle.put("out", [0, 1], buffers("a", "b"), is_output=True)
    bundle.call_due()
    assert second.found == [{"out": ["b"]}]
    assert "a callback for the end of a request raised" in caplog.text
