import asyncio
import contextlib
import logging
import sys
import threading

import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, EndOfStream, FlowUnitError, StreamClosed
from modelflow.stream_io import stream_io
from modelflow.stream_io.stream_io import WARN_AFTER
from modelflow.unit.kind import Stream
from modelflow.unit.unit import FlowUnit
from tests import programs
from tests.runtime.entry.test_submitter import Caller
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, unit_of


def add_one(x):
    if isinstance(x, str):
        raise TypeError("not a number")
    return x + 1


def test_recv_of_an_unknown_output_names_those_there_are():
    with (
        Running(chain(per_item(add_one))) as flow,
        pytest.raises(KeyError, match="no output 'outpt'"),
    ):
        flow.session().recv("outpt")


def test_send_to_an_unknown_input_names_those_there_are():
    with (
        Running(chain(per_item(add_one))) as flow,
        pytest.raises(KeyError, match="no input 'inptu'; did you mean 'input'"),
    ):
        flow.session().send("inptu", 1)


def test_recv_without_a_name_needs_a_single_output():
    graph = graph_of({"input": "input", "a": "output", "b": "output"}, ["input -> a", "input -> b"])
    with Running(graph) as flow:
        stream = flow.session()
        stream.send("input", 1)
        with pytest.raises(KeyError, match=r"name the output.*'a', 'b'"):
            stream.recv()
        assert stream.recv("a").data == stream.recv("b").data == 1


def test_recv_gives_up_after_its_time_and_can_go_on():
    with Running(chain(per_item(add_one))) as flow:
        stream = flow.session()
        with pytest.raises(TimeoutError, match="no result within 0 s"):
            stream.recv(timeout=0)
        stream.send("input", 1)
        assert stream.recv(timeout=10).data == 2


def test_end_of_stream_comes_behind_the_last_result_and_stays():
    with Running(chain(per_item(add_one))) as flow:
        stream = flow.session()
        stream.send("input", 1)
        stream.close_input()
        stream.close_input()
        assert stream.recv().data == 2
        for _ in range(2):
            with pytest.raises(EndOfStream):
                stream.recv()
        with pytest.raises(StreamClosed, match="is closed"):
            stream.send("input", 2)


def test_an_empty_session_ends_at_once():
    with Running(chain((per_item(add_one), {"threads": 4}))) as flow:
        stream = flow.session()
        stream.close_input()
        assert list(stream) == []


def test_send_does_not_copy_and_leaves_the_callers_array_writable():
    seen = []

    def look(x):
        seen.append(x)
        return x

    with Running(chain(per_item(look))) as flow:
        array = np.arange(4)
        stream = flow.session()
        stream.send("input", array)
        result = stream.recv().data
        assert np.shares_memory(result, array)
        assert not seen[0].flags.writeable
        array[0] = 9
        stream.send("input", array, copy=True)
        array[0] = 5
        assert stream.recv().data[0] == 9


@pytest.mark.parametrize("hands_over", [True, False])
def test_a_result_that_its_unit_hands_over_may_be_written(hands_over):
    unit = per_item(lambda x: np.zeros(3), hands_over_arrays=hands_over)
    with Running(chain(unit)) as flow:
        assert flow.infer(1).data.flags.writeable == hands_over


def test_meta_travels_with_the_buffer():
    with Running(chain(per_item(add_one))) as flow:
        stream = flow.session()
        stream.send("input", Buffer(1, {"path": "a.jpg"}))
        assert stream.recv().meta == {"path": "a.jpg"}


def test_exchange_raises_the_units_error():
    with (
        Running(chain(per_item(add_one))) as flow,
        pytest.raises(FlowUnitError, match="not a number"),
    ):
        flow.infer("x")


def test_exchange_that_takes_too_long_cancels_its_session():
    gate = threading.Event()

    class Waits(FlowUnit):
        def process(self, ctx):
            gate.wait()
            ctx.outputs["out"] = ctx.inputs["in"]

    with Running(chain(spec_of(Waits))) as flow:
        with pytest.raises(TimeoutError):
            flow.infer(1, timeout=0.05)
        assert not flow.scheduler._sessions.known
        gate.set()
        assert flow.infer(2).data == 2


def test_leaving_the_block_cancels_what_is_left():
    with Running(chain(per_item(add_one))) as flow:
        with flow.session() as stream:
            stream.send("input", 1)
        with pytest.raises(Cancelled):
            stream.recv()


