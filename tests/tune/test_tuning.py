"""Tests of a whole tuning with stages that wait, whose true costs do not depend on the machine."""

import re
import threading
import time

import pytest

import modelflow
from modelflow.errors import TuningError
from modelflow.insight.load.options import LoadOptions
from modelflow.insight.load.report import LoadReport, Sample
from modelflow.insight.tune.report import html_of, summary_of
from modelflow.insight.tune.search import Goal
from modelflow.insight.tune.settings import Settings
from modelflow.insight.tune.simulate import Outcome
from modelflow.insight.tune.tuning import MOST_TRIALS, Tuning, latency_of, scales_of
from tests.doctor.cases import case_of, node

GRAPH = """digraph tuned { fuse=off input [type=input] work [threads=THREADS, batch_size=1]
    output [type=output] input -> work -> output }"""
ROWS = [{"input": 1}]


@modelflow.flowunit(max_batch_size=4)
def work(value):
    time.sleep(0.01)
    return value


def tuned(threads=1, goal=None, **more):
    text = GRAPH.replace("THREADS", str(threads))
    with modelflow.Flow(text, units=[work]) as flow:
        before = Settings.of(flow.scheduler.plan)
        report = Tuning(flow, ROWS, goal or Goal(), clients=8, seconds=0.2, **more).run()
        assert Settings.of(flow.scheduler.plan) == before
        assert flow.infer(3).data == 3
    return report


def test_a_stage_that_waits_gets_threads_and_the_flow_stays_as_it_was():
    told = []
    report = tuned(told=told.append)
    assert report.changes["work.threads"] >= 4
    assert report.gain > 1.0
    assert len(report.before) == len(report.after) == 2
    assert len({trial.settings for trial in report.tried}) <= MOST_TRIALS
    cost = report.costs["work"]
    assert cost.visits == 1.0
    assert cost.table[1] > 0
    assert re.fullmatch(r"measuring: rows of a request \(at most \d+ s left\)", told[0])
    assert any("measuring: work with 2 threads" in line for line in told)
    assert any(line.startswith("trial 2 of at most 8 (at most ") for line in told)
    assert any(line.startswith("comparison 4 of 4 (at most ") for line in told)
    assert summary_of(report).startswith("The rate is +")
    assert report.tried[0].settings.name_changes(report.tried[0].settings) == "as it is"
    page = html_of(report, "a <graph>", "--- a\n+++ b\n")
    assert "<h1>a &lt;graph&gt;</h1>" in page
    assert page.count("<circle") == 4
    assert "http" not in page  # it needs nothing else


def tuned_unit(seconds, goal=None, told=lambda _: None, **more):
    """Tunes a stage whose calls take ``seconds(rows)``, with eight clients."""

    @modelflow.flowunit(batched=True)
    def work(values):
        seconds(len(values))
        return values

    text = GRAPH.replace("THREADS", "1")
    with modelflow.Flow(text, units=[work]) as flow:
        return Tuning(flow, ROWS, goal or Goal(), 8, 0.2, told=told, **more).run()


def test_calls_that_run_one_at_a_time_are_measured():
    device = threading.Lock()

    def seconds(rows):
        with device:
            time.sleep(0.01 * rows)

    report = tuned_unit(seconds)
    assert report.costs["work"].at_once == pytest.approx(1.0, rel=0.3)


def test_a_model_behind_a_slower_stage_gets_a_batch_that_was_never_seen_there():
    device = threading.Lock()

    @modelflow.flowunit(batched=True)
    def slow(values):
        time.sleep(0.02 * len(values))
        return values

    @modelflow.flowunit(batched=True)
    def model(values):
        with device:
            time.sleep(0.02 + 0.0005 * len(values))
        return values

    text = """digraph behind { fuse=off input [type=input] slow [threads=1, batch_size=1]
        model [threads=1, batch_size=1] output [type=output] input -> slow -> model -> output }"""
    with modelflow.Flow(text, units=[slow, model]) as flow:
        report = Tuning(flow, ROWS, Goal(), clients=16, seconds=0.2).run()
    assert report.changes["slow.threads"] >= 4
    assert report.changes["model.batch_size"] >= 4
    assert "model.threads" not in report.changes
    assert report.gain > 2.0


def test_a_wrong_simulation_is_corrected_and_the_search_goes_on():
    late = threading.Event()

    def seconds(rows):
        time.sleep(0.04 if late.is_set() else 0.01)

    def told(line):  # from the second trial on, calls take longer than they were measured
        if line.startswith("trial 2"):
            late.set()

    report = tuned_unit(seconds, told=told)
    second = report.tried[1]
    assert second.predicted.rate > 1.5 * second.rate
    assert len({trial.settings for trial in report.tried}) > 2
    later = report.tried[-1]
    assert later.predicted.rate == pytest.approx(later.rate, rel=0.5)


def test_a_measurement_that_no_simulation_explains_is_tried(monkeypatch):
    same = Outcome(100.0, Sample([0.01]))
    monkeypatch.setattr("modelflow.insight.tune.tuning.simulate", lambda *_, **__: same)
    assert tuned().changes["work.threads"] > 1


