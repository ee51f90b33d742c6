"""Tests that random graphs with placed parts give the same results as on one machine."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelflow.config.placement import PlacementConfig
from modelflow.errors import GraphError
from modelflow.graph.check.loops import predecessors_of, reach, successors_of
from modelflow.graph.node import Role
from modelflow.remote import ProcessEngine, place_nodes
from tests.example_counts import of_a_hundred
from tests.properties.programs import programs, sessions
from tests.properties.sent import sent
from tests.properties.test_random_graphs import any_graph, quiet, run_with_threads, usages
from tests.remote.local_replica import LocalEngine, placed_here

__all__ = ["quiet"]  # keeps the intended exceptions of callbacks out of the log


@st.composite
def placements(draw, graph):
    """Draws the placements of nodes: single nodes, and all nodes between two."""
    names = [node.name for node in graph.nodes.values() if node.role is Role.FLOWUNIT]
    found = {}
    if not names:
        return found
    for place in range(draw(st.integers(1, 3))):
        first, last = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        ways = successors_of(graph.nodes, graph.edges)
        between = reach(ways, [first]) & reach(predecessors_of(ways), [last])
        for name in sorted(between or {first}):
            if name in names and draw(st.sampled_from([True] * 9 + [False])):
                found[name] = f"m{place}"
    return found


def with_placements(graph, found, terms):
    """Returns the graph with placed nodes, in which no stage crosses a cut."""
    nodes = {
        name: replace(node, settings=replace(node.settings, placement=found.get(name, ""), fuse=""))
        for name, node in graph.nodes.items()
    }
    config = replace(graph.config, placements={name: terms(name) for name in found.values()})
    return replace(graph, nodes=nodes, config=config)


class Placed:
    """A program whose graph has parts in replicas."""

    def __init__(self, program, front):
        self._program = program
        self._front = front

    def graph(self):
        return self._front

    def __getattr__(self, name):
        return getattr(self._program, name)


def run_far(program, rows, data, engine):
    """Draws placements of a program, and runs the program with them if they are legal."""
    graph = program.graph()
    found = data.draw(placements(graph))
    placed_graph = with_placements(graph, found, lambda name: PlacementConfig(name, in_flight=2))
    if not found or not is_legal(placed_graph):
        return
    config, units = sent(placed_graph, placed_graph.config.placements)
    front = place_nodes(config, engine, units=units)
    run_with_threads(Placed(program, front), rows, [data.draw(usages) for _ in rows])


def is_legal(graph):
    """Returns whether the placed nodes can be cut out; otherwise the error must name nodes."""
    try:
        placed_here(graph)
    except GraphError as error:
        named = {finding.node for finding in error.findings}
        assert named, "nothing is said"
        assert all(graph.nodes[name].settings.placement for name in named)
        return False
    return True


HALF = settings(parent=any_graph, max_examples=of_a_hundred(50))


@pytest.mark.timeout(3000)
@HALF
@given(programs(), sessions, st.data())
def test_any_legal_placement_gives_what_one_machine_gives(program, rows, data):
    graph = program.graph()
    found = data.draw(placements(graph))
    replicas, in_flight = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    placed = with_placements(
        graph, found, lambda name: PlacementConfig(name, (replicas, replicas), in_flight=in_flight)
    )
    if not is_legal(placed):
        return
    front, _ = placed_here(placed)
    run_with_threads(Placed(program, front), rows, [data.draw(usages) for _ in rows])


@pytest.mark.timeout(3000)
@HALF
@given(programs(), sessions, st.data())
def test_any_graph_that_replicas_run_whole_gives_what_it_gives_here(program, rows, data):
    config, units = sent(program.graph(), {})
    replicas, in_flight = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    terms = PlacementConfig("whole", (replicas, replicas), in_flight=in_flight)
    front = place_nodes(config, LocalEngine(), units=units, default=terms)
    # Late rows are in error before they cross, and name another node.
    uses = [replace(data.draw(usages), late=frozenset()) for _ in rows]
    run_with_threads(Placed(program, front), rows, uses)


FEW = settings(parent=any_graph, max_examples=of_a_hundred(8))  # each starts processes


@pytest.mark.timeout(3000)
@FEW
@given(programs(), sessions, st.data())
def test_any_legal_placement_in_real_processes_gives_what_one_machine_gives(program, rows, data):
    run_far(program, rows, data, ProcessEngine())
