"""Tests that backpressure names its reason, and calls back when the reason is gone."""

from modelflow.buffer import Buffer
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.queues.backpressure import check_in_flight, check_inbox, check_unread
from modelflow.runtime.session.in_flight import InFlight
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, spec_of
from tests.runtime.test_scheduler import Gate


def never():
    return False


def test_too_many_rows_inside_the_graph():
    in_flight, calls = InFlight(1, FakeClock()), []
    in_flight.add(1)
    backpressure = check_in_flight(in_flight, FakeClock(), never)
    assert backpressure.reason == "max_in_flight=1 buffers are inside the graph"
    assert backpressure.is_rejectable
    backpressure.on_gone(lambda: calls.append(1))
    assert calls == []
    in_flight.remove(1)
    in_flight.call_due()
    assert calls == [1]


def test_a_full_queue():
    gate, calls = Gate(), []
    one = {"queue_size": 1, "batch_size": 1, "threads": 1}
    with Running(chain((gate.spec(), one))) as flow:
        stream = flow.session()
        stream.send("input", 1)
        gate.entered.acquire()
        stream.send("input", 2)
        inbox = flow.scheduler._wiring.stages["n0"].inbox
        backpressure = check_inbox(inbox, 0, stream._session)
        assert backpressure.reason == "the queue of node 'n0' is full (1 buffers)"
        backpressure.on_gone(lambda: calls.append(1))
        assert calls == []
        gate.open.set()
        backpressure.wait(60)
    assert calls == [1]


def test_a_reader_that_is_behind():
    with Running(chain(spec_of())) as flow:
        stream = flow.session()
        stream.send("input", Buffer(1))
        stream._session.results["output"].wait_ready(SYSTEM_CLOCK, 60)
        calls = []
        backpressure = check_unread(stream._session, "send to 'input'", 1, FakeClock(), never)
        assert "1 buffers of session '0' have not been received" in backpressure.reason
        assert "'output' (1 unread)" in backpressure.reason
        assert not backpressure.is_rejectable
        backpressure.on_gone(lambda: calls.append(1))
        assert calls == []
        stream.recv(timeout=60)
    assert calls == [1]
