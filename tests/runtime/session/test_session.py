"""Tests of a session's states, and of the callbacks at its end."""

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, FlowUnitError, StreamClosed
from modelflow.plan import Origin
from modelflow.runtime.session.request_batch import RequestBatch
from modelflow.runtime.session.segment import Stream
from modelflow.runtime.session.session import Session
from tests.runtime.fake_clock import FakeClock
from tests.runtime.session.test_watcher import Noting

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
    assert told == [[]]  # before the flow is: when a thread sees the end, all callbacks have run
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
    monkeypatch.setattr(s.progress, "end", lambda _: False)  # another thread was first
    assert not s.cancel()
    assert finished == []


@pytest.mark.parametrize("way", ["tell_errors", "on_end"])
def test_what_a_callback_raises_is_logged_with_the_name_of_the_session(way, caplog):
    s, _ = session()

    def fail(*_):
        raise ValueError("of the user's own")

    if way == "tell_errors":
        s.on_error = fail
        s.tell_errors([Buffer.from_error(FlowUnitError("no good")), Buffer(1)])
    else:
        s.cancel()
        s.on_end(fail)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("session '7': ")
    assert said.endswith("raised")


def test_each_who_watches_is_told_and_one_alone_may_leave():
    first, second = Noting(), Noting()
    s, _ = session()
    s.watch(first)
    s.unwatch(second)
    s.watcher.on_call("first alone")
    s.unwatch(first)
    assert not s.watcher
    s.watch(first)
    s.watch(second)
    s.unwatch(first)  # no effect: both share a watcher by now
    s.watcher.on_call("part")
    s.cancel()
    assert (first.told, second.told) == (
        ["first alone", "part", "over", "over"],
        ["part", "over"],
    )


@pytest.mark.parametrize(
    ("origin", "has_opener", "lets_go"), [("", False, True), ("s", True, True), ("s", False, False)]
)
def test_one_that_is_over_lets_go_of_its_stream_unless_a_source_may_go_on(
    origin, has_opener, lets_go
):
    opener = session()[0] if has_opener else None
    s = Session("7", origin, ENDS, in_flight=None, on_finished=lambda _: None, opener=opener)
    before = s.stream
    s.finish()
    assert isinstance(s.stream, Stream)
    assert (s.stream is not before) == lets_go


def test_nothing_is_unread_of_one_whose_rows_are_waited_for_by_others():
    batch = RequestBatch(1, ("a",))
    s = Session("7", "", ENDS, in_flight=None, on_finished=lambda _: None, request_batch=batch)
    assert s.progress.is_collected is True
    assert session()[0].progress.is_collected is False
