"""Tests of the progress of a session."""

import threading

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, FlowUnitError
from modelflow.plan import Origin
from modelflow.runtime.session.in_flight import InFlight
from modelflow.runtime.session.progress import Progress
from modelflow.runtime.session.results import Results
from tests.runtime.fake_clock import FakeClock


def never():
    return False


class Session:
    """A progress with two outputs, and the progress's parts."""

    def __init__(self, outputs=("a", "b"), is_counted=True, bound=10):
        self.results = {name: Results() for name in outputs}
        self.in_flight = InFlight(bound, FakeClock())
        ends = Origin(outputs, outputs, outputs, frozenset(outputs), is_counted)
        self.progress = Progress(ends, self.results, self.in_flight)

    def read(self, output, count):
        self.results[output].put([Buffer(i) for i in range(count)], False)
        for _ in range(count):
            self.results[output].get_nowait()


def test_unread_is_counted_to_the_slowest_reader():
    session = Session()
    session.progress.enter("in", 5)
    session.read("a", 4)
    session.read("b", 1)
    assert session.progress.unread == 4
    session.progress.is_collected = True
    assert session.progress.unread == 0


def test_where_rows_become_many_unread_is_what_waits():
    session = Session(is_counted=False)
    session.progress.enter("in", 5)
    session.results["a"].put([Buffer(i) for i in range(9)], False)
    assert session.progress.unread == 9


def test_a_session_without_outputs_has_nothing_unread():
    session = Session(outputs=())
    session.progress.enter("in", 5)
    assert session.progress.unread == 0


def test_a_row_of_several_inputs_is_one_row():
    session = Session()
    assert session.progress.enter("x", 3) == 0
    assert session.progress.enter("y", 1) == 0
    assert session.progress.enter("y", 3) == 1
    assert session.progress.has_entered("y") == 4
    assert session.progress.sent == 4
    assert session.in_flight.rows == 4


def test_a_row_is_out_when_it_has_passed_every_exit():
    session = Session()
    session.progress.enter("in", 3)
    session.progress.leave(0, 2)
    assert session.in_flight.rows == 3
    session.progress.leave(1, 1)
    assert session.in_flight.rows == 2
    session.progress.leave(1, 0)
    assert session.in_flight.rows == 2


def test_the_end_is_noted_once_when_it_has_passed_every_terminal():
    progress = Session().progress
    assert [progress.end_passed(), progress.end_passed()] == [False, True]
    assert progress.is_finished
    assert not progress.end(lambda: None)
    assert progress.enter("in", 1) is None


def test_a_cancelled_session_takes_all_its_rows_out_at_once_and_none_twice():
    session = Session()
    session.progress.enter("in", 5)
    for place in (0, 1):
        session.progress.leave(place, 2)
    assert session.progress.end(lambda: None)
    assert session.in_flight.rows == 0
    for place in (0, 1):
        session.progress.leave(place, 3)  # a worker in a call
    assert session.in_flight.rows == 0
    assert not session.progress.end(lambda: None)
    assert not session.progress.end_passed()


def bad(text):
    return Buffer.from_error(FlowUnitError(text, node="n"))


def test_the_first_errors_are_kept_and_all_are_counted():
    one, other = Session().progress, Session().progress
    one.record_errors([Buffer(1), *(bad(str(i)) for i in range(Progress.MAX_KEPT_ERRORS - 1))])
    other.record_errors([bad("last"), bad("too many")])
    one.adopt_errors(other)
    one.adopt_errors(other)
    one.record_errors([bad("too many")])
    assert one.error_count == Progress.MAX_KEPT_ERRORS + 4
    assert len(one.errors) == Progress.MAX_KEPT_ERRORS
    assert "last" in str(one.errors[-1])


