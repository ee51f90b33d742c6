"""The stages of a plan, wired."""

from modelflow.plan import make_plan
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.wiring import Wiring
from modelflow.unit.kind import Kind
from tests.runtime.graphs import chain, graph_of, spec_of, unit_of
from tests.runtime.test_inbox import segment


def wiring(graph):
    return Wiring(make_plan(graph), 1024, SYSTEM_CLOCK)


def test_a_session_has_results_where_its_data_can_leave():
    made = wiring(chain(spec_of()))
    session = made.session("s", "", lambda _: None)
    assert list(session.results) == ["output"]


def test_what_is_kept_of_a_session_is_named_and_discarded():
    made = wiring(chain(spec_of()))
    session = made.session("s", "", lambda _: None)
    assert made.held() == {}
    made.stages["n0"].inbox.append(0, [segment(session.stream, 0, 2)])
    assert list(made.held()) == ["inbox of 'n0'"]
    made.discard(session)
    assert made.held() == {}


def test_an_input_that_branches_meet_at_has_a_merge_before_it():
    part = unit_of(None, outputs=("a", "b"), kind=Kind.CONDITION)
    nodes = {"input": "input", "part": part, "a": spec_of(), "b": spec_of(), "join": spec_of()}
    edges = ["input -> part", "part:a -> a", "part:b -> b", "a -> join", "b -> join"]
    made = wiring(graph_of({**nodes, "output": "output"}, [*edges, "join -> output"]))
    session = made.session("s", "", lambda _: None)
    (merge,) = made._merges.values()
    merge.append(0, [segment(session.stream, 0, 1)])
    assert list(made.held()) == ["merge before 'join'"]
    made.discard(session)
    assert made.held() == {}


def test_close_lets_everyone_go_on():
    made = wiring(chain((spec_of(), {"queue_size": 1}), max_in_flight=1))
    session = made.session("s", "", lambda _: None)
    made.stages["n0"].inbox.append(0, [segment(session.stream, 0, 2)])
    made._in_flight.add(1)
    made.close()
    assert made.stages["n0"].inbox.has_room(0)
    assert not made._in_flight.is_full
    assert made.held() == {}
