"""Tests of the options of a flow in addition to its graph."""

from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, spec_of


def test_options_reach_what_they_are_for():
    clock = FakeClock()
    graph = chain((spec_of(), {"threads": 2}), spec_of())
    options = {"clock": clock, "results_bound": 7, "watchdog_interval": 3.0}
    scheduler = Running(graph, **options).scheduler
    assert scheduler._wiring.stages["n0"].unread_bound == 7
    assert [(w.stage.plan.name, w.number) for w in scheduler._workers][:3] == [
        ("n0", 0),
        ("n0", 1),
        ("n1", 0),
    ]
    watchdog = scheduler._runner._watchdog
    assert (watchdog._interval, watchdog._clock, watchdog._flow) == (3.0, clock, "test")