def test_many_threads_use_one_flow_and_get_their_own_answers():
    with Running(chain((per_item(add_one), {"threads": 2}))) as flow:
        answers = {}

        def ask(number):
            answers[number] = [flow.infer(1000 * number + i).data for i in range(20)]

        threads = [
            threading.Thread(target=ask, args=(n,), name=f"modelflow/test/{n}") for n in range(32)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {n: [1000 * n + i + 1 for i in range(20)] for n in range(32)}


def test_the_asynchronous_twins_do_the_same():
    async def use(flow):
        stream = flow.session()

        async def send():
            for i in range(100):
                await stream.asend("input", i)
            stream.close_input()

        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            tasks.create_task(send())
            return [buffer.data async for buffer in stream]

    settings = {"queue_size": 2, "batch_size": 1, "threads": 1}
    with Running(chain((per_item(add_one), settings)), results_bound=3) as flow:
        assert asyncio.run(use(flow)) == [i + 1 for i in range(100)]


def test_arecv_raises_the_units_error_and_can_be_cancelled():
    async def use(flow):
        stream = flow.session()
        await stream.asend("input", "x")
        with pytest.raises(FlowUnitError):
            await stream.arecv()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await stream.arecv()
        await stream.asend("input", 1)
        return (await stream.arecv()).data

    with Running(chain(per_item(add_one))) as flow:
        assert asyncio.run(use(flow)) == 2


def test_buffers_sent_in_error_pass_through():
    with Running(chain(per_item(add_one))) as flow:
        stream = flow.session()
        stream.send("input", Buffer.from_error(FlowUnitError("broken before")))
        with pytest.raises(FlowUnitError, match="broken before"):
            stream.recv()


def test_a_forgotten_flow_does_not_keep_the_interpreter():
    program = """
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, spec_of
from modelflow.runtime.lifecycle import stop_at_exit
flow = Running(chain(spec_of()))
flow.scheduler.start()
stop_at_exit(flow.scheduler)
print(flow.infer(1).data)
"""
    done = programs.run([sys.executable, "-c", program], check=True)
    assert done.stdout == "1\n"
    assert done.stderr == ""


def test_an_error_is_returned_where_it_is_asked_for():
    with Running(chain(per_item(add_one))) as flow:
        stream = flow.session()
        stream.send("input", "one")
        stream.send("input", "two")
        assert "not a number" in str(stream.recv(errors="return").error)
        assert "not a number" in str(asyncio.run(stream.arecv(errors="return")).error)
        with pytest.raises(ValueError, match="errors: got 'ignore'; expected 'raise' or 'return'"):
            stream.recv(errors="ignore")
        with pytest.raises(ValueError, match="errors: got 'ignore'"):
            asyncio.run(stream.arecv(errors="ignore"))


def keeps_all():
    """Returns a stream unit that gives nothing until its stream ends."""
    return unit_of(lambda ctx: None, kind=Stream())


def test_on_the_calling_thread_what_is_not_there_now_never_comes():
    with Running(chain(keeps_all()), is_inline=True) as flow:
        stream = flow.session()
        stream.send("input", 1)
        for wait in (
            lambda: stream.recv(timeout=None),
            lambda: stream.recv(errors="return"),
            lambda: asyncio.run(stream.arecv()),
            lambda: asyncio.run(stream.arecv(timeout=5, errors="return")),
        ):
            with pytest.raises(TimeoutError, match="no result within 0 s"):
                wait()


def test_on_the_calling_thread_waiting_runs_what_is_ready():
    with Running(chain(per_item(add_one)), is_inline=True) as flow:
        stream = flow.session()
        flow.scheduler.submitter.send(stream._session, "input", [Buffer(1)])
        assert asyncio.run(stream.arecv()).data == 2


def test_a_loop_that_has_ended_harms_nobody(monkeypatch):
    with Running(chain(per_item(add_one))) as flow:
        stream = flow.session()

        async def ended():
            task = asyncio.create_task(stream.arecv())
            await asyncio.sleep(0)  # the task has begun, and waits
            loop = asyncio.get_running_loop()
            monkeypatch.setattr(loop, "call_soon_threadsafe", closed)  # as for a closed loop
            stream.send("input", 1)
            assert flow.infer(2).data == 3
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        def closed(*_):
            raise RuntimeError("Event loop is closed")

        asyncio.run(ended())
        assert stream.recv().data == 2


def test_an_arecv_that_gives_up_leaves_no_callback_behind():
    with Running(chain(per_item(add_one))) as flow:
        stream = flow.session()

        async def poll():
            for _ in range(20):
                with pytest.raises(TimeoutError):
                    await stream.arecv(timeout=0)

        asyncio.run(poll())
        assert stream._session.results["output"]._ready.count == 0


def test_a_recv_that_waits_for_an_input_that_nobody_closes_says_so_once(caplog, monkeypatch):
    clock = FakeClock()
    with Running(chain(per_item(add_one)), clock=clock) as flow:
        stream = flow.session()
        stream.send("input", 1)
        assert stream.recv().data == 2
        caller = Caller(stream.recv)
        clock.until_sleeping(2)  # and the watchdog
        told = threading.Event()

        class Handler(logging.Handler):
            def emit(self, record):
                told.set()

        monkeypatch.setattr(stream_io.logger, "handlers", [Handler()])
        clock.advance(WARN_AFTER)
        assert told.wait(60)
        stream.send("input", 2)
        assert caller.join().data == 3
    (said,) = [r.getMessage() for r in caplog.records if "has waited for" in r.getMessage()]
    assert said == (
        "session '0': recv has waited for 30 s, all results were received, and the "
        "input is still open; call close_input() to end the stream"
    )


def test_a_recv_that_waits_for_what_is_under_way_says_nothing(caplog):
    clock, gate = FakeClock(), threading.Event()
    with Running(chain(per_item(lambda x: gate.wait(60) and x)), clock=clock) as flow:
        stream = flow.session()
        stream.send("input", 1)
        caller = Caller(stream.recv)
        clock.until_sleeping(2)  # and the watchdog
        clock.advance(WARN_AFTER)
        clock.until_waiting(1)
        gate.set()
        assert caller.join().data == 1
    assert not [r for r in caplog.records if "has waited for" in r.getMessage()]


@pytest.mark.parametrize(("end", "why"), [("close_input", "its end was sent"), ("stop", "stopped")])
def test_a_send_behind_the_end_says_who_ended_it(end, why):
    with Running(chain(per_item(add_one))) as flow:
        stream = flow.session()
        (stream.close_input if end == "close_input" else flow.scheduler.stop)()
        with pytest.raises(StreamClosed, match=why):
            stream.send("input", 1)
