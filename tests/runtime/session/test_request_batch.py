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
    bundle, party = RequestBatch(terminals), Waits(count)
    bundle.board(party, count)
    return bundle, party


def buffers(*values):
    return [Buffer(value) for value in values]


def test_each_is_told_of_its_own_row_in_whatever_order_they_come():
    bundle, party = boarded(3)
    assert not bundle.put("out", [2, 0], buffers("c", "a"), is_output=True)
    assert party.found == [[], [], []]  # not while locks are held
    bundle.call_due()
    assert party.found == [[{"out": "a"}], [], [{"out": "c"}]]
    assert bundle.put("out", [1], buffers("b"), is_output=True)
    bundle.call_due()
    assert party.found[1] == [{"out": "b"}]


def test_a_request_is_over_when_every_terminal_has_its_row():
    bundle, party = boarded(2, terminals=3)
    assert bundle.put("a", [0, 1], buffers(1, 2), is_output=True)
    assert not bundle.put("b", [1], buffers(20), is_output=True)
    assert bundle.put("sink", [0, 1], buffers(None, None), is_output=False)
    bundle.call_due()
    assert party.found == [[], [{"a": 2, "b": 20}]]
    assert bundle.put("b", [0], buffers(10), is_output=True)
    bundle.call_due()
    assert party.found[0] == [{"a": 1, "b": 10}]


def test_a_graph_without_outputs_answers_with_nothing():
    bundle, party = boarded(1)
    assert bundle.put("sink", [0], buffers(1), is_output=False)
    bundle.call_due()
    assert party.found == [[{}]]


@pytest.mark.parametrize("terminals", [1, 2])
def test_what_is_given_up_is_told_at_once_and_never_again(terminals):
    bundle, party = boarded(2, terminals)
    failure = Cancelled("enough")
    bundle.leave(0, failure)
    bundle.leave(0, failure)
    assert (party.failures, bundle.gone) == ([[failure], []], {0})
    names = ("a", "b")[:terminals]
    for terminal in names:
        bundle.put(terminal, [0, 1], buffers(1, 2), is_output=True)
    bundle.call_due()
    bundle.leave(1, failure)
    bundle.fail(failure)
    assert party.found == [[], [dict.fromkeys(names, 2)]]
    assert (party.failures, bundle.gone) == ([[failure], []], {0})


def test_a_failure_is_told_to_those_that_are_not_over():
    bundle, party = boarded(3)
    bundle.put("out", [1], buffers("b"), is_output=True)
    failure = Cancelled("the flow has ended")
    bundle.fail(failure)
    bundle.fail(failure)
    bundle.call_due()
    assert party.failures == [[failure], [], [failure]]
    assert party.found == [[], [{"out": "b"}], []]


def test_a_party_that_raises_is_logged_and_is_told_of_what_comes_then(caplog):
    bundle, party = boarded(2)
    arrived, party.on_result = party.on_result, lambda positions, found: found["none"]
    bundle.put("out", [0], buffers("a"), is_output=True)
    bundle.call_due()
    party.on_result = arrived
    bundle.put("out", [1], buffers("b"), is_output=True)
    bundle.call_due()
    assert party.found == [[], [{"out": "b"}]]
    assert "a callback for the end of a request raised" in caplog.text
