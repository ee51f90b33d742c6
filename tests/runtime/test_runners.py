"""Tests of the threads that run stages; such a thread cannot wait for its own end."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

import modelflow
from modelflow.errors import FlowFailed, FlowUnitError
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, per_item, spec_of, unit_of

inline = pytest.mark.parametrize("options", [{}, {"is_inline": True}], ids=["threads", "inline"])


def same(x):
    return x


class Stopping:
    """A unit with a method that calls `stop`."""

    def __init__(self, method, call="stop"):
        self.raised = []
        self.called = threading.Event()

        def stop(*_):
            try:
                getattr(self.flow.scheduler, call)()
            except RuntimeError as error:
                self.raised.append(str(error))
            self.called.set()

        def process(ctx):
            if method == "process":
                stop()
            ctx.outputs["out"] = ctx.inputs["in"]

        hooks = {} if method == "process" else {method: stop}
        self.spec = unit_of(process, hooks=hooks)


@inline
def test_stop_inside_a_call_of_a_unit_is_refused_at_once(options):
    unit = Stopping("process")
    with Running(chain((unit.spec, {"threads": 1})), **options) as unit.flow:
        assert unit.flow.infer(1).data == 1
        assert unit.flow.infer(2).data == 2
    (first, second) = unit.raised
    assert first == second
    assert "stop() was called by node 'n0', on a thread that stop() waits for" in first
    assert "call stop(wait=False) there" in first


@inline
@pytest.mark.parametrize("method", ["open", "close"])
def test_stop_in_open_or_close_of_a_unit_is_refused_at_once(method, options):
    unit = Stopping(method)
    unit.flow = Running(chain((unit.spec, {"threads": 1})), **options)
    with unit.flow:
        assert unit.flow.infer(1).data == 1
    assert len(unit.raised) == 1


def test_stop_in_a_callback_on_a_worker_s_thread_is_refused_and_harms_nobody(caplog):
    with Running(chain(per_item(same))) as flow:
        stream, done = flow.session(), threading.Event()

        def stop():
            done.set()
            flow.scheduler.stop()

        stream._session.results["output"].on_ready(stop)
        stream.send("input", 1)
        assert done.wait(60)
        assert flow.infer(2).data == 2
    assert "a callback that waited for a flow raised" in caplog.text


@inline
def test_a_unit_may_ask_for_the_stop(options):
    unit = Stopping("process", "request_stop")
    with Running(chain((unit.spec, {"threads": 1})), **options) as unit.flow:
        stream = unit.flow.session()
        stream.send("input", 1)
        stream.close_input()
        assert [buffer.data for buffer in stream] == [1]
        assert unit.flow.scheduler.wait(60)
    assert unit.raised == []
    assert unit.flow.scheduler.is_stopped


@pytest.mark.parametrize("is_at_the_limit_before", [False, True])
def test_a_thread_that_the_system_does_not_give_is_named_with_its_node(
    is_at_the_limit_before, monkeypatch
):
    start = threading.Thread.start

    def refuse(*_):
        raise RuntimeError("can't start new thread")

    def limited(thread):
        if thread.name.startswith("modelflow/test/n1"):
            refuse()
        start(thread)

    flow = Running(chain(spec_of(), (spec_of(), {"threads": 1})))
    monkeypatch.setattr(threading.Thread, "start", limited)
    if is_at_the_limit_before:
        monkeypatch.setattr("_thread.start_new_thread", refuse)
    with pytest.raises(FlowFailed) as caught:
        flow.scheduler.start()
    (error,) = caught.value.exceptions
    assert (error.node, error.unit, error.phase) == ("n1", "forward", "start of its thread")
    assert "can't start new thread" in str(error)
    assert flow.scheduler.is_stopped


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError("no model"), ["open", "open", "close", "close"]),
        (KeyboardInterrupt(), ["open", "close"]),
    ],
)
def test_an_inline_flow_opens_all_but_behind_a_ctrl_c_and_closes_those_that_are_open(
    error, expected
):
    calls = []

    def fails(config):
        raise error

    hooks = {"open": lambda _: calls.append("open"), "close": lambda: calls.append("close")}
    good = (unit_of(None, hooks=hooks), {"threads": 1})
    bad = (unit_of(None, hooks={"open": fails}), {"threads": 1})
    flow = Running(chain(good, bad, good), is_inline=True)
    with pytest.raises(FlowFailed, match="flow 'test' failed"):
        flow.scheduler.start()
    assert calls == expected


def test_threads_bear_the_names_of_flow_and_node_and_do_not_keep_the_interpreter():
    with Running(chain((spec_of(), {"threads": 2}))):
        threads = [t for t in threading.enumerate() if t.name.startswith("modelflow/test/")]
    names = {f"modelflow/test/{name}" for name in ("n0/0", "n0/1", "watchdog")}
    assert {thread.name for thread in threads} == names
    assert all(thread.daemon for thread in threads)


def test_the_watchdog_of_a_flow_names_the_flow_and_looks_at_each_worker_and_stage():
    scheduler = Running(chain((spec_of(), {"threads": 2}), spec_of())).scheduler
    watchdog = scheduler._runner._watchdog
    assert watchdog._flow == "test"
    assert watchdog._workers == scheduler._workers
    assert [stage.plan.name for stage in watchdog._stages] == ["n0", "n1"]


def test_who_joins_waits_for_all_threads_together_and_describes_those_that_hang():
    clock, waits = FakeClock(), []
    runner = Running(chain((spec_of(), {"threads": 3})), clock=clock).scheduler._runner

    def join(timeout):
        waits.append(timeout)
        clock.advance(1.5)

    hung = SimpleNamespace(ident=1, join=join, is_alive=lambda: True)
    ended = SimpleNamespace(ident=1, join=join, is_alive=lambda: False)
    workers = [worker for worker, _ in runner._running]
    runner._running = list(zip(workers, [hung, ended, hung], strict=True))
    errors = runner.join(2.0)
    assert waits == [2.0, 0.5, 0.0]
    assert [error.node for error in errors] == ["n0", "n0"]
    assert "did not return within 2 s of being told to stop" in str(errors[0])


def test_behind_the_end_nobody_is_started_any_more():
    opened, ended = [], threading.Event()
    unit = unit_of(None, hooks={"open": opened.append})
    scheduler = Running(chain((unit, {"threads": 1}))).scheduler
    runner, (worker,) = scheduler._runner, scheduler._workers
    assert runner.join(1.0) == []
    runner.start()
    runner.add(worker, ended.set)
    assert ended.is_set()
    assert opened == []


# -- a unit that calls its own flow --------------------------------------------------------------


async def gathered(answers):
    return [answer async for _, answer in answers]


ASKING = {
    "infer": lambda flow: flow.infer(1),
    "infer with a timeout": lambda flow: flow.infer(1, timeout=60),
    "infer that does not wait": lambda flow: flow.infer(1, wait=False),
    "ainfer": lambda flow: asyncio.run(flow.ainfer(1)),
    "map": lambda flow: list(flow.map([1])),
    "amap": lambda flow: asyncio.run(gathered(flow.amap([1]))),
}


@pytest.mark.parametrize("threads", [0, None], ids=["inline", "threads"])
@pytest.mark.parametrize("how", ASKING)
@pytest.mark.parametrize("asked", [lambda flow: flow.infer(0), lambda flow: dict(flow.map([0]))[0]])
def test_a_unit_that_asks_its_own_flow_is_refused_with_its_node(how, threads, asked):
    def asks(value):
        return ASKING[how](flow)

    flow = modelflow.Flow(chain((per_item(same), {}), per_item(asks)), threads=threads)
    with flow, pytest.raises(FlowUnitError) as caught:
        asked(flow)
    call, message = "map" if "map" in how else "infer", str(caught.value)
    assert message.startswith("node 'n1' (unit 'asks') failed in process: RuntimeError: ")
    assert f"{call}() was called by node 'n1', on a thread that {call}() waits for" in message
    assert message.endswith("make the inner call a node of the graph, or use another Flow")


def test_a_unit_may_ask_another_flow():
    with modelflow.Flow(chain(per_item(lambda x: 2 * x))) as other:
        asks = per_item(lambda value: other.infer(value).data)
        with modelflow.Flow(chain(asks)) as flow:
            assert [answer.data for _, answer in flow.map([1, 2, 3])] == [2, 4, 6]
