"""Tests of the sentence about a flow that a page shows."""

from dataclasses import replace

from modelflow.insight.doctor import Cause, Diagnosis, Finding
from modelflow.studio.verdict import LOOKING, SteadyVerdict, Verdict, verdict_of
from tests.studio.moments import moment

GOOD = Verdict("nothing is wrong: a could do 10% more", "a", "good")
SLOW = Verdict("b: capacity: busy 90%", "b", "finding", "--set b.threads=2", "capacity")
OTHER = Verdict("c: capacity: busy 91%", "c", "finding", "--set c.threads=2", "capacity")


def test_a_node_that_does_not_come_back_is_not_called_idle():
    before, after = (moment(second, rows=40) for second in (1.0, 9.0))
    stuck = replace(after.stats["infer"], busy=after.stats["infer"].busy + 8.0, starved=0.0)
    stats = replace(after.stats, nodes={**after.stats.nodes, "infer": stuck})
    verdict = verdict_of([before, replace(after, stats=stats)])
    assert (verdict.node, "in the middle of a call" in verdict.text) == ("infer", True)


def test_a_flow_to_which_nothing_comes_is_idle():
    verdict = verdict_of([moment(1.0, rows=40), moment(9.0, rows=40)])
    assert (verdict.level, verdict.node) == ("idle", "")


def test_the_doctors_first_finding_is_the_verdict_with_its_change():
    before = moment(1.0)
    after = moment(9.0, rows=800, errors=600, failures={"ValueError": 600}, last_error="a.jpg: no")
    verdict = verdict_of([before, after])
    assert (verdict.level, verdict.node, verdict.cause) == ("finding", "decode", "errors")
    assert verdict.text.startswith("decode: errors: ")


def test_a_flow_that_keeps_up_says_how_much_is_left():
    verdict = verdict_of([moment(1.0), moment(9.0, rows=800)])
    assert verdict.level == "good"
    assert "is the busiest node" in verdict.text


def test_one_moment_is_too_little_for_a_verdict():
    assert verdict_of([moment(4.0, rows=40)]) == LOOKING


def test_another_verdict_is_shown_only_once_it_was_right_for_ten_seconds():
    steady = SteadyVerdict()
    assert steady.take(LOOKING, 0.0) == LOOKING
    assert steady.take(GOOD, 1.0) == GOOD
    for second in range(2, 12):
        shown = steady.take(SLOW, float(second))
        assert (shown.text, shown.runner_up) == (GOOD.text, SLOW.text)
    assert steady.take(SLOW, 12.0) == SLOW


def test_a_verdict_that_comes_and_goes_is_never_shown():
    steady = SteadyVerdict()
    steady.take(GOOD, 0.0)
    for second in range(1, 600):
        found = SLOW if second % 9 < 8 else GOOD
        assert steady.take(found, float(second)).level == "good"


def test_a_verdict_that_is_never_right_again_gives_way_although_two_others_alternate():
    steady = SteadyVerdict()
    steady.take(GOOD, 0.0)
    shown = [steady.take((SLOW, OTHER)[second // 7 % 2], float(second)) for second in range(1, 600)]
    assert [one.level for one in shown[:29]] == 29 * ["good"]
    assert {one.node for one in shown[29:]} == {shown[29].node}


def test_idle_gives_way_at_once_and_comes_back_after_ten_seconds():
    idle = Verdict("idle: nothing has come in")
    steady = SteadyVerdict()
    assert steady.take(idle, 0.0) == idle
    assert steady.take(SLOW, 0.5) == SLOW
    assert steady.take(idle, 1.0).text == SLOW.text
    assert steady.take(idle, 10.5).text == SLOW.text
    assert steady.take(idle, 11.0) == idle


def test_the_same_opinion_with_other_figures_is_shown_at_once():
    steady = SteadyVerdict()
    steady.take(SLOW, 0.0)
    later = replace(SLOW, text="b: capacity: busy 97%")
    assert steady.take(later, 1.0) == later
    busiest = replace(GOOD, node="b", text="nothing is wrong: b could do 9% more")
    steady = SteadyVerdict()
    steady.take(GOOD, 0.0)
    assert steady.take(busiest, 1.0) == busiest


def test_a_machine_that_others_use_is_no_fault_of_the_flow(monkeypatch):
    finding = Finding("infer", Cause.FOREIGN_LOAD, "other programs have the processors")
    monkeypatch.setattr(
        "modelflow.studio.verdict.diagnose", lambda case: Diagnosis((finding,), None, "", ())
    )
    verdict = verdict_of([moment(1.0), moment(9.0, rows=800)])
    assert (verdict.level, verdict.node, verdict.cause) == ("idle", "", "foreign load")
