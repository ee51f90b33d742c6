"""Tests of the changes to a running plan, and of the messages about impossible changes."""

from dataclasses import replace

import pytest

from modelflow.errors import ConfigError, PlanError
from modelflow.plan import make_plan, reconfigure_plan
from tests.runtime.graphs import chain, graph_of, spec_of


def plan_of(settings=None, spec=None, **more):
    plan = make_plan(chain((spec or spec_of(), settings or {}), spec_of(name="other")))
    return replace(plan, **more)


@pytest.mark.parametrize(
    ("change", "seen", "expected"),
    [
        ({"n0.threads": 5}, "threads", 5),
        ({"n0.threads": "5"}, "threads", 5),
        ({"n0.batch_size": 32}, "batch_size", 32),
        ({"n0.batch_timeout_ms": 2.5}, "batch_timeout", 0.0025),
        ({"n0.queue_size": 7}, "bounds", (7,)),
        ({"n0.queue_size_in": 7}, "bounds", (7,)),
    ],
)
def test_a_change_is_in_the_stage_and_nowhere_else(change, seen, expected):
    plan = plan_of()
    changed = reconfigure_plan(plan, change)
    assert getattr(changed.stages["n0"], seen) == expected
    assert changed.stages["n1"] is plan.stages["n1"]
    assert getattr(plan.stages["n0"], seen) != expected


def test_what_the_table_says_goes_with_it():
    row = reconfigure_plan(plan_of(), {"n0.threads": 3, "n0.queue_bytes": 100}).rows()[0]
    assert row["threads"] == "3 (changed while running)"
    assert (
        reconfigure_plan(plan_of(), {"n0.queue_bytes": 100}).stages["n0"].unit.settings.queue_bytes
    )


def test_the_queue_of_one_port_stays_as_it_was_told_where_all_change():
    plan = reconfigure_plan(plan_of(), {"n0.queue_size_in": 3})
    assert reconfigure_plan(plan, {"n0.queue_size": 9}).stages["n0"].bounds == (3,)


def test_rows_in_flight_can_be_changed_where_they_are_counted():
    assert reconfigure_plan(plan_of(max_in_flight=4), {"max_in_flight": 9}).max_in_flight == 9
    with pytest.raises(PlanError, match="max_in_flight: the flow was started without a bound"):
        reconfigure_plan(plan_of(), {"max_in_flight": 9})


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"n00.threads": 1}, ConfigError, r"n00\.threads: there is no node 'n00'; did you mean"),
        ({"n0.thread": 1}, ConfigError, r"n0\.thread: cannot be changed .*did you mean 'threads'"),
        ({"n0.cpu_affinity": "0"}, PlanError, r"n0\.cpu_affinity: cannot be changed while"),
        ({"n0.threads": 0}, ConfigError, r"n0\.threads: got 0; expected .*1"),
        ({"n0.threads": None}, ConfigError, r"n0\.threads: got no value"),
        ({"n0.batch_timeout_ms": "soon"}, ConfigError, r"n0\.batch_timeout_ms: got 'soon'"),
    ],
)
def test_what_cannot_be_is_said_exactly(change, kind, message):
    with pytest.raises(kind, match=message):
        reconfigure_plan(plan_of(), change)


def test_the_units_own_bound_of_batches_holds():
    plan = plan_of(spec=spec_of(max_batch_size=4))
    with pytest.raises(PlanError, match=r"n0\.batch_size: got 5; unit 'forward' takes at most 4"):
        reconfigure_plan(plan, {"n0.batch_size": 5})


def test_of_nodes_that_run_as_one_stage_the_first_is_named():
    light = spec_of(name="light", is_compute_bound=True)
    plan = make_plan(chain((light, {}), (light, {}), fuse="auto"))
    assert list(plan.stages) == ["n0"]
    with pytest.raises(PlanError, match=r"n1 runs on the threads of n0.*change n0\.threads"):
        reconfigure_plan(plan, {"n1.threads": 2})


def test_a_source_has_one_thread():
    graph = graph_of(
        {"source": spec_of(inputs=()), "sink": spec_of(outputs=())}, ["source -> sink"]
    )
    with pytest.raises(PlanError, match=r"source\.threads: got 2; a source has 1"):
        reconfigure_plan(make_plan(graph), {"source.threads": 2})
