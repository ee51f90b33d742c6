"""A node while it runs: what waits for it, and how long that will take."""

from modelflow.device import Device
from modelflow.plan import make_plan
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.kinds import running_kind
from modelflow.runtime.stage import Stage
from modelflow.unit.unit import FlowUnit
from tests.runtime.graphs import chain, spec_of
from tests.runtime.test_inbox import segment, stream


def stage(make=FlowUnit, **settings):
    spec = spec_of(make)
    plan = make_plan(chain((spec, settings))).stages["n0"]
    return Stage(plan, running_kind(plan.units), frozenset(), 1024, SYSTEM_CLOCK)


def test_the_expected_wait_is_that_of_the_rows_that_are_queued():
    here = stage(threads=2)
    here.inbox.append(0, [segment(stream(), 0, 6)])
    assert here.expected_wait() is None
    here.stats[0].count(4, 0, 1.0)
    here.stats[1].count(4, 0, 3.0)  # half a second a row
    assert here.expected_wait() == 6 * 0.5 / 2


def test_close_interrupts_every_unit_whatever_another_one_raises(caplog):
    told = []

    class Interrupted(FlowUnit):
        def interrupt(self):
            told.append(self)
            raise OSError("gone")

    here = stage(Interrupted)
    units = [here.instances[0].open(Device("cpu", 0)) for _ in range(2)]
    here.close()
    assert told == units
    assert caplog.text.count("node 'n0': interrupt() raised") == 2
