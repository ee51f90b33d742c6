import logging
import threading

from modelflow.unit.unit import FlowUnit
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, spec_of


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
