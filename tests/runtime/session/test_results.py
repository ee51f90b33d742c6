"""Tests of the results of one output for one session."""

import threading

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, EndOfStream
from modelflow.runtime.session.results import Results, SharedResults
from tests.runtime.fake_clock import FakeClock, Passing
from tests.runtime.graphs import Running, chain, per_item


def values(*data):
    return [Buffer(value) for value in data]


def taken(results):
    found = []
    while (buffer := results.get_nowait()) is not None:
        found.append(buffer.data)
    return found


def test_results_come_in_order_and_end():
    results, clock = Results(), FakeClock()
    results.put(values(1, 2), True)
    assert len(results) == 2
    assert [results.get(clock, None).data for _ in range(2)] == [1, 2]
    for get in (lambda: results.get(clock, None), results.get_nowait):
        with pytest.raises(EndOfStream, match="everything has come out"):
            get()
    assert results.taken == 2


def test_get_all_waits_for_the_end():
    results, clock, found = Results(), FakeClock(), []
    thread = threading.Thread(
        target=lambda: found.append(results.get_all(clock, None)), name="modelflow/test/all"
    )
    thread.start()
    clock.until_waiting()
    results.put(values(1), False)
    results.put(values(2), True)
    thread.join()
    assert [buffer.data for buffer in found[0]] == [1, 2]
    assert results.taken == 2
    assert len(results) == 0


@pytest.mark.parametrize("get", ["get", "get_all", "wait_ready"])
def test_who_waits_for_too_long_is_told(get):
    with pytest.raises(TimeoutError, match="no result within 0 s"):
        getattr(Results(), get)(FakeClock(), 0.0)


@pytest.mark.parametrize("get", ["get", "get_all"])
def test_a_failure_wakes_who_waits_and_drops_what_nobody_took(get):
    results, clock, found = Results(), FakeClock(), []

    def wait():
        try:
            getattr(results, get)(clock, None)
        except Cancelled as error:
            found.append(error)

    thread = threading.Thread(target=wait, name="modelflow/test/wait")
    thread.start()
    clock.until_waiting()
    first = Cancelled("first")
    results.fail(first)
    results.fail(Cancelled("second"))
    thread.join()
    assert found == [first]
    assert results.is_ready
    with pytest.raises(Cancelled, match="first"):
        results.get_nowait()


def test_what_was_abandoned_is_counted_and_dropped():
    results = Results()
    results.put(values(1, 2), False)
    results.abandon()
    results.put(values(3), True)
    assert (len(results), results.taken, results.is_ended) == (0, 3, True)


def test_on_ready_calls_back_at_once_or_when_something_comes():
    results, calls = Results(), []
    results.on_ready(lambda: calls.append("later"))
    assert results.put(values(1), False)
    assert calls == []
    results.call_due()
    results.on_ready(lambda: calls.append("at once"))
    assert calls == ["later", "at once"]


def test_an_on_ready_that_was_taken_back_is_not_called():
    results, calls = Results(), []

    def call():
        calls.append(1)

    results.on_ready(call)
    results.forget(call)
    results.put(values(1), True)
    results.call_due()
    assert calls == []


def test_results_that_are_held_end_when_they_are_let_go():
    results = Results()
    results.hold()
    results.put(values(1), True)
    assert taken(results) == [1]
    assert not results.is_ready
    results.release()
    assert results.is_ended


def test_ways_into_the_results_of_another_session_end_together():
    whole, calls = Results(), []
    ways = [SharedResults(whole) for _ in range(2)]
    whole.put([], True)  # the source itself has ended
    whole.on_ready(lambda: calls.append(1))
    assert ways[0].put(values("a"), True)
    ways[0].call_due()
    assert (calls, len(ways[1]), whole.is_ended) == ([1], 1, False)
    ways[1].fail(Cancelled("the session alone"))
    ways[1].fail(Cancelled("once more"))
    assert whole.is_ended
    assert taken_until_end(whole) == ["a"]


def taken_until_end(results):
    found = []
    with pytest.raises(EndOfStream):
        while True:
            found.append(results.get(FakeClock(), None).data)
    return found


def test_a_callback_may_receive_what_it_was_called_for():
    with Running(chain(per_item(lambda x: x + 1))) as flow:
        stream, found, done = flow.session(), [], threading.Event()

        def receive():
            found.append(stream.recv(timeout=0).data)
            done.set()

        stream._session.results["output"].on_ready(receive)
        stream.send("input", 1)
        assert done.wait(60)
        assert found == [2]


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_a_callback_that_raises_harms_nobody_else(error, caplog):
    with Running(chain(per_item(lambda x: x + 1))) as flow:
        stream, done = flow.session(), threading.Event()

        def fail():
            done.set()
            raise error("of the client's own")

        stream._session.results["output"].on_ready(fail)
        stream.send("input", 1)
        assert done.wait(60)
        assert flow.infer(2).data == 3
        assert stream.recv().data == 2
    assert "a callback that waited for a flow raised" in caplog.text


@pytest.mark.parametrize("get", ["get", "get_all", "wait_ready"])
def test_who_is_woken_too_early_waits_until_the_end_of_his_time(get):
    clock = Passing(longest=1.5)
    with pytest.raises(TimeoutError, match="no result within 2 s"):
        getattr(Results(), get)(clock, 2.0)
    assert clock.waits == [1.5, 0.5]


def test_whoever_takes_or_drops_them_results_are_counted_once():
    results = Results()
    results.put(values(1, 2, 3), False)
    results.get_nowait()
    results.abandon()
    assert results.taken == 3
    results = Results()
    results.put(values(1, 2, 3), True)
    results.get_nowait()
    results.get_all(FakeClock(), 0)
    assert results.taken == 3


def test_results_that_are_let_go_before_their_end_go_on():
    results = Results()
    results.hold()
    results.release()
    assert not results.is_ended


def test_a_way_that_ends_does_not_end_the_results_before_the_source_has():
    whole = Results()
    SharedResults(whole).put(values(1), True)
    assert not whole.is_ended
    whole.put([], True)
    assert whole.is_ended


def test_who_lets_results_go_is_told_whether_somebody_is_to_be_called():
    results, calls = Results(), []
    results.hold()
    results.put([], True)
    results.on_ready(lambda: calls.append(1))
    assert results.release() is True
    results.call_due()
    assert calls == [1]
    results.hold()
    assert results.release() is False


def test_a_way_into_other_results_brings_them_and_says_who_is_to_be_called():
    whole, calls = Results(), []
    first, second = SharedResults(whole), SharedResults(whole)
    whole.on_ready(lambda: calls.append(1))
    assert first.put(values(1), False) is True
    assert (taken(whole), whole.is_ended) == ([1], False)
    whole.call_due()
    whole.on_ready(lambda: calls.append(2))
    assert first.put(values(2), True) is True
    whole.call_due()
    assert (taken(whole), calls) == ([2], [1, 2])
    second.put([], True)
    whole.put([], True)
    assert whole.is_ended
