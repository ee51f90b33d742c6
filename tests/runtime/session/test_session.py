"""The life of a session, and who is told of its end."""

import pytest

from modelflow.errors import Cancelled, StreamClosed
from modelflow.plan import Origin
from modelflow.runtime.session.session import Session
from tests.runtime.fake_clock import FakeClock

ENDS = Origin(("a",), ("a",), ("a",), frozenset(("a",)), True)


def session(opener=None):
    finished = []
    made = Session("7", "", ENDS, in_flight=None, on_finished=finished.append, opener=opener)
    return made, finished


def test_cancel_ends_it_once_and_fails_its_results():
    s, finished = session()
    assert s.cancel()
    assert not s.cancel()
    assert finished == [s]
    assert s.is_cancelled
    assert s.is_finished
    with pytest.raises(Cancelled, match="session '7' was cancelled"):
        s.results["a"].get(FakeClock(), 0)


def test_a_flow_that_ends_it_says_why():
    s, _ = session()
    s.cancel(StreamClosed("the flow stops"))
    with pytest.raises(StreamClosed, match="the flow stops"):
        s.results["a"].get(FakeClock(), 0)


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_whoever_wants_to_know_the_end_is_told_once_whatever_the_others_raise(error, caplog):
    s, finished = session()
    told = []

    def fail():
        raise error("of the user's own")

    s.on_end(fail)
    s.on_end(lambda: told.append(list(finished)))
    s.cancel()
    assert told == [[]]  # before the flow is: who waits for the end finds everyone told
    s.on_end(lambda: told.append("at once"))
    assert told == [[], "at once"]
    assert "session '7': a callback for its end raised" in caplog.text


def test_a_session_that_a_source_opens_gives_its_results_to_the_source_s():
    source, _ = session()
    s, _ = session(opener=source)
    assert s.reader is source.progress
    assert source.reader is source.progress
    source.results["a"].put([], True)
    assert not source.results["a"].is_ended
    s.cancel()
    assert source.results["a"].is_ended


def test_of_two_who_end_it_one_does(monkeypatch):
    s, finished = session()
    monkeypatch.setattr(s.progress, "end", lambda: False)  # another thread was first
    assert not s.cancel()
    assert finished == []
