"""Tests that the first rows of several ports are paired, stream by stream."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelflow.runtime.queues.match import Matcher
from modelflow.runtime.session.segment import Stream
from tests.runtime.queues.test_inbox import segment, stream


def rows(found):
    return [
        tuple(b.data if b.error is None else "missing" for b in cells)
        for part in found
        for cells in zip(*part.columns, strict=True)
    ]


@settings(deadline=None)
@given(st.data(), st.integers(0, 12))
def test_whatever_comes_first_every_row_is_complete_and_in_order(data, count):
    matcher, s = Matcher("node", ("a", "b", "c")), stream()
    sent, found = [0, 0, 0], []
    while min(sent) < count:
        port = data.draw(st.sampled_from([p for p in range(3) if sent[p] < count]))
        size = data.draw(st.integers(1, count - sent[port]))
        found += matcher.add(port, segment(s, sent[port], size))
        sent[port] += size
        assert matcher.waiting(port) == sent[port] - min(sent)
    assert rows(found) == [(i, i, i) for i in range(count)]
    for port in range(3):
        found += matcher.add(port, segment(s, count, 0, is_last=True))
    assert [part.is_last for part in found] == [False] * (len(found) - 1) + [True]
    assert matcher.count_held() == 0


@pytest.mark.parametrize("is_late", [False, True])
def test_what_has_no_partner_is_paired_with_an_error_that_says_so(is_late):
    matcher, s = Matcher("node", ("a", "b")), stream()
    parts = [
        [segment(s, 0, 4, is_last=True)],
        [segment(s, 0, 1), segment(s, 1, 1, is_last=True)],
    ]
    found = []
    for port in (1, 0) if is_late else (0, 1):
        for part in parts[port]:
            found += matcher.add(port, part)
    assert rows(found) == [(0, 0), (1, 1), (2, "missing"), (3, "missing")]
    assert [part.has_errors for part in found if part.positions][-2:] == [False, True]
    error = found[-2].columns[1][0].error
    assert "input 'b' ended after 2 buffers" in str(error)
    assert (error.node, error.session) == ("node", "s")


def test_streams_are_paired_apart_and_a_session_is_forgotten_with_all_of_them():
    matcher, a, b = Matcher("node", ("x", "y")), stream("a"), stream("b")
    sub = Stream(a.session, a, 0)
    for s, count in ((a, 2), (sub, 3), (b, 4)):
        assert matcher.add(0, segment(s, 0, count)) == []
    assert (matcher.count_held(), matcher.waiting(0)) == (3, 9)
    matcher.discard(a.session)
    assert (matcher.count_held(), matcher.waiting(0)) == (1, 4)
    assert rows(matcher.add(1, segment(b, 0, 1))) == [(0, 0)]
    matcher.clear()
    assert (matcher.count_held(), matcher.waiting(0), matcher.waiting(1)) == (0, 0, 0)


def test_inputs_that_are_out_of_step_are_an_internal_error_that_names_them():
    matcher, s = Matcher("node", ("a", "b")), stream()
    matcher.add(0, segment(s, 0, 1))
    with pytest.raises(
        AssertionError, match="inputs of node 'node' are out of step: 'a' is at 0, 'b' at 1"
    ):
        matcher.add(1, segment(s, 1, 1))


def test_a_session_whose_row_ctrl_c_cut_off_from_its_count_is_dropped_whole(monkeypatch):
    matcher, torn, other = Matcher("node", ("a", "b")), stream("torn"), stream("other")
    matcher.add(0, segment(other, 0, 3))

    class Interrupted(list[int]):
        def __setitem__(self, place, value):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(matcher, "_waiting", Interrupted(matcher._waiting))
        matcher.add(0, segment(torn, 0, 2))
    matcher.discard(torn.session)
    assert (matcher.waiting(0), matcher.waiting(1), matcher.count_held()) == (3, 0, 1)
    matcher.discard(other.session)
    assert (matcher.waiting(0), matcher.count_held()) == (0, 0)
