"""Tests of the numbering of a stream unit's outputs; rows that arrive in error keep their place."""

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.runtime.kinds.stream.numbering import Numbering
from modelflow.unit.kind import Count
from tests.runtime.queues.test_inbox import stream


def bad():
    return Buffer.from_error(FlowUnitError("no good", node="before"))


def values(*data):
    return [Buffer(value) for value in data]


def test_a_free_count_is_numbered_from_0_in_a_stream_of_its_own():
    source = stream()
    source.meta["fps"] = 25
    numbering = Numbering(source)
    numbering.owe(7, values("in"))
    assert list(numbering.number(values("a", "b"))[0]) == [0, 1]
    assert list(numbering.number(values("c"))[0]) == [2]
    assert numbering.stream is not source
    assert numbering.stream.meta == {"fps": 25}
    assert numbering.owed == 0


def test_one_that_keeps_the_count_gives_the_numbers_the_meta_and_the_deadlines_that_came_in():
    source = stream()
    numbering = Numbering(source, Count.SAME)
    came = Buffer("in", {"path": "x"})
    came._deadline = 5.0
    numbering.owe(4, [came])
    numbering.owe(5, [bad()])
    numbering.owe(6, values("in"))
    assert numbering.owed == 2
    assert numbering.number([]) == ([], [])
    positions, column = numbering.number(values("a"))
    assert positions == [4, 5]
    assert (column[0].data, column[0].get("path"), column[0]._deadline) == ("a", "x", 5.0)
    assert column[1].error is not None
    positions, column = numbering.number(values("b"))
    assert (positions, column[0].data) == ([6], "b")
    assert numbering.owed == 0
    assert numbering.stream is source


def test_meta_is_not_handed_on_where_the_unit_does_not_want_it():
    numbering = Numbering(stream(), Count.SAME)
    numbering.owe(0, [Buffer("in", {"path": "x"})], inherits_meta=False)
    (buffer,) = numbering.number(values("a"))[1]
    assert buffer.get("path") is None


@pytest.mark.parametrize("gaps", [(0, 1, 2), (0, 5, 6), (3, 4, 9)])
def test_numbers_of_an_assumed_count_always_rise(gaps):
    numbering = Numbering(stream(), Count.ASSUMED)
    given = []
    for position in gaps:
        numbering.owe(position, values("in"))
        given += numbering.number(values("a", "b"))[0]  # more rows than the unit received
    assert given == sorted(set(given))
    assert given[0] == gaps[0]


def test_an_assumed_count_that_is_kept_gives_the_numbers_that_came_in():
    numbering = Numbering(stream(), Count.ASSUMED)
    for position in (2, 5):
        numbering.owe(position, values("in"))
    assert list(numbering.number(values("a", "b"))[0]) == [2, 5]


def test_what_an_assumed_count_gives_beyond_what_came_in_is_numbered_without_gaps():
    here = Numbering(stream(), Count.ASSUMED)
    here.owe(4, [Buffer(0)])
    positions, _ = here.number([Buffer(n) for n in range(3)])
    assert list(positions) == [4, 5, 6]
    positions, _ = here.number([Buffer(3)])
    assert list(positions) == [7]
