"""Tests that a session does not delay other sessions, and that an ended session leaves nothing."""

import asyncio
import threading

import pytest

from modelflow.unit.kind import Stream
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, graph_of, per_item, unit_of
from tests.runtime.test_scheduler import Gate, add_one


@pytest.mark.parametrize("split_size", [0, 1])
def test_a_session_whose_order_is_held_up_holds_up_nobody_else(split_size):
    gate = Gate()

    def process(ctx):
        if any(buffer.data == "slow" for buffer in ctx.input()):
            gate.entered.release()
            gate.open.wait()
        ctx.outputs["out"] = ctx.inputs["in"]

    settings = {"threads": 4, "batch_size": 1, "queue_size": 4, "split_size": split_size}
    with Running(chain((unit_of(process), settings))) as flow:
        slow, quick = flow.session(), flow.session()
        slow.send("input", "slow")
        gate.entered.acquire()
        sent = ["slow"]
        with pytest.raises(TimeoutError, match="queue of node 'n0' is full"):
            for i in range(1000):
                slow.send("input", i, timeout=0.2)
                sent.append(i)
        assert len(sent) < 100  # the session itself is blocked
        for i in range(50):
            quick.send("input", i, timeout=60)
            assert quick.recv(timeout=60).data == i
        assert not len(slow._session.results["output"])
        gate.open.set()
        slow.close_input()
        assert [buffer.data for buffer in slow] == sent


def test_a_dropped_session_ends_and_nothing_is_kept_of_it(caplog):
    with Running(chain(per_item(add_one))) as flow:
        for i in range(50):
            stream = flow.session()
            stream.send("input", i)
            assert stream.recv().data == i + 1
            del stream
        last = flow.session()  # a new session ends the dropped sessions
        last.close_input()
        for session in list(flow.scheduler._sessions.known):
            assert flow.scheduler.wait_for(session, 60)
        assert flow.scheduler.count_held() == {}
    assert "was dropped without close_input(); its input ends now" in caplog.text


def test_the_watchdog_ends_dropped_sessions_where_nobody_makes_another():
    clock = FakeClock()
    with Running(chain(per_item(add_one)), clock=clock, watchdog_interval=5) as flow:
        stream = flow.session()
        session = stream._session
        stream.send("input", 1)
        clock.until_sleeping(1)
        del stream
        waiting = threading.Thread(
            target=flow.scheduler.wait_for, args=(session,), name="modelflow/test/wait"
        )
        waiting.start()
        clock.until_waiting(1)
        clock.advance(5)
        waiting.join(60)
        assert not waiting.is_alive()
        assert flow.scheduler.count_held() == {}


def test_a_dropped_session_that_had_ended_its_input_is_finished_quietly(caplog):
    with Running(chain(per_item(add_one))) as flow:
        stream = flow.session()
        session = stream._session
        stream.send("input", 1)
        stream.close_input()
        del stream
        assert flow.scheduler.wait_for(session, 60)
        flow.session().close_input()
    assert "was dropped" not in caplog.text


def many(count):
    """Returns a stream unit that emits ``count`` values for one input, each for an event."""

    def process(ctx):
        done = ctx.state.get("done", 0)
        ctx.emit([done])
        ctx.state["done"] = done + 1
        if done + 1 < count:
            ctx.send_event()

    return unit_of(process, kind=Stream(), name="many")


@pytest.mark.parametrize("options", [{}, {"is_inline": True}], ids=["threads", "inline"])
@pytest.mark.parametrize("how", ["exchange", "aexchange"])
def test_who_takes_everything_at_the_end_gets_more_than_results_may_wait(how, options):
    with Running(chain(many(20)), results_bound=8, **options) as flow:
        stream = flow.session()
        if how == "exchange":
            (found,) = stream.exchange({"input": [1]}, 60).values()
        else:
            (found,) = asyncio.run(stream.aexchange({"input": [1]}, 60)).values()
    assert [buffer.data for buffer in found] == list(range(20))


@pytest.mark.parametrize("how", ["exchange", "aexchange"])
def test_who_takes_one_output_after_the_other_is_no_slow_reader_of_the_last(how):
    nodes = {"input": "input", "many": many(20), "a": "output", "b": "output"}
    with Running(
        graph_of(nodes, ["input -> many", "many -> a", "many -> b"]), results_bound=8
    ) as f:
        if how == "exchange":
            found = f.session().exchange({"input": [1]}, 60)
        else:
            found = asyncio.run(f.session().aexchange({"input": [1]}, 60))
    for output in ("a", "b"):
        assert [buffer.data for buffer in found[output]] == list(range(20))
