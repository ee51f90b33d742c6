"""Tests of the wired stages of a plan."""

from itertools import pairwise

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError, StreamClosed
from modelflow.plan import make_plan
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.flow_state import SchedulerOptions
from modelflow.runtime.session.segment import Batch, Span
from modelflow.runtime.wiring import Wiring
from modelflow.unit.kind import Condition, Expand, Stream
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, graph_of, spec_of, unit_of
from tests.runtime.queues.test_inbox import segment


def wiring(graph):
    return Wiring(make_plan(graph), SchedulerOptions())


def test_a_session_has_results_where_its_data_can_leave():
    made = wiring(chain(spec_of()))
    session = made.session("s", "", lambda _: None)
    assert list(session.results) == ["output"]


def test_what_is_kept_of_a_session_is_named_and_dropped_with_it():
    made = wiring(chain(spec_of()))
    session = made.session("s", "", lambda _: None)
    assert made.count_held() == {}
    made.stages["n0"].inbox.append(0, [segment(session.stream, 0, 2)])
    assert list(made.count_held()) == ["inbox of 'n0'"]
    made.cancel(session)
    assert made.count_held() == {}


def test_results_that_wait_for_others_of_a_session_are_dropped_with_it():
    made = wiring(chain((spec_of(), {"threads": 2})))
    session, rows = made.session("s", "", lambda _: None), [[Buffer(1)]]
    span = Span(session.stream, range(1, 2), False, ticket=1)
    made.stages["n0"].outbox.emit(Batch([span], rows, False), rows, False)
    assert list(made.count_held()) == ["outbox of 'n0'"]
    made.cancel(session)
    assert made.count_held() == {}


def meeting(clock=SYSTEM_CLOCK):
    """Returns a wired graph whose branches meet before "join", and its merge."""
    part = unit_of(None, outputs=("a", "b"), kind=Condition())
    nodes = {"input": "input", "part": part, "a": spec_of(), "b": spec_of(), "join": spec_of()}
    edges = ["input -> part", "part:a -> a", "part:b -> b", "a -> join", "b -> join"]
    graph = graph_of({**nodes, "output": "output"}, [*edges, "join -> output"])
    made = Wiring(make_plan(graph), SchedulerOptions(clock=clock))
    (merge,) = made._merges.values()
    return made, merge


def test_an_input_that_branches_meet_at_has_a_merge_before_it():
    made, merge = meeting()
    session = made.session("s", "", lambda _: None)
    merge.append(0, [segment(session.stream, 0, 1)])
    assert list(made.count_held()) == ["merge before 'join'"]
    made.cancel(session)
    assert made.count_held() == {}


def test_close_lets_everyone_go_on():
    made = wiring(chain((spec_of(), {"queue_size": 1}), max_in_flight=1))
    session = made.session("s", "", lambda _: None)
    made.stages["n0"].inbox.append(0, [segment(session.stream, 0, 2)])
    made._in_flight.add(1)
    made.close()
    assert made.stages["n0"].inbox.has_room(0)
    assert not made._in_flight.is_full
    assert made.count_held() == {}


def two(**settings):
    """Returns the graph input -> a and b, of which b has ``settings``."""
    nodes = {"input": "input", "a": spec_of(), "b": (spec_of(), settings), "x": "output"}
    return wiring(
        graph_of({**nodes, "y": "output"}, ["input -> a", "input -> b", "a -> x", "b -> y"])
    )


def test_an_input_waits_as_long_as_the_slowest_node_that_it_feeds():
    made = two(threads=1)
    port = made.submitter.port("input")
    assert port.expected_wait() is None
    session = made.session("s", "", lambda _: None)
    for name, seconds in (("a", 1.0), ("b", 2.0)):
        made.stages[name].figures.workers[0].count(
            1, 0, seconds * len(made.stages[name].figures.workers)
        )
        made.stages[name].inbox.append(0, [segment(session.stream, 0, 3)])
    assert port.expected_wait() == 6.0


@pytest.mark.parametrize("policy", ["block", "reject"])
def test_an_input_refuses_where_one_of_the_nodes_that_it_feeds_does(policy):
    assert two(queue_policy=policy).submitter.port("input").is_rejecting == (policy == "reject")


def test_calls_of_all_nodes_are_added_up():
    made = two()
    for stage in made.stages.values():
        stage.figures.workers[0].count(1, 0, 0.0)
        stage.figures.workers[0].count(1, 0, 0.0)
    assert made.count_calls() == 4


def test_every_node_is_told_to_drain_and_to_end_its_cycles():
    made = wiring(chain(*[unit_of(None, kind=Stream()) for _ in range(2)]))
    orders = [stage.order for stage in made.stages.values()]
    made.drain()
    assert [order._is_draining for order in orders] == [True, True]
    assert [order._is_ending for order in orders] == [False, False]
    made.end_cycles()
    assert [order._is_ending for order in orders] == [True, True]


def test_who_waits_for_max_in_flight_looks_again_when_a_session_is_cancelled():
    made, calls = wiring(chain(spec_of(), max_in_flight=1)), []
    session = made.session("s", "", lambda _: None)
    session.progress.enter("input", 1)
    made._in_flight.on_room(lambda: calls.append(1), lambda: False)
    made.cancel(session)
    assert calls == [1]


