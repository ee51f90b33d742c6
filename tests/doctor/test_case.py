"""Tests of the doctor's evidence."""

import pytest

from modelflow.insight.doctor import Case
from modelflow.profile.snapshot import Snapshot
from modelflow.runtime.stats import FlowStats
from tests.doctor.cases import case_of, node


def test_the_time_in_calls_is_split_by_what_the_system_says():
    (stage,) = case_of(
        node("a", threads=2, busy=0.8, starved=0.2, on_core=0.2, runnable=0.2)
    ).stages
    first = stage.first
    # Of 20 s, 4 were rests, 4 on a processor, and 4 runnable; the other 8 were waits in calls.
    assert (first.running, first.runnable, first.waiting) == pytest.approx((0.25, 0.25, 0.5))
    assert stage.cores == pytest.approx(0.25 * 0.8 * 2)
    assert not stage.is_computing


def test_calls_on_the_threads_of_others_are_no_waiting():
    (stage,) = case_of(node("a", busy=0.5, starved=0.4, on_core=0.1, lent=5.0)).stages
    assert stage.first.waiting == 0.0
    (alone,) = case_of(node("a", busy=0.5, lent=5.0, on_core=0.1)).stages
    assert (alone.first.running, alone.first.runnable, alone.first.waiting) == (0.0, 0.0, 0.0)


def test_fused_nodes_are_one_stage_whose_shares_add_up():
    case = case_of(
        node("a", busy=0.3, starved=0.1, on_core=0.9, stage="a", calls={1: (9, 0.9), 4: (9, 1.8)}),
        node("b", busy=0.5, stage="a", calls={1: (9, 0.9), 4: (9, 1.8)}),
    )
    (stage,) = case.stages
    assert stage.busy == pytest.approx(0.8)
    assert stage.occupied == pytest.approx(0.9)
    assert (stage.name, stage.heaviest.node) == ("a", "b")
    assert stage.service_time is not None
    assert stage.service_time.seconds(4) == pytest.approx(0.4)
    assert case.limiting is stage


def test_what_limits_next_is_the_busiest_other_or_the_processors():
    busy, other = node("a", busy=0.9, on_core=0.9), node("b", busy=0.3, starved=0.7)
    case = case_of(busy, other, cores=1.0)
    limit, name = case.next_limit(case.stages[0])
    assert (limit, name) == (2.0, "the 2 processors")
    case = case_of(busy, node("b", busy=0.6, starved=0.4), cores=1.0)
    limit, name = case.next_limit(case.stages[0])
    assert (round(limit, 3), name) == (round(1.0 / 0.6, 3), "b (busy 60%)")


def test_of_a_lone_snapshot_the_machine_is_unknown():
    whole = case_of(node("a", busy=0.5))
    assert (whole.cores, whole.foreign) == (0.5, 0.0)
    assert Case.between(None, _last(node("a", busy=0.5))).cores is None


def _last(one):
    from modelflow.profile.snapshot import Snapshot
    from modelflow.runtime.stats import FlowStats

    stats, row = one
    return Snapshot(FlowStats("f", 60.0, 20.0, {"a": stats}), (row,), {"processors": 2}, {})


def test_what_engines_compute_is_theirs_for_whom_they_do_it():
    case = case_of(
        node("a", busy=1.0, on_core=0.05),
        node("b", busy=0.25, on_core=0.25),
        cores=1.9,
        native=1.5,
    )
    model, other = case.stages
    assert (model.engine, other.engine) == (pytest.approx(1.5), pytest.approx(0.0, abs=1e-6))
    assert model.is_computing
    assert model.computing == 1.0
    assert model.wanted == pytest.approx(1.55)
    assert case.next_limit(model)[1] == "the 2 processors"


def test_shares_of_a_server_with_several_processes_are_their_mean():
    def snapshot(time, full, collecting):
        stats = FlowStats("f", time, time, admission={"bound": 8, "full": full})
        figures = {"processes": 1.0, "collection_seconds": collecting}
        return Snapshot(stats, (), {"processors": 2}, figures)

    first = snapshot(10.0, 1.0, 1.0) + snapshot(10.0, 0.0, 0.0)
    ended = snapshot(9.0, 5.0, 5.0).past
    second = snapshot(20.0, 11.0, 3.0) + snapshot(20.0, 6.0, 2.0)
    for case in (Case.between(first, second), Case.between(first + ended, second + ended)):
        assert case.full == pytest.approx(0.8)
        assert case.collecting == pytest.approx(0.2)
        assert case.max_in_flight == 8


def test_a_node_on_the_threads_of_its_callers_is_at_work_while_it_is_called():
    (stage,) = case_of(node("a", busy=0.24, starved=0.0)).stages
    assert stage.occupied == pytest.approx(0.24)
