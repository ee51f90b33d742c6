"""Tests of the neighbours that run as one stage without a name in the graph."""

import pytest

from modelflow.plan import Target, make_plan
from modelflow.unit.kind import Normal, Stream
from tests.runtime.graphs import chain, graph_of, spec_of


def computing(**more):
    return spec_of(**{"is_compute_bound": True, **more})


def plan_of(*settings, processors=2, fuse="auto"):
    nodes = ((computing(name=f"u{n}"), s) for n, s in enumerate(settings))
    return make_plan(chain(*nodes, fuse=fuse), processors=processors)


def chains_of(plan):
    return [stage.nodes for stage in plan.stages.values()]


def test_neighbours_that_say_nothing_are_one_stage():
    plan = plan_of({}, {}, {})
    assert chains_of(plan) == [("n0", "n1", "n2")]
    assert plan.stages["n0"].routes == ((Target("output", 0),),)
    assert [(row["node"], row["threads"], row["queue"]) for row in plan.rows()] == [
        ("n0", "2 (the processors)", "in 32"),
        ("n1", "on those of n0 ([graph] fuse=auto)", "-"),
        ("n2", "on those of n0 ([graph] fuse=auto)", "-"),
    ]


def test_off_joins_only_what_bears_a_name():
    named = {"fuse": "a"}
    assert chains_of(plan_of({}, {}, named, named, fuse="off")) == [("n0",), ("n1",), ("n2", "n3")]


@pytest.mark.parametrize(
    "own",
    [
        {"threads": 2},
        {"workers": "process"},
        {"queue_size": 8},
        {"queue_sizes": {"in": 8}},
        {"queue_bytes": 8},
        {"queue_policy": "reject"},
        {"batch_timeout_ms": 1.0},
        {"split_size": 1},
        {"batch_size": 3},  # differs from its neighbours'
        {"cpu_affinity": "0"},
    ],
    ids=lambda own: next(iter(own)),
)
def test_a_node_with_settings_of_its_own_has_a_stage_of_its_own(own):
    assert chains_of(plan_of({}, {}, own, {}, {})) == [("n0", "n1"), ("n2",), ("n3", "n4")]


def test_what_holds_for_both_neighbours_parts_them_not():
    both = {"batch_size": 3, "cpu_affinity": "0"}
    assert chains_of(plan_of(both, both)) == [("n0", "n1")]


def test_a_size_that_is_the_graphs_is_not_the_nodes_own():
    both = {"queue_size": 64, "inherited": frozenset({"queue_size"})}
    (stage,) = plan_of(both, both).stages.values()
    assert (stage.nodes, stage.bounds) == (("n0", "n1"), (64,))


def test_nodes_that_bear_a_name_obey_it():
    named = {"fuse": "a"}
    plan = plan_of({}, {}, named, named, {}, {})
    assert chains_of(plan) == [("n0", "n1"), ("n2", "n3"), ("n4", "n5")]


@pytest.mark.parametrize(
    "more",
    [
        {"is_shared": True},
        {"kind": Normal(is_per_stream=True)},
        {"threads": 2},
        {"kind": Stream()},
        {"is_compute_bound": False},
    ],
    ids=lambda more: next(iter(more)),
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_unit_that_is_not_like_any_other_has_a_stage_of_its_own(more, place):
    specs = [computing(), computing()]
    specs[place] = computing(**more)
    graph = chain(*((spec, {"batch_size": 2}) for spec in specs), fuse="auto")
    assert chains_of(make_plan(graph, processors=2)) == [("n0",), ("n1",)]


def test_sources_and_sinks_have_stages_of_their_own():
    graph = graph_of(
        {"s": computing(inputs=()), "n": computing(), "end": computing(outputs=())},
        ["s -> n", "n -> end"],
        fuse="auto",
    )
    assert chains_of(make_plan(graph, processors=1)) == [("s",), ("n",), ("end",)]


def test_what_feeds_or_is_fed_by_another_as_well_is_parted_there():
    graph = graph_of(
        {
            **dict.fromkeys(["input", "more"], "input"),
            **dict.fromkeys(["first", "fork", "left", "last"], computing()),
            "join": computing(inputs=("in", "more")),
            **dict.fromkeys(["output", "other"], "output"),
        },
        [
            *("input -> first", "first -> fork", "fork -> left", "fork -> other"),
            *("left -> join:in", "input -> join:more", "join -> last", "last -> output"),
        ],
        fuse="auto",
    )
    assert chains_of(make_plan(graph)) == [("first", "fork"), ("left",), ("join", "last")]


def test_the_threads_of_a_chain_are_those_of_its_nodes_up_to_the_processors():
    apart = plan_of({}, {}, {}, processors=16, fuse="off")
    assert [stage.threads for stage in apart.stages.values()] == [4, 4, 4]
    assert plan_of({}, {}, {}, processors=16).stages["n0"].threads == 12
    (stage,) = plan_of({}, {}, {}, processors=6).stages.values()
    reason = "those of 3 nodes, at most the processors"
    assert (stage.threads, stage.threads_reason) == (6, reason)
