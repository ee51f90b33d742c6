"""Tests of the running of each kind of unit, as a value."""

from types import SimpleNamespace

import pytest

from modelflow.config.node_settings import NodeSettings
from modelflow.plan import UnitPlan
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.kinds import chain, normal, running_kind
from modelflow.runtime.kinds.source import SourceWorker
from modelflow.runtime.orders.fair import Fair
from modelflow.runtime.orders.fifo import Fifo
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.stages.kind import in_turn
from modelflow.unit.kind import Collapse, Condition, Expand, Loop, Normal, Source, Stream
from tests.runtime.graphs import spec_of


@pytest.mark.parametrize(
    "kind", [Normal(), Source(), Stream(), Condition(), Expand(), Collapse(), Loop()], ids=str
)
def test_every_kind_of_unit_runs_in_one_way(kind):
    outputs = ("back", "exit") if isinstance(kind, Loop) else ("out",)
    inputs = () if isinstance(kind, Source) else ("in",)
    spec = spec_of(kind=kind, inputs=inputs, outputs=outputs)
    assert running_kind([UnitPlan("n", spec)]).call is not None


def test_a_source_runs_as_a_source():
    assert running_kind([UnitPlan("n", spec_of(inputs=()))]).worker is SourceWorker


def test_several_normal_units_run_as_a_chain():
    units = [UnitPlan(node, spec_of()) for node in "abc"]
    assert [running_kind(units[:count]) for count in (1, 2, 3)] == [
        normal.KIND,
        chain.KIND,
        chain.KIND,
    ]


@pytest.mark.parametrize(("split_size", "order"), [(0, Fifo), (2, Fair)])
def test_sessions_take_turns_where_the_node_splits(split_size, order):
    plan = SimpleNamespace(unit=SimpleNamespace(settings=NodeSettings(split_size=split_size)))
    policy = InboxPolicy((4, 4))
    found = in_turn(policy, 2, plan, SYSTEM_CLOCK)
    assert (type(found), found._policy, found._width) == (order, policy, 2)
    assert getattr(found, "_split_size", 0) == split_size
