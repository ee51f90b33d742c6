"""Tests of experiments on a running flow, whose rate follows a formula."""

import pytest

import modelflow
from modelflow.errors import FlowFailed, PlanError, StreamClosed
from modelflow.insight.doctor import Cause
from modelflow.insight.doctor.experiments import Laboratory
from modelflow.runtime.stats import FlowStats, NodeStats


class Flow:
    """A flow whose rate is a function of its settings, on a clock that the waits turn."""

    def __init__(self, rate, *, most_threads=64, refusals=()):
        self.settings = {"a.threads": 1}
        self.is_running = True
        self.changes = []
        self._rate, self._most = rate, most_threads
        self._refusals = dict(refusals)  # number of a change -> its error
        self._now = self._rows = 0.0

    @property
    def scheduler(self):
        return self

    @property
    def plan(self):
        return self

    @property
    def stages(self):
        return {"a": self}

    @property
    def threads(self):
        return self.settings["a.threads"]

    def reconfigure(self, changes):
        if changes["a.threads"] > self._most:
            raise PlanError("too many")
        self.changes.append(dict(changes))
        if len(self.changes) in self._refusals:
            raise self._refusals[len(self.changes)]
        self.settings.update(changes)

    def wait(self, seconds):
        self._now += seconds
        self._rows += seconds * self._rate(self.threads)
        return False

    def stats(self):
        node = NodeStats("a", "a", buffers=int(self._rows), batches=int(self._rows))
        return FlowStats(time=self._now, nodes={"a": node})


STEPS = [{"a.threads": threads} for threads in (2, 4, 8, 16)]


def tried(flow, steps=STEPS, wait=None):
    laboratory = Laboratory(flow, "a", wait or flow.wait)
    return laboratory.try_steps(Cause.CAPACITY, steps), laboratory


def test_stronger_changes_are_tried_while_they_gain_and_the_least_of_the_best_is_chosen():
    flow = Flow(lambda threads: 100.0 * min(threads, 4))
    found, _ = tried(flow)
    assert found.change == {"a.threads": 4}
    assert found.gain == pytest.approx(3.0, rel=0.02)
    assert found.is_gain
    assert [one["a.threads"] for one in flow.changes] == [2, 4, 8, 1]


def test_a_change_without_gain_is_tried_once_and_taken_back():
    flow = Flow(lambda threads: 100.0)
    found, _ = tried(flow)
    assert not found.is_gain
    assert [one["a.threads"] for one in flow.changes] == [2, 1]


def test_a_small_gain_is_measured_twice_and_the_smaller_one_counts():
    rates = iter([100, 100, 115, 115, 100, 100, 101, 101, 100, 100])
    flow = Flow(lambda threads: float(next(rates)))
    found, _ = tried(flow, STEPS[:1])
    assert [one["a.threads"] for one in flow.changes] == [2, 1, 2, 1]
    assert not found.is_gain


def test_a_change_that_is_refused_is_a_note_and_the_flow_goes_on_as_it_was():
    flow = Flow(lambda threads: 100.0 * threads, most_threads=2)
    found, laboratory = tried(flow)
    assert found.change == {"a.threads": 2}
    assert laboratory.notes == ["could not be tried: too many"]
    assert flow.threads == 1


def test_the_end_of_the_load_ends_the_experiment_with_the_settings_of_before():
    flow = Flow(lambda threads: 100.0)

    def wait(seconds):
        flow.wait(seconds)
        return flow.threads == 2

    found, laboratory = tried(flow, wait=wait)
    assert found is None
    assert laboratory.is_over
    assert flow.threads == 1


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_flow_that_ends_during_a_change_ends_the_experiment(number):
    rates = iter([100, 100, 115, 115, 100, 100, 115, 115, 100, 100])
    flow = Flow(lambda _: float(next(rates)), refusals={number: StreamClosed("it is stopping")})
    found, laboratory = tried(flow, STEPS[:1])
    assert laboratory.notes == []
    assert (found is None) == laboratory.is_over == (number in (1, 3))


def test_a_unit_that_does_not_open_again_leaves_the_first_measurement():
    rates = iter([100, 100, 115, 115, 100, 100, 100, 100])
    failed = FlowFailed("node 'a' goes on with 1 threads", [ValueError("in use")])
    flow = Flow(lambda _: float(next(rates)), refusals={3: failed})
    found, laboratory = tried(flow, STEPS[:1])
    assert found.gain == pytest.approx(0.15, rel=0.1)
    assert laboratory.notes == [f"could not be tried: {failed}"]


def test_without_rows_nothing_is_tried_and_a_note_says_so():
    flow = Flow(lambda threads: 0.0)
    found, laboratory = tried(flow)
    assert found is None
    assert laboratory.notes == ["no row passed a, so no change was tried"]
    assert flow.changes == []


@modelflow.flowunit(batched=True)
def through(values):
    return values


def test_all_that_later_steps_change_is_taken_back_and_can_be_changed_again():
    graph = """digraph changed { fuse=off input [type=input] output [type=output]
        a [flowunit=through, threads=1, batch_size=1] input -> a -> output }"""
    with modelflow.Flow(graph, units=[through]) as flow:
        before = flow.scheduler.plan.stages["a"]

        def wait(_):
            for _ in range(16 * flow.scheduler.plan.stages["a"].batch_size):  # larger ones gain
                flow.infer(1)
            return False

        steps = [{"a.batch_size": 4}, {"a.batch_size": 64, "a.queue_size": 128}]
        told = []
        Laboratory(flow, "a", wait, told.append).try_steps(Cause.SMALL_BATCH, steps)
        after = flow.scheduler.plan.stages["a"]
        assert (after.batch_size, after.bounds) == (before.batch_size, before.bounds)
        flow.reconfigure({"a.queue_size": 7})
        assert flow.scheduler.plan.stages["a"].bounds == (7,)
