"""Tests of a flow's states and collected errors."""

import threading

import pytest

from modelflow.errors import FlowFailed, FlowUnitError, StreamClosed
from tests.runtime.fake_clock import FakeClock, Passing
from tests.runtime.graphs import Running, chain, fed_by_a_source, spec_of, unit_of


def test_wait_gives_up_at_its_time_also_when_it_is_woken_too_early():
    clock = Passing(longest=1.5)
    with Running(chain(spec_of()), is_inline=True, clock=clock) as flow:
        assert not flow.scheduler.wait(2.0)
        assert clock.waits == [1.5, 0.5]
        session = flow.scheduler.create_session()
        assert not flow.scheduler.wait_for(session, 2.0)
        assert clock.waits == [1.5, 0.5] * 2
        assert not flow.scheduler.wait(0.0)
        assert not flow.scheduler.wait_for(session, 0.0)
        flow.scheduler.cancel(session)
        assert flow.scheduler.wait_for(session, 0.0)
    assert flow.scheduler.wait(0.0)


def test_an_error_that_several_workers_have_is_one(caplog):
    flow = Running(chain(spec_of()), is_inline=True)
    with pytest.raises(FlowFailed) as caught, flow:
        for _ in range(2):
            flow.scheduler.on_failure(FlowUnitError("no good", node="n0"))
        flow.scheduler.on_failure(FlowUnitError("no good", node="n1"))
    assert [error.node for error in caught.value.exceptions] == ["n0", "n1"]
    assert "flow 'test' fails: node 'n0'" in caplog.text


@pytest.mark.parametrize("phase", ["open", "close"])
def test_what_start_or_stop_raises_is_not_logged_as_well(phase, caplog):
    def fail(*_):
        raise OSError("gone")

    unit = unit_of(None, hooks={phase: fail})
    with pytest.raises(FlowFailed, match="flow 'test' failed"), Running(chain(unit)):
        pass
    assert "fails" not in caplog.text


def test_a_flow_runs_from_its_start_to_its_stop():
    flow = Running(chain(spec_of()), is_inline=True)
    seen = [(flow.scheduler.is_running, flow.scheduler.is_stopped)]
    with flow:
        seen.append((flow.scheduler.is_running, flow.scheduler.is_stopped))
        assert not flow.scheduler.is_draining
    seen.append((flow.scheduler.is_running, flow.scheduler.is_stopped))
    assert seen == [(False, False), (True, False), (False, True)]
    assert flow.scheduler.is_draining


@pytest.mark.parametrize("of_one", [True, False])
def test_who_waits_without_a_limit_is_woken_by_the_end(of_one):
    clock, found = FakeClock(), []
    flow = Running(chain(spec_of()), is_inline=True, clock=clock)
    with flow:
        session = flow.scheduler.create_session()

        def wait():
            found.append(flow.scheduler.wait_for(session) if of_one else flow.scheduler.wait())

        thread = threading.Thread(target=wait, name="modelflow/test/wait")
        thread.start()
        clock.until_waiting()
        flow.scheduler.cancel(session)
    thread.join()
    assert found == [True]


def test_what_a_failed_flow_refuses_has_the_failure_as_its_cause():
    error = FlowUnitError("no good", node="n0")
    flow = Running(chain(spec_of()), is_inline=True)
    with pytest.raises(FlowFailed), flow:
        flow.scheduler.on_failure(error)
        with pytest.raises(StreamClosed, match="flow 'test' has failed: node 'n0'") as refused:
            flow.session()
    assert refused.value.__cause__ is error


def test_a_flow_that_never_started_is_stopped_for_good():
    scheduler = fed_by_a_source()
    scheduler.stop()
    assert scheduler.is_stopped
    assert scheduler.sources["source"].is_cancelled
    with pytest.raises(StreamClosed, match="flow 'test' is stopped"):
        scheduler.start()
