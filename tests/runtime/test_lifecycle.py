"""How a flow starts, step by step."""

import contextlib
import threading

import pytest

from modelflow.errors import FlowFailed, FlowUnitError, StreamClosed
from modelflow.unit.unit import FlowUnit
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, fed_by_a_source, spec_of, unit_of


def test_a_unit_that_does_not_open_fails_the_start_and_closes_the_others():
    closed = []

    class Opens(FlowUnit):
        def close(self):
            closed.append(1)

    class DoesNot(FlowUnit):
        def open(self, config):
            raise OSError("no model here")

    flow = Running(chain(spec_of(Opens), spec_of(DoesNot, name="broken"), spec_of(Opens)))
    with pytest.raises(FlowFailed) as caught:
        flow.scheduler.start()
    (error,) = set(map(str, caught.value.exceptions))
    assert error == "node 'n1' (unit 'broken') failed in open: OSError: no model here"
    assert closed
    with pytest.raises(StreamClosed, match="has failed"):
        flow.session()


@pytest.mark.parametrize("is_given_up", [True, False])
def test_whoever_has_opened_its_unit_waits_for_the_others(is_given_up, monkeypatch):
    clock, found = FakeClock(), []
    scheduler = Running(chain(spec_of()), is_inline=True, clock=clock).scheduler

    def check():
        if is_given_up:
            raise ValueError("not like this")

    def wait():
        found.append(scheduler.wait_until_all_open())

    thread = threading.Thread(target=wait, name="modelflow/test/opened")
    thread.start()
    clock.until_waiting()
    with monkeypatch.context() as patched:
        patched.setattr(scheduler, "stop", lambda drain: thread.join())
        with pytest.raises(ValueError, match="not") if is_given_up else contextlib.nullcontext():
            scheduler.start(check)
    thread.join()
    assert found == [not is_given_up]
    scheduler.stop()


def test_a_start_returns_when_every_unit_is_open_is_checked_and_has_begun(monkeypatch):
    clock, order = FakeClock(), []

    def note(what):
        clock.until_waiting(2)  # the watchdog, and the start
        order.append(what)

    def begin():
        note("begin")
        scheduler.on_begin()

    unit = unit_of(None, hooks={"open": lambda _: note("open")})
    scheduler = Running(chain((unit, {"threads": 1})), clock=clock).scheduler
    monkeypatch.setattr(scheduler._workers[0], "begin", begin)
    scheduler.start(lambda: order.append("check"))
    order.append("started")
    scheduler.stop()
    assert order == ["open", "check", "begin", "started"]


def test_a_start_that_ctrl_c_breaks_off_drains_nothing(monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    scheduler, drained = fed_by_a_source(), []
    assert scheduler.sources["source"].name == "source"
    monkeypatch.setattr(scheduler._runner, "begin", interrupt)
    monkeypatch.setattr(scheduler._ending, "drain", lambda: drained.append(1))
    with pytest.raises(KeyboardInterrupt):
        scheduler.start()
    assert (scheduler.is_stopped, drained) == (True, [])


def test_a_failure_while_units_begin_is_raised_by_the_start_and_not_logged(monkeypatch, caplog):
    scheduler = fed_by_a_source()
    error = FlowUnitError("no good", node="source")
    monkeypatch.setattr(scheduler._runner, "begin", lambda: scheduler.on_failure(error))
    with pytest.raises(FlowFailed) as caught:
        scheduler.start()
    assert caught.value.exceptions == (error,)
    assert caplog.text == ""
