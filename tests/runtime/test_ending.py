"""How a flow ends, step by step."""

import threading
from types import SimpleNamespace

import pytest

from modelflow.errors import FlowFailed, StreamClosed
from modelflow.unit.kind import Stream
from modelflow.unit.unit import FlowUnit
from tests.runtime.fake_clock import Passing
from tests.runtime.graphs import Running, chain, per_item, spec_of, told, unit_of
from tests.runtime.test_scheduler import Gate, add_one


def test_a_unit_that_fails_to_close_is_named_by_stop():
    class DoesNotClose(FlowUnit):
        def process(self, ctx):
            ctx.outputs["out"] = ctx.inputs["in"]

        def close(self):
            raise OSError("busy")

    flow = Running(chain((spec_of(DoesNotClose), {"threads": 1})))
    flow.scheduler.start()
    assert flow.infer(1).data == 1
    with pytest.raises(FlowFailed) as caught:
        flow.scheduler.stop()
    assert "failed in close: OSError: busy" in str(caught.value.exceptions[0])


def test_a_unit_that_hangs_is_named_and_everyone_else_ends():
    gate = Gate()
    settings = {"threads": 1, "batch_size": 1}
    graph = chain((per_item(add_one), settings), (gate.spec(), settings), (spec_of(), settings))
    flow = Running(graph, stop_timeout=2)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    gate.entered.acquire()
    with pytest.raises(FlowFailed) as caught:
        flow.scheduler.stop()
    (error,) = caught.value.exceptions
    assert error.node == "n1"
    assert "did not return within 2 s" in str(error)
    assert "in wait" in str(error)
    alive = [t.name for t in threading.enumerate() if t.name.startswith("modelflow/")]
    assert alive == ["modelflow/test/n1/0"]
    with pytest.raises(StreamClosed):
        stream.recv()
    gate.open.set()


def test_ctrl_c_while_draining_still_ends_every_thread(monkeypatch):
    flow = Running(chain(per_item(add_one)))
    flow.scheduler.start()

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(flow.scheduler._ending, "drain", interrupt)
    with pytest.raises(KeyboardInterrupt):
        flow.scheduler.stop()
    assert not [t for t in threading.enumerate() if t.name.startswith("modelflow/test/n0")]
    flow.scheduler.stop()


def test_a_stop_lets_streams_be_held_for_its_time_and_no_longer(caplog):
    def hold(ctx):
        ctx.hold()
        ctx.emit([buffer.data for buffer in ctx.input()])

    clock = Passing(longest=1.5)
    unit = unit_of(hold, kind=Stream())
    flow = Running(chain(unit), is_inline=True, clock=clock, stop_timeout=2.0)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    assert flow.scheduler.count_held() == {"inbox of 'n0'": 1, "sessions": 1}
    flow.scheduler.stop()
    assert clock.waits == [1.5, 0.5]
    assert told(stream) == [1]
    assert (flow.scheduler.count_held(), caplog.text) == ({}, "")


def test_a_drain_looks_again_after_its_time_whether_something_has_moved(monkeypatch, caplog):
    clock, cuts, closed = Passing(longest=1.5), [], []
    flow = Running(chain(spec_of()), is_inline=True, clock=clock, stop_timeout=2.0)
    flow.scheduler.start()
    session = flow.scheduler.create_session()
    done = iter([0, 1, 2, 2])
    monkeypatch.setattr(flow.scheduler._wiring, "submitter", SimpleNamespace(close=closed.append))
    monkeypatch.setattr(flow.scheduler._wiring, "count_calls", done.__next__)
    monkeypatch.setattr(flow.scheduler._wiring, "end_cycles", lambda: cuts.append(clock.now()))
    flow.scheduler.stop()
    assert clock.waits == [1.5, 0.5] * 3
    assert cuts == [1002.0]  # once
    assert closed == [session]
    assert session.is_cancelled
    assert caplog.messages == ["flow 'test': no unit finished a call for 2 s; the rest is dropped"]


def test_a_drain_does_not_wait_for_what_ends_at_the_last_moment(monkeypatch):
    flow = Running(chain(spec_of()), is_inline=True, clock=Passing(), stop_timeout=2.0)
    flow.scheduler.start()
    session, lock = flow.scheduler.create_session(), flow.scheduler._life.lock
    done = iter([lambda: None, session.cancel])

    class Late:
        """The flow's lock, which another thread that ends the session has taken first."""

        def __enter__(self):
            if flow.scheduler.is_draining:
                next(done, lambda: None)()
            lock.acquire()

        def __exit__(self, *_):
            lock.release()

    monkeypatch.setattr(flow.scheduler._wiring, "submitter", SimpleNamespace(close=lambda _: None))
    monkeypatch.setattr(flow.scheduler._life, "lock", Late())
    flow.scheduler.stop()
    assert session.is_cancelled
    assert session.failure is None  # the stop was not the cause
    assert flow.scheduler.options.clock.waits == []


def test_a_stop_inside_a_unit_names_its_node(monkeypatch):
    scheduler = Running(chain(spec_of()), is_inline=True).scheduler
    (worker,) = scheduler._workers[:1]
    monkeypatch.setattr(scheduler._runner, "worker_here", lambda: worker)
    with pytest.raises(RuntimeError, match=r"flow 'test': stop\(\) was called by node 'n0'"):
        scheduler.stop()
