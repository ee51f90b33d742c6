"""Tests of unit instances: sharing, closing, and counters."""

import pytest

from modelflow.device import Device
from modelflow.plan import make_plan
from modelflow.runtime.stages.executors.process_unit import ProcessUnit
from modelflow.runtime.stages.instances import OpeningInterrupted, UnitInstances
from modelflow.unit.unit import FlowUnit
from tests.runtime.graphs import chain, spec_of

ONE, OTHER = Device("cpu", 0), Device("cpu", 1)


class Counting(FlowUnit):
    """Counts its own calls, and records its closing."""

    def __init__(self):
        self.calls = 0
        self.is_closed = False

    def figures(self):
        return {"calls": {"made": self.calls}}

    def close(self):
        self.is_closed = True


def instances(make=Counting, **settings):
    spec = spec_of(make, is_shared=settings.pop("is_shared", True))
    plan = make_plan(chain((spec, settings))).stages["n0"]
    return UnitInstances(plan.unit, plan.batch_size, plan.executor)


def test_a_shared_unit_is_one_a_device_and_is_closed_when_its_last_worker_is_done():
    here = instances()
    unit = here.open(ONE)
    assert here.open(ONE) is unit
    other = here.open(OTHER)
    assert other is not unit
    assert (unit.device, other.device) == (ONE, OTHER)
    here.close(unit, ONE)
    assert not unit.is_closed
    here.close(unit, ONE)
    assert (unit.is_closed, other.is_closed) == (True, False)


def test_the_figures_of_a_closed_unit_stay_whatever_comes_at_its_place_in_memory():
    here = instances()
    one, other = here.open(ONE), here.open(OTHER)
    one.calls, other.calls = 3, 4
    here.close(one, ONE)
    del one
    assert here.figures() == {"calls": {"made": 7}}
    here.close(other, OTHER)
    del other
    for number in range(10):  # a new unit may have the address of a deleted unit
        again = here.open(ONE)
        again.calls = 1
        assert here.figures() == {"calls": {"made": 8 + number}}
        here.close(again, ONE)
        del again


def test_the_figures_of_all_workers_are_summed_for_a_unit_that_is_not_shared():
    here = instances(is_shared=False)
    one, other = here.open(ONE), here.open(ONE)
    one.calls, other.calls = 3, 4
    assert here.figures() == {"calls": {"made": 7}}
    here.close(one, ONE)
    assert here.figures() == {"calls": {"made": 7}}


def test_a_unit_knows_what_was_planned_before_it_opens():
    seen = []

    class Looking(FlowUnit):
        def open(self, config):
            seen.append((self.device, self.batch_size, self.allowed_batch_sizes, config))

    spec = spec_of(Looking, is_shared=True)
    plan = make_plan(chain((spec, {"allowed_batch_sizes": (2, 4)}))).stages["n0"]
    here = UnitInstances(plan.unit, plan.batch_size, plan.executor)
    here.open(OTHER)
    assert seen == [(OTHER, 4, (2, 4), plan.unit.config)]


def test_a_unit_that_is_not_shared_has_an_instance_for_each_that_asks():
    here = instances(is_shared=False)
    assert here.open(OTHER) is not here.open(OTHER)


def test_shared_units_are_reloaded_and_tell_of_their_tensors():
    told = []

    class Shared(FlowUnit):
        def reload(self):
            told.append(self.device)

        def tensors(self):
            return {"in": "a spec"}

    here = instances(Shared)
    with pytest.raises(NotImplementedError, match="unit 'forward' has nothing to reload"):
        here.reload()
    assert here.tensor("in") is None
    for device in (ONE, OTHER):
        here.open(device)
    here.reload()
    assert told == [ONE, OTHER]
    assert here.tensor("in") == "a spec"
    assert here.tensor("out") is None


@pytest.mark.parametrize(
    ("is_interrupted", "can_be", "raised"),
    [(True, True, OpeningInterrupted), (True, False, OSError), (False, True, OSError)],
)
def test_an_opening_is_given_up_only_where_the_unit_was_told(is_interrupted, can_be, raised):
    class Opening(FlowUnit):
        def open(self, config):
            if is_interrupted:
                here.interrupt()
            raise OSError("no model")

    class Told(Opening):
        def interrupt(self):
            pass

    here = instances(Told if can_be else Opening)
    with pytest.raises(raised) as caught:
        here.open(ONE)
    error = caught.value.__cause__ if raised is OpeningInterrupted else caught.value
    assert str(error) == "no model"


def test_every_instance_is_interrupted_also_one_that_opens():
    told = []

    class Interrupted(FlowUnit):
        def open(self, config):
            if len(told) == 1:
                here.interrupt()
            told.append("open")

        def interrupt(self):
            told.append("interrupt")
            raise OSError("gone")

    here = instances(Interrupted, is_shared=False)
    here.open(ONE)
    here.open(ONE)
    assert told == ["open", "interrupt", "interrupt", "open"]


def test_a_unit_in_a_process_knows_its_node():
    plan = make_plan(chain(spec_of())).stages["n0"]
    unit = UnitInstances(plan.unit, 1, "process")._make(ONE)
    assert isinstance(unit, ProcessUnit)
    assert (unit._spec, unit._node) == (plan.unit.spec, "n0")
