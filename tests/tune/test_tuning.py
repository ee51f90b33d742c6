"""Tests of a whole tuning with stages that wait, whose true costs do not depend on the machine."""

import re
import threading
import time

import pytest

import modelflow
from modelflow.errors import TuningError
from modelflow.insight.tune.report import html_of, summary_of
from modelflow.insight.tune.search import Goal
from modelflow.insight.tune.settings import Settings
from modelflow.insight.tune.tuning import MOST_TRIALS, Tuning

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
    assert cost.table[1] == pytest.approx(0.01, rel=0.5)
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
