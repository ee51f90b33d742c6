"""Tests of the notifications from a worker to its owner."""

import pytest

from modelflow.plan import make_plan
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.flow_state import SchedulerOptions
from modelflow.runtime.wiring import Wiring
from modelflow.runtime.workers.worker import Worker
from tests.runtime.graphs import chain, unit_of


class Owner:
    """Records its notifications; every stage counts as open at once."""

    is_draining = is_watched = False

    def __init__(self):
        self.told = []
        self.wiring = None

    def on_open(self):
        self.told.append("opened")

    def wait_until_all_open(self):
        self.told.append("asked")
        self.wiring.close()  # the worker has nothing to do
        return True

    def on_begin(self):
        self.told.append("begun")

    def on_failure(self, error):
        self.told.append((error.phase, str(error.__cause__)))


def fail(*_):
    raise OSError("gone")


@pytest.mark.parametrize(
    ("hooks", "told"),
    [
        ({}, ["opened", "asked", "begun"]),
        ({"open": fail}, [("open", "gone")]),
        ({"close": fail}, ["opened", "asked", "begun", ("close", "gone")]),
    ],
)
def test_a_worker_tells_its_owner_how_it_fares(hooks, told):
    owner = Owner()
    owner.wiring = Wiring(make_plan(chain(unit_of(None, hooks=hooks))), SchedulerOptions())
    Worker(owner.wiring.stages["n0"], 0, owner, SYSTEM_CLOCK).main()
    assert owner.told == told
