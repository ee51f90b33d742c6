import logging
import threading

from modelflow.runtime.workers.watchdog import Watchdog
from modelflow.unit.unit import FlowUnit
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, spec_of
from tests.runtime.queues.test_inbox import segment
from tests.runtime.test_scheduler import Gate


def test_watchdog_names_the_node_that_does_not_come_back(caplog):
    clock = FakeClock()
    entered, leave = threading.Event(), threading.Event()

    class Hangs(FlowUnit):
        def process(self, ctx):
            entered.set()
            leave.wait()
            ctx.outputs["out"] = ctx.inputs["in"]

    said = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record):
            said.set()

    logger = logging.getLogger("modelflow")
    listener = Listener()
    logger.addHandler(listener)
    try:
        with Running(
            chain((spec_of(Hangs, name="slow"), {"threads": 1})), clock=clock, watchdog_interval=5
        ) as flow:
            stream = flow.session()
            stream.send("input", 1)
            assert entered.wait(60)
            clock.until_sleeping()
            clock.advance(5)
            assert said.wait(60)
            leave.set()
            assert stream.recv().data == 1
    finally:
        logger.removeHandler(listener)
    (message,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "node 'n0' (unit 'slow') has been in process for 5 s" in message
    assert "in wait" in message


def look(flow):
    """Makes the watchdog look three times, which is enough for a warning."""
    watchdog = flow.scheduler._runner._watchdog
    for _ in range(3):
        watchdog.look()


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def test_watchdog_names_a_node_that_waits_for_room_and_whom_for(caplog):
    gate, clock = Gate(), FakeClock()
    one = {"threads": 1, "batch_size": 1, "queue_size": 1}
    with Running(
        chain((spec_of(), one), (gate.spec(), one)), clock=clock, watchdog_interval=3600
    ) as flow:
        stream = flow.session()
        for i in range(3):  # one in the gate, one in its queue, one before the waiting node
            stream.send("input", i)
        gate.entered.acquire()
        clock.until_waiting(1)
        look(flow)
        gate.open.set()
        stream.close_input()
        assert len(list(stream)) == 3
    (said,) = warnings_of(caplog)
    assert said == (
        "flow 'test': node 'n0' has not begun a batch for 3600 s although 1 buffers wait for it: "
        "it waits for room in the queue of 'n1'"
    )


def test_watchdog_names_one_call_once_and_the_next_one_again(caplog):
    gate, clock = Gate(), FakeClock()
    with Running(
        chain((gate.spec(), {"threads": 1, "batch_size": 1})), clock=clock, watchdog_interval=3600
    ) as flow:
        stream = flow.session()
        stream.send("input", 1)
        gate.entered.acquire()
        clock._now += 3600  # without waking the watchdog's own thread
        look(flow)
        (said,) = warnings_of(caplog)
        text = "has been in process for 3600 s, 0 buffers wait for it; it is at "
        assert said.startswith(f"flow 'test': node 'n0' (unit 'gated') {text}")
        gate.open.set()
        assert stream.recv().data == 1
        gate.open.clear()
        stream.send("input", 2)
        gate.entered.acquire()
        look(flow)
        assert len(warnings_of(caplog)) == 1  # the call has only just begun
        clock._now += 3600
        look(flow)
        assert len(warnings_of(caplog)) == 2
        gate.open.set()


def test_watchdog_does_not_name_a_node_whose_unit_is_in_a_call_or_that_moves(caplog):
    gate, clock = Gate(), FakeClock()
    with Running(
        chain((gate.spec(), {"threads": 1, "batch_size": 1})), clock=clock, watchdog_interval=3600
    ) as flow:
        stream = flow.session()
        for i in range(3):
            stream.send("input", i)
        gate.entered.acquire()
        look(flow)
        assert warnings_of(caplog) == []
        gate.open.set()
        stream.close_input()
        assert len(list(stream)) == 3


def test_the_watchdog_looks_while_there_is_work_and_sleeps_without_a_limit_else():
    clock, work, looks = FakeClock(), [], threading.Semaphore(0)

    class Looking(Watchdog):
        def look(self):
            looks.release()

    dog = Looking("flow", (), (), lambda: bool(work), 5.0, clock)
    assert (dog.thread.name, dog.thread.daemon) == ("modelflow/flow/watchdog", True)
    dog.wake()  # the watchdog is awake and has nothing to do
    dog.thread.start()
    try:
        for _ in range(2):
            clock.until_waiting(1)
            work.append(1)
            dog.wake()
            for _ in range(2):
                clock.until_deadline(clock.now() + 5.0)
                assert not dog._is_parked
                assert not looks.acquire(blocking=False)
                clock.advance(5.0)
                assert looks.acquire(timeout=60)
            work.clear()
            clock.until_deadline(clock.now() + 5.0)
            clock.advance(5.0)
            assert looks.acquire(timeout=60)
    finally:
        dog.stop()
        dog.thread.join()


def test_a_node_that_stands_is_named_once_and_again_when_it_has_moved_between(caplog):
    with Running(chain(spec_of()), is_inline=True) as flow:
        (stage,) = flow.scheduler._wiring.stages.values()
        workers = flow.scheduler._workers
        dog = Watchdog("test", workers, (stage,), lambda: True, 30.0, FakeClock())
        session = flow.scheduler.create_session()

        def said(looks):
            caplog.clear()
            for _ in range(looks):
                dog.look()
            return warnings_of(caplog)

        assert said(3) == []  # no rows exist
        stage.inbox.append(0, [segment(session.stream, 0, 2)])
        stage.figures.workers[0].count(1, 0, 0.0)
        assert said(1) == []
        text = (
            "flow 'test': node 'n0' has not begun a batch for 30 s although 2 buffers wait for it"
        )
        assert said(3) == [f"{text}: its workers wait"]
        stage.figures.workers[0].count(1, 0, 0.0)
        assert said(1) == []
        stage.figures.workers[0].busy_since = dog._clock.now()
        assert said(1) == []
        stage.figures.workers[0].busy_since = None
        assert len(said(2)) == 1
