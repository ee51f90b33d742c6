"""Bundles: each row's request is told once, whatever comes in which order."""

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled
from modelflow.runtime.session.request_batch import RequestBatch


class Waits:
    """A party, which notes what it is told of each row."""

    def __init__(self, count):
        self.found, self.failures = [[] for _ in range(count)], [[] for _ in range(count)]

    def on_result(self, positions, found):
        for place, position in enumerate(positions):
            self.found[position].append({name: b[place].data for name, b in found.items()})

    def on_failure(self, positions, failure):
        for position in positions:
            self.failures[position].append(failure)


def boarded(count, terminals=1):
    request_batch, batch_members = RequestBatch(terminals), Waits(count)
    request_batch.board(batch_members, count)
    return request_batch, batch_members


def buffers(*values):
    return [Buffer(value) for value in values]


def test_each_is_told_of_its_own_row_in_whatever_order_they_come():
    request_batch, batch_members = boarded(3)
    assert not request_batch.put("out", [2, 0], buffers("c", "a"), is_output=True)
    assert batch_members.found == [[], [], []]  # not while locks are held
    request_batch.call_due()
    assert batch_members.found == [[{"out": "a"}], [], [{"out": "c"}]]
    assert request_batch.put("out", [1], buffers("b"), is_output=True)
    request_batch.call_due()
    assert batch_members.found[1] == [{"out": "b"}]


def test_a_request_is_over_when_every_terminal_has_its_row():
    request_batch, batch_members = boarded(2, terminals=3)
    assert request_batch.put("a", [0, 1], buffers(1, 2), is_output=True)
    assert not request_batch.put("b", [1], buffers(20), is_output=True)
    assert request_batch.put("sink", [0, 1], buffers(None, None), is_output=False)
    request_batch.call_due()
    assert batch_members.found == [[], [{"a": 2, "b": 20}]]
    assert request_batch.put("b", [0], buffers(10), is_output=True)
    request_batch.call_due()
    assert batch_members.found[0] == [{"a": 1, "b": 10}]


def test_a_graph_without_outputs_answers_with_nothing():
    request_batch, batch_members = boarded(1)
    assert request_batch.put("sink", [0], buffers(1), is_output=False)
    request_batch.call_due()
    assert batch_members.found == [[{}]]


@pytest.mark.parametrize("terminals", [1, 2])
def test_what_is_given_up_is_told_at_once_and_never_again(terminals):
    request_batch, batch_members = boarded(2, terminals)
    failure = Cancelled("enough")
    request_batch.leave(0, failure)
    request_batch.leave(0, failure)
    assert (batch_members.failures, request_batch.gone) == ([[failure], []], {0})
    names = ("a", "b")[:terminals]
    for terminal in names:
        request_batch.put(terminal, [0, 1], buffers(1, 2), is_output=True)
    request_batch.call_due()
    request_batch.leave(1, failure)
    request_batch.fail(failure)
    assert batch_members.found == [[], [dict.fromkeys(names, 2)]]
    assert (batch_members.failures, request_batch.gone) == ([[failure], []], {0})


def test_a_failure_is_told_to_those_that_are_not_over():
    request_batch, batch_members = boarded(3)
    request_batch.put("out", [1], buffers("b"), is_output=True)
    failure = Cancelled("the flow has ended")
    request_batch.fail(failure)
    request_batch.fail(failure)
    request_batch.call_due()
    assert batch_members.failures == [[failure], [], [failure]]
    assert batch_members.found == [[], [{"out": "b"}], []]


def test_a_party_that_raises_is_logged_and_is_told_of_what_comes_then(caplog):
    request_batch, batch_members = boarded(2)
    arrived, batch_members.on_result = (
        batch_members.on_result,
        lambda positions, found: found["none"],
    )
    request_batch.put("out", [0], buffers("a"), is_output=True)
    request_batch.call_due()
    batch_members.on_result = arrived
    request_batch.put("out", [1], buffers("b"), is_output=True)
    request_batch.call_due()
    assert batch_members.found == [[], [{"out": "b"}]]
    assert "a callback for the end of a request raised" in caplog.text