def test_a_session_that_a_source_opens_knows_its_opener_and_its_end():
    nodes = {"source": spec_of(inputs=()), "output": "output"}
    made, ended = wiring(graph_of(nodes, ["source -> output"])), []
    source = made.session("source", "source", ended.append)
    opened = made.session("source/0", "source", ended.append, source)
    assert (opened.name, opened.origin, opened.reader) == ("source/0", "source", source.progress)
    opened.finish()
    assert ended == [opened]


def test_a_merge_knows_its_node_its_edges_and_its_bound():
    clock = FakeClock()
    made, merge = meeting(clock)
    (planned,) = made.plan.merges.values()
    assert planned.bound is not None
    assert (merge._name, merge._edges, merge._bound) == ("join", 2, planned.bound)
    assert merge._clock is clock
    assert merge._target is made.stages["join"].inbox


def test_the_inputs_of_a_graph_are_bounded_at_the_nodes_that_they_feed():
    made = wiring(chain(spec_of(), spec_of()))
    bounds = [stage.inbox.policy.unmatched_bounds for stage in made.stages.values()]
    assert bounds == [(1024,), ()]
    assert [stage.unread_bound for stage in made.stages.values()] == [1024, 1024]


def test_an_input_that_feeds_no_node_has_no_wait():
    port = wiring(graph_of({"input": "input", "output": "output"}, ["input -> output"]))
    assert port.submitter.port("input").expected_wait() is None


@pytest.mark.parametrize("names", ["a", "ab"])
def test_a_row_that_ends_in_a_sink_makes_room_in_the_graph(names):
    settings = {"threads": 1, "fuse": "one"} if len(names) > 1 else {}
    specs = [spec_of(outputs=("out",) if name != names[-1] else ()) for name in names]
    nodes = {name: (spec, settings) for name, spec in zip(names, specs, strict=True)}
    edges = [f"{first} -> {then}" for first, then in pairwise(["input", *names])]
    graph = graph_of({"input": "input", **nodes}, edges, max_in_flight=1)
    with Running(graph, is_inline=True) as flow:
        stream = flow.session()
        for value in range(2):
            stream.send("input", value, timeout=0)
        assert flow.scheduler._wiring._in_flight.rows == 0


@pytest.mark.parametrize(("max_in_flight", "exits"), [(None, {}), (4, {"": 0})])
def test_a_node_that_makes_many_rows_of_one_counts_it_out_where_that_is_asked(max_in_flight, exits):
    made = wiring(chain(unit_of(None, kind=Expand()), spec_of(), max_in_flight=max_in_flight))
    assert [stage.exits for stage in made.stages.values()] == [exits, {}]


@pytest.mark.parametrize("threads", ["inline", "threads"])
@pytest.mark.parametrize(
    ("kind", "outputs", "process"),
    [
        (Condition(), ("a", "b"), lambda ctx: ctx.emit(ctx.input(), "b")),
        (Expand(), ("out",), lambda ctx: None),
        (Expand(), ("out",), lambda ctx: ctx.emit([1, 2, 3])),
        (Stream(), ("out",), lambda ctx: ctx.emit([1, 2, 3])),
    ],
    ids=["other output", "none", "more", "stream"],
)
def test_rows_leave_where_a_node_whose_outputs_feed_nothing_changes_their_count(
    kind, outputs, process, threads
):
    unit = unit_of(process, kind=kind, outputs=outputs)
    graph = graph_of({"input": "input", "last": unit}, ["input -> last"], max_in_flight=1)
    with Running(graph, is_inline=threads == "inline") as flow:
        stream = flow.session()
        for number in range(5):
            stream.send("input", number, timeout=0 if threads == "inline" else 60)
        stream.close_input()
        assert stream.wait(60)
        assert flow.scheduler._wiring._in_flight.rows == 0


@pytest.mark.parametrize("error", [NotImplementedError("nothing"), OSError("no file")])
def test_a_unit_that_does_not_reload_is_named_where_it_was_asked_for(error):
    def reload():
        raise error

    units = [unit_of(None, is_shared=True, hooks={"reload": reload}) for _ in range(2)]
    with Running(chain(*units), is_inline=True) as flow:
        with pytest.raises(FlowUnitError) as caught:
            flow.scheduler.reload("n1")
        found = caught.value
        assert (found.node, found.unit, found.phase) == ("n1", "forward", "reload")
        assert found.__cause__ is error
        assert f"failed in reload: {type(error).__name__}: {error}" in str(found)
        if isinstance(error, NotImplementedError):
            flow.scheduler.reload(None)  # only the units that can reload
        else:
            with pytest.raises(FlowUnitError, match="node 'n0'"):
                flow.scheduler.reload(None)
    with pytest.raises(StreamClosed, match="nothing can be reloaded"):
        flow.scheduler.reload("n1")


def test_what_is_not_there_has_no_tensor():
    shared = unit_of(None, is_shared=True, hooks={"tensors": lambda: {"in": "a spec"}})
    with Running(chain(shared, spec_of()), is_inline=True) as flow:
        assert flow.scheduler.tensor("nowhere", "in") is None
        assert flow.scheduler.tensor("n1", "in") is None
        assert flow.scheduler.tensor("n0", "in") == "a spec"
