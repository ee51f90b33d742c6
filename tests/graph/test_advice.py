import sys

import pytest

from modelflow.graph.advice import advice
from modelflow.graph.read import read_graph
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit


def advised(seen, sentence):
    """Returns a unit that records the places for which its advice is asked."""

    def advise(place, readers):
        seen.append((place, readers))
        return sentence

    return FlowUnitSpec(
        "one", {"cpu": FlowUnit}, inputs=(Port("in"),), outputs=(Port("out"),), advise=advise
    )


GRAPH = """digraph {
    input [type=input]
    a [flowunit=one, batch_size=3]
    b [flowunit=one]
    output [type=output]
    more [type=output]
    input -> a -> b -> output
    a -> more
}"""


def test_advice_names_the_file_the_line_and_the_node():
    graph = read_graph(GRAPH, units=[advised([], "do it otherwise")])
    first, second = advice(graph)
    assert first == "<text>:3: node 'a': do it otherwise"
    assert second == "<text>:4: node 'b': do it otherwise"


def test_a_unit_is_asked_with_all_that_reads_what_it_gives():
    seen = []
    assert advice(read_graph(GRAPH, units=[advised(seen, None)])) == []
    (a, readers), (b, last) = seen
    assert (a.node, a.unit, set(a.devices), set(a.written)) == ("a", "one", {"cpu"}, set())
    assert [(place.node, place.unit) for place in readers] == [("b", "one"), ("more", "")]
    assert b.node == "b"
    assert [place.node for place in last] == ["output"]


def test_units_that_advise_nothing_are_not_asked():
    graph = "digraph { input [type=input] resize [width=4, height=4] output [type=output] "
    assert advice(read_graph(graph + "input -> resize -> output }")) == []


@pytest.mark.parametrize(
    ("defaults", "attributes", "found"),
    [
        ("", "", None),
        ("", "queue_size=2", None),  # the batch size is a default, which nobody asked for
        ("", "batch_size=32", None),
        ("", "batch_size=33", ("queue_size", 32, 33, 66)),
        ("queue_size=64", "batch_size=64", None),
        ("batch_size=16", "queue_size=8", ("queue_size", 8, 16, 32)),
        ("batch_size=16", "queue_size=16", None),
        ("batch_size=16", "queue_size_in=4", ("queue_size_in", 4, 16, 32)),
        ("batch_size=16", "queue_size=8 queue_size_in=32", None),
        ("batch_size=16", "queue_size=32 queue_size_in=15", ("queue_size_in", 15, 16, 32)),
        # here `queue_size` limits the buffers of each session
        ("batch_size=16", "queue_size=8 split_size=4", None),
    ],
)
def test_a_queue_that_is_smaller_than_the_batch_is_named(defaults, attributes, found):
    text = f"""digraph {{ {defaults} input [type=input] output [type=output]
    one [{attributes}] input -> one -> output }}"""
    sentences = advice(read_graph(text, units=[advised([], None)]))
    if found is None:
        assert sentences == []
    else:
        name, bound, size, queue = found
        place = "<text>:2: node 'one'"
        assert sentences == [
            f"{place}: a queue of {bound} buffers ({name}) seldom fills a batch of {size} "
            f"(batch_size); write {name}={queue}"
        ]


@pytest.mark.parametrize("has_lock", [True, False])
def test_processes_are_advised_against_where_threads_compute_at_the_same_time(
    monkeypatch, has_lock
):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: has_lock, raising=False)
    text = """digraph { input [type=input] output [type=output]
    one [workers=process] input -> one -> output }"""
    sentences = advice(read_graph(text, units=[advised([], None)]))
    assert [sentence.partition(";")[0] for sentence in sentences] == (
        []
        if has_lock
        else [
            "<text>:2: node 'one': without interpreter lock, threads compute at the same time "
            "without copies"
        ]
    )
