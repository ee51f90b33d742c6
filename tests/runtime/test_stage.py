"""A node while it runs: its units, its figures."""

from modelflow.device import Device
from modelflow.plan import make_plan
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.kinds import running_kind
from modelflow.runtime.stage import Stage
from modelflow.unit.unit import FlowUnit
from tests.runtime.graphs import chain, spec_of
from tests.runtime.test_inbox import segment, stream

ONE, OTHER = Device("cpu", 0), Device("cpu", 1)


class Counting(FlowUnit):
    """Counts its own calls; says when it is closed."""

    def __init__(self):
        self.calls = 0
        self.is_closed = False

    def figures(self):
        return {"calls": {"made": self.calls}}

    def close(self):
        self.is_closed = True


def stage(make=Counting, **settings):
    spec = spec_of(make, is_shared=settings.pop("is_shared", True))
    plan = make_plan(chain((spec, settings))).stages["n0"]
    return Stage(plan, running_kind(spec), frozenset(), 1024, SYSTEM_CLOCK)


def test_a_shared_unit_is_one_a_device_and_is_closed_when_its_last_worker_is_done():
    here = stage()
    unit = here.open_unit(ONE)
    assert here.open_unit(ONE) is unit
    other = here.open_unit(OTHER)
    assert other is not unit
    assert (unit.device, other.device) == (ONE, OTHER)
    here.close_unit(unit, ONE)
    assert not unit.is_closed
    here.close_unit(unit, ONE)
    assert (unit.is_closed, other.is_closed) == (True, False)


def test_the_figures_of_a_closed_unit_stay_whatever_comes_at_its_place_in_memory():
    here = stage()
    one, other = here.open_unit(ONE), here.open_unit(OTHER)
    one.calls, other.calls = 3, 4
    here.close_unit(one, ONE)
    del one
    assert here.statistics().figures == {"calls": {"made": 7}}
    here.close_unit(other, OTHER)
    del other
    for _ in range(10):  # one of them may well have the address of a unit that is gone
        again = here.open_unit(ONE)
        again.calls = 1
        assert here.statistics().figures == {"calls": {"made": 5}}
        here.close_unit(again, ONE)
        del again
        here._figures.pop(ONE)


def test_the_expected_wait_is_that_of_the_rows_that_are_queued():
    here = stage(is_shared=False, threads=2)
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

    here = stage(Interrupted, is_shared=False)
    units = [here.open_unit(ONE) for _ in range(2)]
    here.close()
    assert told == units
    assert caplog.text.count("node 'n0': interrupt() raised") == 2
