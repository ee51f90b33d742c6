from modelflow.graph.check.loops import (
    find_connected_parts,
    find_cycle,
    in_order,
    predecessors_of,
    reach,
    successors_of,
)
from modelflow.graph.node import Edge, Endpoint


def edges(text):
    pairs = (pair.split("-") for pair in text.split())
    return [Edge(Endpoint(a, "out"), Endpoint(b, "in")) for a, b in pairs]


def test_what_is_reached_goes_along_the_edges_and_round_cycles():
    found = edges("a-b b-c c-b c-d x-d")
    graph = successors_of("abcdx", found)
    assert reach(graph, ["a"]) == {"a", "b", "c", "d"}
    assert reach(predecessors_of(graph), ["b"]) == {"a", "b", "c"}
    assert reach(graph, []) == set()
    assert reach(graph, "xc") == {"b", "c", "d", "x"}


def test_nodes_of_equal_rank_stay_in_the_order_given():
    assert in_order(successors_of("dcba", edges("a-d b-d a-c"))) == ["b", "a", "d", "c"]


def test_a_cycle_is_given_edge_by_edge():
    assert find_cycle(successors_of("xabc", edges("x-a a-b b-c c-a"))) == [
        ("a", "b"),
        ("b", "c"),
        ("c", "a"),
    ]
    assert find_cycle(successors_of("a", edges("a-a"))) == [("a", "a")]
    assert find_cycle(successors_of("ab", edges("a-b"))) == []


def test_parts_are_what_edges_connect():
    assert find_connected_parts(successors_of("abcd", edges("c-a b-a"))) == [{"a", "b", "c"}, {"d"}]
