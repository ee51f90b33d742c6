"""Tests of the doctor's diagnosis of a whole flow."""

import json

from modelflow.insight.doctor import Cause, diagnose
from tests.doctor.cases import case_of, node


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
        )
    )
    assert [f.cause for f in found.findings] == [Cause.ERRORS, Cause.CAPACITY]
    assert found.headroom is None


def test_figures_of_a_busy_machine_or_of_a_changing_load_are_doubted():
    found = diagnose(case_of(node("a", busy=0.2, starved=0.8), foreign=1.0))
    assert found.notes == ("other programs used 1.0 of 2 processors meanwhile",)
    found = diagnose(case_of(node("a", rows=0)))
    assert found.notes == ("no row has passed meanwhile",)


def test_it_is_told_as_json():
    found = diagnose(case_of(node("a", busy=0.98, on_core=0.02), node("b", busy=0.2, starved=0.8)))
    document = json.loads(json.dumps(found.document()))
    assert document["findings"][0]["cause"] == "capacity"
    assert document["findings"][0]["change"] == {"a.threads": 4}
    assert document["notes"] == []
