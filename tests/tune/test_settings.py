"""Tests of the settings that are tuned."""

from modelflow.insight.tune.settings import Settings, StageSettings
from modelflow.plan import make_plan, reconfigure_plan
from tests.runtime.graphs import chain, spec_of


def plan():
    return make_plan(chain((spec_of(), {"threads": 2, "batch_size": 4}), (spec_of(name="b"), {})))


def test_they_are_those_of_the_plan_and_what_changes_them_gives_the_others():
    before = Settings.of(plan())
    assert before.stages["n0"] == StageSettings(2, 4, 32, 0.0)
    wider = before.stages["n0"].with_batch(64, 32)
    assert wider == StageSettings(2, 64, 128, 0.0)
    after = before.with_stage("n0", wider)
    changes = before.changes_to(after)
    assert changes == {"n0.batch_size": 64, "n0.queue_size": 128}
    assert Settings.of(reconfigure_plan(plan(), changes)) == after
    assert before.changes_to(before) == {}


def test_equal_ones_are_one_key_and_the_smaller_takes_less():
    one, other = Settings.of(plan()), Settings.of(plan())
    assert len({one: 1, other: 2}) == 1
    larger = one.with_stage("n0", one.stages["n0"].with_batch(8, 32))
    assert one.size < larger.size
