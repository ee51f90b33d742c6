"""Tests that each request of a batch is notified once, in any order of the results."""

import random

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled
from modelflow.runtime.session.request_batch import RequestBatch


class Waits:
    """A waiting caller that records the notifications of each request."""

    def __init__(self, count):
        self.found, self.failures = [[] for _ in range(count)], [[] for _ in range(count)]

    def on_result(self, requests, found):
        for place, request in enumerate(requests):
            self.found[request].append({name: b[place].data for name, b in found.items()})

    def on_failure(self, requests, failure):
        for request in requests:
            self.failures[request].append(failure)


class WaitsForRows(Waits):
    """The same for requests with several rows."""

    def __init__(self, sizes):
        super().__init__(len(sizes))
        self._sizes = sizes

    def on_result(self, requests, found):
        columns = {name: iter(buffers) for name, buffers in found.items()}
        for request in requests:
            own = {
                name: [next(column).data for _ in range(self._sizes[request])]
                for name, column in columns.items()
            }
            self.found[request].append(own)
        assert all(next(column, None) is None for column in columns.values())


def boarded(count, terminals=1):
    request_batch, batch_members = RequestBatch(terminals, ("a", "b")), Waits(count)
    request_batch.board(batch_members, [1] * count)
    return request_batch, batch_members


def boarded_rows(sizes, terminals=1):
    request_batch = RequestBatch(terminals, ("a", "b")[:terminals])
    batch_members = WaitsForRows(sizes)
    request_batch.board(batch_members, sizes)
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


def test_outputs_are_named_in_the_order_of_the_graph_whichever_came_first():
    request_batch, batch_members = boarded_rows([2], terminals=2)
    request_batch.put("b", [0, 1], buffers(10, 20), is_output=True)
    request_batch.put("a", [0, 1], buffers(1, 2), is_output=True)
    request_batch.call_due()
    assert [*batch_members.found[0][0].items()] == [("a", [1, 2]), ("b", [10, 20])]


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


SIZES = [2, 1, 3]
REQUESTS = [0, 0, 1, 2, 2, 2]  # the request of each position


@pytest.mark.parametrize("terminals", [1, 2])
@pytest.mark.parametrize("seed", range(20))
def test_a_request_of_several_rows_is_told_when_all_are_there_in_its_own_order(terminals, seed):
    draw = random.Random(seed)
    request_batch, batch_members = boarded_rows(SIZES, terminals)
    assert (request_batch.size, [*map(request_batch.request_at, range(6))]) == (3, REQUESTS)
    names = ("a", "b")[:terminals]
    left = [(name, position) for name in names for position in range(6)]
    draw.shuffle(left)
    while left:
        name = left[0][0]
        count = draw.randint(1, 4)
        positions = [position for one, position in left if one == name][:count]
        left = [each for each in left if each[0] != name or each[1] not in positions]
        is_last = not any(one == name for one, _ in left)
        rows = buffers(*(f"{name}{position}" for position in positions))
        assert request_batch.put(name, positions, rows, is_output=True) == is_last
        request_batch.call_due()
        waits_for = {REQUESTS[position] for _, position in left}
        assert [not found for found in batch_members.found] == [n in waits_for for n in range(3)]
    assert batch_members.found == [
        [{name: [f"{name}{position}" for position in range(first, end)] for name in names}]
        for first, end in ((0, 2), (2, 3), (3, 6))
    ]
    assert batch_members.failures == [[], [], []]


@pytest.mark.parametrize("terminals", [1, 2])
def test_all_rows_of_a_request_that_is_given_up_are_gone(terminals):
    request_batch, batch_members = boarded_rows(SIZES, terminals)
    names, failure = ("a", "b")[:terminals], Cancelled("enough")
    request_batch.put("a", [0, 3], buffers(0, 3), is_output=True)
    request_batch.leave(2, failure)
    request_batch.leave(2, failure)
    request_batch.leave(0, failure)
    assert request_batch.gone == {0, 1, 3, 4, 5}
    request_batch.put("a", [1, 2, 4, 5], buffers(1, 2, 4, 5), is_output=True)
    if terminals > 1:
        assert request_batch.put("b", range(6), buffers(*range(6)), is_output=True)
    request_batch.call_due()
    assert batch_members.found == [[], [{name: [2] for name in names}], []]
    assert batch_members.failures == [[failure], [], [failure]]


def test_rows_that_reach_an_end_that_is_no_output_bring_nothing_though_others_were_given_up():
    request_batch, batch_members = boarded(3)
    request_batch.leave(1, Cancelled("gone"))
    request_batch.put("sink", [0, 1, 2], buffers(7, 8, 9), False)
    request_batch.call_due()
    assert batch_members.found == [[{}], [], [{}]]


def test_one_that_ends_before_anybody_is_on_board_tells_nobody():
    request_batch = RequestBatch(1, ("a",))
    request_batch.fail(Cancelled("gone"))
    assert request_batch.size == 0
