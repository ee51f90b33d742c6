"""Tests of the doctor's diagnosis of a whole flow."""

import json

from modelflow.insight.doctor import Cause, diagnose
from tests.doctor.cases import case_of, node, times


def test_where_nothing_is_wrong_the_busiest_node_says_how_much_is_left():
    found = diagnose(case_of(node("a", busy=0.2, starved=0.8), node("b", busy=0.5, starved=0.5)))
    assert not found.findings
    assert (found.busiest, found.headroom) == ("b", 1.0)
    assert not found.notes


def test_a_trouble_comes_before_what_limits_and_a_node_is_named_once():
    found = diagnose(
        case_of(
            node("a", busy=0.2, starved=0.8, errors=500, failures={"ValueError": 500}),
            node("b", busy=0.99, on_core=0.02, errors=100, failures={"KeyError": 100}),
            node("c", busy=0.3, starved=0.7),
        )
    )
    assert [(f.node, f.cause) for f in found.findings] == [("a", Cause.ERRORS), ("b", Cause.ERRORS)]
    found = diagnose(
        case_of(
            node("a", busy=0.2, starved=0.8, errors=500, failures={"ValueError": 500}),
            node("b", busy=0.99, on_core=0.02),
            is_driven=True,
        )
    )
    assert [f.cause for f in found.findings] == [Cause.ERRORS, Cause.CAPACITY]
    assert found.headroom is None


def test_figures_of_a_busy_machine_or_of_a_changing_load_are_doubted():
    found = diagnose(case_of(node("a", busy=0.2, starved=0.8), foreign=1.0))
    assert found.notes == ("other programs used 1.0 of 2 processors meanwhile",)
    found = diagnose(case_of(node("a", rows=0)))
    assert (found.is_idle, found.sentence) == (True, "idle: no row has passed")


def test_it_is_told_as_json():
    nodes = node("a", busy=0.98, on_core=0.02), node("b", busy=0.2, starved=0.8)
    found = diagnose(case_of(*nodes, is_driven=True))
    document = json.loads(json.dumps(found.document()))
    assert document["findings"][0]["cause"] == "capacity"
    assert document["findings"][0]["change"] == {"a.threads": 4}
    assert document["notes"] == []


def test_a_flow_that_holds_its_source_back_by_nothing_is_well_however_busy_it_is():
    full = node("a", busy=0.97, on_core=0.02, queue=1)
    camera = node("camera", source=True, busy=0.97)
    assert not diagnose(case_of(camera, full)).findings
    held = node("camera", source=True, busy=0.3, blocked=0.7)
    assert diagnose(case_of(held, full)).findings[0].cause == Cause.CAPACITY


def test_requests_that_wait_longer_than_a_call_lasts_show_that_a_node_is_short():
    busy = {"busy": 0.95, "starved": 0.05, "on_core": 0.02, "service": times(ms4=100)}
    waiting, calm = (node("a", **busy, wait=times(**{wait: 100})) for wait in ("ms40", "ms1"))
    assert diagnose(case_of(waiting)).findings[0].node == "a"
    assert not diagnose(case_of(calm)).findings


def test_other_programs_come_first_and_the_own_limit_second():
    nodes = node("a", threads=2, busy=0.98, on_core=0.4, runnable=0.57), node("b", busy=0.1)
    (found,) = diagnose(case_of(*nodes, is_driven=True, cores=0.8, foreign=1.2)).findings
    assert (found.cause, found.change, found.confidence) == (Cause.FOREIGN_LOAD, {}, "high")
    assert "look again on a quiet machine" in found.second
    asleep = node("a", threads=2, busy=0.98, on_core=0.02)
    (found,) = diagnose(case_of(asleep, is_driven=True, cores=0.1, foreign=1.2)).findings
    assert (found.cause, found.confidence) == (Cause.CAPACITY, "low")