def test_rows_that_were_given_up_with_their_session_are_no_errors():
    progress = Session().progress
    error = FlowUnitError.from_exception(Cancelled(), node="n", unit="u")
    progress.record_errors([Buffer.from_error(error), bad("counts")])
    assert (progress.error_count, len(progress.errors)) == (1, 1)


@pytest.mark.parametrize("is_over", [False, True])
def test_who_waits_for_the_reader_goes_on_when_it_has_read_or_the_session_is_over(is_over):
    session, clock, calls = Session(outputs=("a",)), FakeClock(), []
    session.progress.enter("in", 2)
    session.progress.on_read(2, lambda: calls.append(1), never)
    thread = threading.Thread(
        target=session.progress.wait_until_read, args=(clock, 2, None, never), name="modelflow/test"
    )
    thread.start()
    clock.until_waiting()
    assert calls == []
    if is_over:
        session.progress.end(lambda: None)
        session.progress.wake()
    else:
        session.read("a", 1)
        session.progress.took()
    thread.join()
    assert calls == [1]


def test_who_need_not_wait_goes_on_at_once():
    session, clock, calls = Session(outputs=("a",)), FakeClock(), []
    session.progress.on_read(1, lambda: calls.append("read"), never)
    session.progress.enter("in", 2)
    session.progress.on_read(1, lambda: calls.append("over"), lambda: True)
    session.progress.wait_until_read(clock, 1, None, lambda: True)
    session.progress.wait_until_read(clock, 3, None, never)
    assert calls == ["read", "over"]


def test_a_callback_that_was_taken_back_is_not_called():
    session, calls = Session(outputs=("a",)), []
    session.progress.enter("in", 2)

    def call():
        calls.append(1)

    session.progress.on_read(1, call, never)
    session.progress.forget(call)
    session.progress.wake()
    assert calls == []


def test_close_ends_the_input_alone():
    progress = Session().progress
    progress.close()
    assert (progress.is_closed, progress.is_finished) == (True, False)


def test_rows_leave_one_after_the_other():
    session = Session(outputs=("a",))
    assert session.progress.has_entered("in") == 0
    session.progress.enter("in", 4)
    assert session.progress.has_entered("in") == 4
    for left in (3, 2, 1):
        session.progress.leave(0, 1)
        assert session.in_flight.rows == left
    session.progress.end(lambda: None)
    assert session.in_flight.rows == 0


def test_where_nobody_counts_rows_may_leave():
    ends = Origin(("a",), ("a",), ("a",), frozenset("a"), is_counted=True)
    progress = Progress(ends, {"a": Results()}, None)
    progress.enter("in", 1)
    progress.leave(0, 1)
    assert not progress.is_counting


def test_one_who_stops_waiting_leaves_the_others_waiting():
    session, clock, calls = Session(outputs=("a",)), FakeClock(), []
    session.progress.enter("in", 2)
    for note in (lambda: calls.append(0), lambda: calls.append(1)):
        session.progress.on_read(1, note, never)
    thread = threading.Thread(
        target=session.progress.wait_until_read, args=(clock, 1, 5.0, never), name="modelflow/test"
    )
    thread.start()
    clock.until_sleeping()
    clock.advance(5.0)
    thread.join()
    session.progress.wait_until_read(clock, 1, None, lambda: True)
    session.progress.took()
    assert calls == [0, 1]
    assert session.progress._read.count == 0


def test_a_whole_session_enters_with_its_ends_and_counts_as_its_longest_input():
    for counts, rows in (({"x": 3, "y": 5}, 5), ({"x": 0}, 0), ({}, 0)):
        session = Session()
        assert session.progress.enter_whole(counts)
        assert (session.progress.sent, session.in_flight.rows) == (rows, rows)
        assert [session.progress.has_entered(port) for port in counts] == [*counts.values()]
        assert session.progress.ended == set(counts)
        assert session.progress.is_closed is True
    session = Session()
    session.progress.end(lambda: None)
    assert not session.progress.enter_whole({"x": 1})
    assert session.in_flight.rows == 0
