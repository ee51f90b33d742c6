"""Tests of the inside of a loop."""

from modelflow.buffer import Buffer
from modelflow.runtime.kinds.loop.looping import ENTRY, RETURN
from modelflow.runtime.session.segment import Stream
from tests.runtime.kinds.loop.test_looping import leaves, looping, sent_round, values
from tests.runtime.queues.test_inbox import segment, stream


def test_what_goes_round_gets_a_new_number_each_time_in_a_stream_of_its_own():
    here, s = looping(bound=4), stream()
    here.add(ENTRY, [segment(s, 7, 2)])
    first = sent_round(here, 2)
    again = sent_round(here, 2)
    assert [list(part.positions) for part in (*first, *again)] == [[0], [1], [2], [3]]
    assert {part.stream for part in (*first, *again)} == {first[0].stream}
    assert first[0].stream is not s
    leaving, _ = leaves(here, here.cut(8))
    assert [(part.stream, list(part.positions)) for part in leaving] == [(s, [7]), (s, [8])]
    assert values(leaving) == ["again again 7", "again again 8"]


def test_a_row_waits_for_those_that_entered_before_it():
    here, s = looping(bound=4), stream()
    here.add(ENTRY, [segment(s, 0, 3)])
    batch = here.cut(3)
    leaving, going = here.settle(
        batch, [[None, Buffer("b"), Buffer("c")], [Buffer("a"), None, None]], False, 0
    )
    assert leaving == []
    here.add(RETURN, going)
    leaving, going = leaves(here, here.cut(3))
    assert values(leaving) == ["a", "b", "c"]
    assert going == []
    assert here.count_held() == 1  # the session, which has not ended


def test_the_end_of_a_session_goes_round_before_it_leaves():
    here, s = looping(bound=4), stream()
    here.add(ENTRY, [segment(s, 0, 1, is_last=True)])
    leaving, going = leaves(here, here.cut(4))
    assert [(list(part.positions), part.is_last) for part in leaving] == [([0], False)]
    assert [(list(part.positions), part.is_last) for part in going] == [([], True)]
    here.add(RETURN, going)
    batch = here.cut(4)
    assert batch.size == 0
    leaving, going = here.settle(batch, [[], []], False, 0)
    assert [(part.stream, list(part.positions), part.is_last) for part in leaving] == [
        (s, [], True)
    ]
    assert (going, here.count_held()) == ([], 0)


def test_the_end_of_a_sub_stream_leaves_with_its_rows_and_the_session_stays():
    here, s = looping(bound=4), stream()
    sub = Stream(s.session, s, 0)
    here.add(ENTRY, [segment(sub, 0, 1, is_last=True)])
    leaving, going = leaves(here, here.cut(4))
    assert [(list(part.positions), part.is_last) for part in leaving] == [([0], False), ([], True)]
    assert (going, here.count_held()) == ([], 1)


def test_two_sessions_go_round_apart():
    here, one, other = looping(bound=4), stream("one"), stream("other")
    here.add(ENTRY, [segment(one, 0, 1), segment(other, 0, 1)])
    going = sent_round(here, 2)
    assert [part.stream.session for part in going] == [one.session, other.session]
    assert [list(part.positions) for part in going] == [[0], [0]]
    here.drop(one.session)
    batch = here.cut(4)
    assert batch.size == 1
    leaving, _ = leaves(here, batch)
    assert [part.stream for part in leaving] == [other]


def test_rows_inside_are_counted_until_they_leave():
    here, s = looping(bound=2), stream()
    here.add(ENTRY, [segment(s, 0, 4)])
    assert here.count_held() == 1 + 4  # a segment with four ready rows
    sent_round(here, 2)
    assert here.cut(1) is not None
    here.add(ENTRY, [])
    assert (
        here.count_held() == 1 + 2 + 1 + 1 + 2
    )  # ... of two, one on its way, a session, and two inside
    assert bool(here.waiting)
    here.clear()
    assert here.count_held() == 0
    here.add(ENTRY, [segment(s, 4, 2)])
    assert here.cut(2).size == 2