def test_a_bound_that_no_settings_keep_is_told_with_the_nearest_settings():
    report = tuned(goal=Goal(99, 0.001))
    assert (report.changes, report.after) == ({}, ())
    assert report.nearest.latency < report.tried[0].latency
    assert re.fullmatch(
        r"No settings keep p99 at 1 ms under this load. "
        r"The nearest settings give a p99 of [\d. to]+ ms: work.*\.",
        summary_of(report),
    )
    assert any(
        note.startswith("the present settings break the bound: p99 is") for note in report.notes
    )


def test_a_bound_that_the_changed_settings_keep_is_met():
    report = tuned(goal=Goal(50, 0.05))
    assert report.nearest is None
    assert any("break the bound: p50 is" in note for note in report.notes)
    assert report.changes["work.threads"] > 1


def test_a_rate_that_no_settings_answer_is_told():
    report = tuned(goal=Goal(99, None, 5000.0))
    assert re.fullmatch(
        r"5000 requests a second cannot be answered; the best settings answer [\d.]+ a second: .*",
        summary_of(report),
    )


def test_a_short_time_ends_the_trials():
    report = tuned(limit=0.5)
    assert [trial.settings for trial in report.tried] == [report.before[0].settings]
    assert not report.changes


@pytest.mark.parametrize(
    ("predicted", "measured", "cores", "scales"),
    [
        (110.0, 100.0, 0.5, {}),  # near enough
        (200.0, 100.0, 0.5, {"a": 2.0}),
        (50.0, 100.0, 0.5, {"a": 0.5}),
        (900.0, 100.0, 0.5, {"a": 4.0}),
        (200.0, 100.0, 2.0, {"b": 2.0}),  # the processors are full, and only b computes
        (200.0, 0.0, 0.5, {}),
    ],
)
def test_a_trial_corrects_the_cost_of_the_limit(predicted, measured, cores, scales):
    stages = [node("a", busy=0.98, on_core=0.1), node("b", busy=0.6, on_core=0.5)]
    case = case_of(*stages, cores=cores)
    assert scales_of(case, predicted, measured) == scales


def test_what_is_fixed_stays_and_then_nothing_is_better():
    report = tuned(fixed=frozenset({"work"}))
    assert (report.changes, report.after, report.gain) == ({}, (), 0.0)
    assert summary_of(report).startswith("No settings were found")
    assert "nothing: no settings are better" in html_of(report, "g", "")


def test_a_bound_of_the_latency_is_kept():
    report = tuned(goal=Goal(50, 0.5))
    assert all(trial.latency <= 0.5 for trial in report.after)


def test_fused_stages_stay_and_that_is_said():
    @modelflow.flowunit(is_compute_bound=True)
    def light(value):
        return value

    text = """digraph fused { input [type=input] a [flowunit=light] b [flowunit=light]
        output [type=output] input -> a -> b -> output }"""
    with modelflow.Flow(text, units=[light]) as flow:
        report = Tuning(flow, ROWS, Goal(), clients=2, seconds=0.2).run()
    assert report.notes[0] == "a + b run as one stage, which stays as it is"
    assert not report.changes


def test_requests_that_fail_are_no_load():
    @modelflow.flowunit
    def failing(value):
        message = "never"
        raise ValueError(message)

    text = """digraph failing { input [type=input] failing output [type=output]
        input -> failing -> output }"""
    with (
        modelflow.Flow(text, units=[failing]) as flow,
        pytest.raises(TuningError, match=r"none of \d+ requests succeeded"),
    ):
        Tuning(flow, ROWS, Goal(), seconds=0.2).run()


def test_it_can_be_stopped_from_another_thread():
    with modelflow.Flow(GRAPH.replace("THREADS", "1"), units=[work]) as flow:
        began = threading.Event()
        tuning = Tuning(flow, ROWS, Goal(), clients=4, seconds=600.0, told=lambda _: began.set())

        def stop():
            assert began.wait(60)
            tuning.stop()

        stopper = threading.Thread(target=stop)
        stopper.start()
        with pytest.raises(TuningError, match="was stopped"):
            tuning.run()
        stopper.join()
        assert Settings.of(flow.scheduler.plan).stages["work"].threads == 1


@pytest.mark.parametrize(
    ("latencies", "outcomes", "expected"),
    [
        ([0.1, 0.2], {"ok": 2}, 0.2),
        ([0.1, 0.2], {"ok": 2, "ValueError": 1}, 0.2),
        ([0.1, 0.2], {"ok": 2, "timed out": 1}, 30.0),
        ([], {"timed out": 3}, 30.0),
        ([], {"ValueError": 3}, 30.0),
        ([], {}, 30.0),  # every request of the warm-up is still in flight at the end
    ],
)
def test_requests_without_a_reply_are_not_fast(latencies, outcomes, expected):
    options = LoadOptions(clients=2, seconds=1.0)
    report = LoadReport("a", options, 1.0, 1.0, 0, outcomes, Sample(latencies), Sample(), ())
    assert latency_of(report, 99.0) == expected
