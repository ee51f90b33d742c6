import pytest

from modelflow.errors import PlanError
from modelflow.plan import Origin, Target, make_plan
from modelflow.unit.kind import Condition, Count, Expand, Normal, Stream
from tests.runtime.graphs import chain, graph_of, spec_of


def stage(spec, processors=8, **settings):
    return make_plan(chain((spec, settings)), processors=processors).stages["n0"]


@pytest.mark.parametrize(
    ("settings", "processors", "threads", "reason"),
    [
        ({}, 8, 4, "queue / batch"),
        ({}, 2, 2, "the processors"),
        ({"queue_size": 4, "batch_size": 8}, 8, 1, "queue / batch"),
        ({"threads": 7}, 2, 7, "as the node says"),
    ],
)
def test_threads_are_chosen_with_a_reason(settings, processors, threads, reason):
    found = stage(spec_of(), processors, **settings)
    assert (found.threads, found.threads_reason) == (threads, reason)


def test_a_shared_unit_has_one_thread_on_the_cpu():
    assert stage(spec_of(is_shared=True)).threads == 1


def test_a_sink_and_a_source_have_one_thread():
    graph = graph_of(
        {"source": spec_of(inputs=()), "sink": spec_of(outputs=())}, ["source -> sink"]
    )
    stages = make_plan(graph, processors=8).stages
    assert stages["source"].threads == stages["sink"].threads == 1
    assert stages["sink"].is_terminal


def test_batch_size_comes_from_the_node_then_the_unit_and_is_bounded():
    assert stage(spec_of()).batch_size == 8
    assert stage(spec_of(batch_size=3)).batch_size == 3
    assert stage(spec_of(batch_size=3), batch_size=5).batch_size == 5
    assert stage(spec_of(max_batch_size=2), batch_size=5).batch_size == 2


def test_queue_bounds_are_those_of_the_connected_ports():
    join = spec_of(inputs=("a", "b", "c"))
    graph = graph_of(
        {
            "input": "input",
            "join": (join, {"queue_size": 5, "queue_sizes": {"c": 9}}),
            "output": "output",
        },
        ["input -> join:a", "input -> join:c", "join -> output"],
    )
    plan = make_plan(graph)
    assert plan.stages["join"].unit.inputs == ("a", "c")
    assert plan.stages["join"].bounds == (5, 9)
    assert plan.entries["input"] == (Target("join", 0), Target("join", 1))


def test_origins_tell_where_each_stream_can_end():
    graph = graph_of(
        {
            "input": "input",
            "source": spec_of(inputs=()),
            "unit": spec_of(),
            "sink": spec_of(outputs=()),
            "output": "output",
        },
        ["input -> unit", "unit -> output", "source -> sink"],
    )
    assert make_plan(graph).origins == {
        "": Origin(("output",), ("output",), ("output",), frozenset({"output"}), True, True),
        "source": Origin((), ("sink",), ("sink",), frozenset(), True),
    }


def test_rows_explain_the_plan():
    (row,) = make_plan(chain((spec_of(), {"batch_timeout_ms": 2.5})), processors=2).rows()
    assert row == {
        "node": "n0",
        "unit": "forward",
        "device": "cpu:0",
        "threads": "2 (the processors)",
        "batch": "8, waits 2.5 ms",
        "queue": "in 32",
        "feeds": "output",
    }


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "8 (1 from 2 ms)"),
        ({"batch_timeout_ms": 2.5}, "8, waits 2.5 ms"),
        ({"batch_size": 1}, "1"),
    ],
)
def test_rows_say_when_a_row_is_a_call_by_itself(more, expected):
    spec = spec_of(is_one_by_one=True)
    (row,) = make_plan(chain((spec, more)), processors=2).rows()
    assert row["batch"] == expected


def test_process_workers_are_for_units_that_stand_alone():
    assert stage(spec_of(), workers="process").executor == "process"
    assert stage(spec_of()).executor == "thread"
    for more in ({"kind": Normal(is_per_stream=True)}, {"is_shared": True}, {"kind": Expand()}):
        with pytest.raises(PlanError, match="workers='process'"):
            stage(spec_of(**more), workers="process")


def test_rows_are_counted_out_before_the_first_unit_that_may_keep_them():
    stream = spec_of(kind=Stream(Count.SAME))
    graph = graph_of(
        {
            "input": "input",
            "first": spec_of(),
            "stream": stream,
            "join": spec_of(inputs=("a", "b")),
            "output": "output",
            "beside": "output",
        },
        [
            "input -> first",
            "first -> stream",
            "stream -> join:a",
            "first -> join:b",
            "join -> output",
            "first -> beside",
        ],
    )
    origin = make_plan(graph).origins[""]
    # not "output", which waits for the stream unit
    assert origin.counted_at == ("stream", "beside")
    assert origin.single_outputs == {"output", "beside"}
    assert not origin.is_counted


@pytest.mark.parametrize("kind", [Normal(), Stream(Count.SAME)])
def test_a_condition_is_not_held_back_where_a_branch_may_keep_what_it_was_given(kind):
    part = spec_of(outputs=("a", "b"), kind=Condition())
    nodes = {
        "input": "input",
        "part": part,
        "a": spec_of(),
        "deep": spec_of(kind=kind),
        "join": spec_of(),
        "output": "output",
    }
    edges = ["input -> part", "part:a -> a", "a -> deep", "deep -> join", "part:b -> join"]
    (merge,) = make_plan(graph_of(nodes, [*edges, "join -> output"])).merges.values()
    assert merge.edges == 2
    assert (merge.bound is None) == (isinstance(kind, Stream))
