"""Tests of the neighbours that may run as one stage, and of the resulting stage."""

import pytest

from modelflow.errors import PlanError
from modelflow.plan import Target, make_plan
from modelflow.unit.kind import Condition, Expand, Stream
from tests.runtime.graphs import chain, graph_of, spec_of

ONE = {"threads": 1, "batch_size": 4, "fuse": "a"}


def plan_of(*settings, **more):
    return make_plan(chain(*((spec_of(name=f"u{n}"), s) for n, s in enumerate(settings)), **more))


def test_neighbours_of_the_same_name_are_one_stage_at_the_place_of_the_first():
    plan = plan_of({}, ONE, ONE, ONE, {})
    assert list(plan.stages) == ["n0", "n1", "n4"]
    stage = plan.stages["n1"]
    assert stage.nodes == ("n1", "n2", "n3")
    assert stage.routes == ((Target("n4", 0),),)
    assert stage.unit.inputs == ("in",)
    assert plan.stages["n0"].routes == ((Target("n1", 0),),)
    assert plan.nodes["n3"] is stage


def test_two_names_are_two_stages():
    plan = plan_of(ONE, ONE, {**ONE, "fuse": "b"}, {**ONE, "fuse": "b"})
    assert [stage.nodes for stage in plan.stages.values()] == [("n0", "n1"), ("n2", "n3")]


def test_the_queue_is_that_of_the_first_node():
    stage = plan_of({**ONE, "queue_size": 5, "batch_timeout_ms": 2.0}, ONE).stages["n0"]
    assert (stage.bounds, stage.batch_timeout) == ((5,), 0.002)


def test_the_table_has_a_row_for_each_node():
    rows = plan_of(ONE, ONE).rows()
    assert [(row["node"], row["threads"], row["queue"], row["feeds"]) for row in rows] == [
        ("n0", "1 (as the node says)", "in 32", "n1"),
        ("n1", "on those of n0 (fuse=a)", "-", "output"),
    ]


def test_the_inputs_of_the_second_are_found_whatever_their_order():
    two = spec_of(outputs=("left", "right"))
    join = spec_of(inputs=("a", "b"), outputs=("out",))
    graph = graph_of(
        {"input": "input", "two": (two, ONE), "join": (join, ONE), "output": "output"},
        ["input -> two", "two:left -> join:b", "two:right -> join:a", "join -> output"],
    )
    (stage,) = make_plan(graph).stages.values()
    assert stage.units[1].sources == (1, 0)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"threads": 2}, {"threads": 3}, "threads differ: 2 and 3; say the same for both"),
        ({"batch_size": 1}, {"batch_size": 2}, "batch_size differ: 1 and 2"),
        ({}, {"queue_size": 3}, "it has no queue of its own there; leave queue_size out"),
        ({}, {"queue_sizes": {"in": 3}}, "leave queue_sizes out"),
        ({}, {"batch_timeout_ms": 3.0}, "leave batch_timeout_ms out"),
        ({}, {"queue_policy": "reject"}, "leave queue_policy out"),
        ({}, {"split_size": 1}, "leave split_size out"),
        ({"workers": "process"}, {}, "executor differ: process and thread"),
    ],
)
def test_what_differs_is_said(first, second, reason):
    with pytest.raises(PlanError) as raised:
        plan_of({**ONE, **first}, {**ONE, **second})
    assert "node 'n1': fuse='a': it cannot run with node 'n0': " in str(raised.value)
    assert reason in str(raised.value)


def test_processors_must_be_the_same():
    with pytest.raises(PlanError, match="cpu_affinity differ: 0 and any"):
        plan_of({**ONE, "cpu_affinity": "0"}, ONE)


@pytest.mark.parametrize("kind", [Stream(), Expand(), Condition()])
@pytest.mark.parametrize("is_first", [True, False])
def test_only_normal_units_are_fused(kind, is_first):
    other, normal = (spec_of(name="other", kind=kind), ONE), (spec_of(), ONE)
    with pytest.raises(PlanError, match=f"unit 'other' is a {kind} unit; chains are of normal"):
        make_plan(chain(*((other, normal) if is_first else (normal, other))))


def test_a_source_is_no_part_of_a_chain():
    graph = graph_of(
        {"s": (spec_of(inputs=()), ONE), "n": (spec_of(), ONE), "output": "output"},
        ["s -> n", "n -> output"],
    )
    with pytest.raises(PlanError, match="is a source unit; chains are of normal units"):
        make_plan(graph)


@pytest.mark.parametrize(
    "edges",
    [
        ["input -> a", "a -> b", "a -> output", "b -> other"],  # a feeds more
        ["input -> a", "input -> b", "a -> output", "b -> other"],  # they are not neighbours
    ],
)
def test_the_first_must_feed_the_second_and_nothing_else(edges):
    nodes = {"input": "input", "a": (spec_of(), ONE), "b": (spec_of(), ONE)}
    graph = graph_of({**nodes, "output": "output", "other": "output"}, edges)
    with pytest.raises(PlanError, match="'a' must feed 'b' and nothing else"):
        make_plan(graph)


def test_nothing_else_may_feed_the_second():
    join = spec_of(inputs=("in", "more"))
    nodes = {"input": "input", "a": (spec_of(), ONE), "b": (join, ONE), "output": "output"}
    graph = graph_of(nodes, ["input -> a", "a -> b:in", "input -> b:more", "b -> output"])
    with pytest.raises(PlanError, match="nothing else may feed it"):
        make_plan(graph)


def test_a_name_that_only_one_node_bears_is_an_error():
    with pytest.raises(PlanError, match="node 'n0': fuse='a': no other node bears this name"):
        plan_of(ONE, {})


def test_a_queue_size_that_is_the_graphs_is_not_the_nodes_own():
    both = {**ONE, "queue_size": 64, "inherited": frozenset({"queue_size"})}
    assert plan_of(both, both).stages["n0"].bounds == (64,)
