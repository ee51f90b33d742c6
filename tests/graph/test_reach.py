from modelflow.graph.node import Edge, Endpoint
from modelflow.graph.reach import following, preceding, reached


def edges(text):
    pairs = (pair.split("-") for pair in text.split())
    return [Edge(Endpoint(a, "out"), Endpoint(b, "in")) for a, b in pairs]


def test_what_is_reached_goes_along_the_edges_and_round_cycles():
    found = edges("a-b b-c c-b c-d x-d")
    assert reached(["a"], following(found)) == {"a", "b", "c", "d"}
    assert reached(["b"], preceding(found)) == {"a", "b", "c"}
    assert reached(["nowhere"], following(found)) == {"nowhere"}
