"""Tests of the places where data leaves the graph."""

from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.plan import Origin
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.entry.sinks import OutputTerminal, SinkTerminal, add_probe
from modelflow.runtime.session.in_flight import InFlight
from modelflow.runtime.session.request_batch import RequestBatch
from modelflow.runtime.session.segment import Segment, Stream
from modelflow.runtime.session.session import Session
from tests.runtime.queues.test_inbox import segment
from tests.runtime.session.test_request_batch import Waits

OUT = Origin(("out",), ("out",), ("out",), frozenset(("out",)), True)
SINK = Origin((), ("sink",), ("sink",), frozenset(), True)


def session(ends=OUT, in_flight=None):
    finished = []
    made = Session("s", "", ends, in_flight=in_flight, on_finished=finished.append)
    return made, finished


def test_an_output_hands_over_results_and_ends_the_session_when_no_lock_is_held():
    here, (s, finished) = OutputTerminal("out", {}), session()
    calls = []
    s.results["out"].on_ready(lambda: calls.append("ready"))
    assert here.append(0, [segment(s.stream, 0, 2)])
    assert calls == []
    here.call_due()
    assert calls == ["ready"]
    assert not here.append(0, [segment(s.stream, 2, 1)])
    assert here.append(0, [segment(s.stream, 3, 0, is_last=True)])
    assert finished == []
    here.call_due()
    assert finished == [s]
    assert len(s.results["out"]) == 3
    assert s.results["out"].is_ended


def test_the_end_of_a_sub_stream_is_not_the_end_of_the_results():
    here, (s, finished) = OutputTerminal("out", {}), session()
    sub = Stream(s.stream.session, s.stream, 0)
    assert not here.append(0, [segment(sub, 0, 1, is_last=True)])
    assert not s.results["out"].is_ended
    assert finished == []


def test_what_comes_for_a_cancelled_session_is_dropped():
    here, (s, _) = OutputTerminal("out", {}), session()
    s.cancel()
    assert not here.append(0, [segment(s.stream, 0, 2, is_last=True)])
    assert len(s.results["out"]) == 0


def test_rows_that_have_left_are_no_longer_in_flight():
    in_flight = InFlight(8, SYSTEM_CLOCK)
    here, (s, _) = OutputTerminal("out", {"": 0}), session(in_flight=in_flight)
    s.progress.enter("in", 3)
    calls = []
    in_flight.add(5)
    in_flight.on_room(lambda: calls.append(1), lambda: False)
    assert here.append(0, [segment(s.stream, 0, 2)])
    assert in_flight.rows == 6
    assert calls == []
    here.call_due()
    assert calls == [1]


def test_a_sink_keeps_the_errors_that_end_there_and_ends_the_session():
    here, (s, finished) = SinkTerminal("sink", {}), session(SINK)
    bad, told = Buffer.from_error(FlowUnitError("no good", node="n")), []
    s.on_error = told.append
    assert here.append(0, [Segment(s.stream, range(2), [[Buffer(1), bad]], False, True)])
    assert here.append(0, [segment(s.stream, 2, 0, is_last=True)])
    here.call_due()
    assert (s.progress.error_count, told, finished) == (1, [bad], [s])


def test_nobody_waits_at_a_terminal():
    here = SinkTerminal("sink", {})
    here.wait_for_room(0)
    here.find_backpressure(0)


def test_what_comes_with_a_cancelled_session_arrives():
    here, (gone, _), (other, _) = OutputTerminal("out", {}), session(), session()
    gone.cancel()
    here.append(0, [segment(gone.stream, 0, 1), segment(other.stream, 0, 2)])
    assert len(other.results["out"]) == 2


def test_a_request_of_several_rows_is_over_when_each_sink_has_all_of_them():
    sinks = [SinkTerminal(name, {}) for name in ("one", "other")]
    batch, finished = RequestBatch(2, ()), []
    ends = Origin((), ("one", "other"), ("one", "other"), frozenset(), True)
    s = Session("s", "", ends, in_flight=None, on_finished=finished.append, request_batch=batch)
    batch.board(waits := Waits(1), [2])
    s.progress.enter_whole({"in": 2})
    for sink in sinks:
        assert waits.found == [[]]
        assert sink.append(0, [segment(s.stream, 0, 2)])
        sink.call_due()
    assert waits.found == [[{}]]
    assert finished == [s]


def test_one_row_at_one_sink_is_answered_with_nothing():
    sink, batch = SinkTerminal("sink", {}), RequestBatch(1, ())
    s = Session("s", "", SINK, in_flight=None, on_finished=lambda _: None, request_batch=batch)
    batch.board(waits := Waits(1), [1])
    s.progress.enter_whole({"in": 1})
    sink.append(0, [segment(s.stream, 0, 1)])
    sink.call_due()
    assert waits.found == [[{}]]


def test_rows_of_requests_that_have_left_are_no_longer_in_flight():
    in_flight, batch = InFlight(8, SYSTEM_CLOCK), RequestBatch(1, ("out",))
    here = OutputTerminal("out", {"": 0})
    s = Session("s", "", OUT, in_flight=in_flight, on_finished=lambda _: None, request_batch=batch)
    batch.board(Waits(3), [1, 1, 1])
    s.progress.enter_whole({"in": 3})
    here.append(0, [segment(s.stream, 0, 2)])
    here.call_due()
    assert in_flight.rows == 1


def test_a_sink_has_nothing_due_for_what_nobody_waits_for():
    here, (s, _) = SinkTerminal("sink", {}), session(SINK)
    assert not here.append(0, [segment(s.stream, 0, 2)])


class Next:
    """A receiver behind a probe, which records its calls."""

    append_whole = None

    def __init__(self):
        self.calls = []

    def append(self, *given):
        self.calls.append(given)
        return True


def test_a_probe_shows_what_passes_and_hands_it_on_as_it_came():
    shown, behind, other, handoff = [], Next(), Next(), object()
    route: Any = ((behind, 3), (other, 4))
    assert add_probe(None, "node", "out", route) is route
    assert add_probe(shown.append, "node", "out", ()) == ()
    (probe, port), rest = add_probe(lambda *what: shown.append(what), "node", "out", route)
    assert (port, rest) == (3, route[1])
    s, _ = session()
    passing = [segment(s.stream, 0, 2), segment(s.stream, 2, 0, is_last=True)]
    assert probe.append(3, passing, handoff)
    assert behind.calls == [(3, passing, handoff)]
    assert shown == [("node", "out", passing[0].columns[0])]
