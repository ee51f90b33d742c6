import pytest

from modelflow.errors import GraphError, PortError, StreamMismatchError
from modelflow.graph.check.loops import back_edges
from modelflow.graph.check.scopes import find_scopes
from modelflow.graph.read import read_graph
from modelflow.unit.kind import Collapse, Condition, Count, Expand, Loop, Stream
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit


def unit(name, inputs=("in",), outputs=("out",), **more):
    return FlowUnitSpec(
        name,
        devices={"cpu": FlowUnit},
        inputs=tuple(map(Port, inputs)),
        outputs=tuple(map(Port, outputs)),
        **more,
    )


UNITS = (
    unit("one"),
    unit("join", inputs=("a", "b")),
    unit("source", inputs=()),
    unit("sink", outputs=()),
    unit("stream", kind=Stream()),
    unit("same", kind=Stream(Count.SAME)),
    unit("expand", kind=Expand()),
    unit("collapse", kind=Collapse()),
    unit("condition", outputs=("yes", "no"), kind=Condition()),
    unit("three", outputs=("a", "b", "c"), kind=Condition()),
    unit("loop", outputs=("back", "exit"), kind=Loop()),
)


def graph(text):
    return read_graph(f"digraph g {{ i [type=input] o [type=output] {text} }}", units=UNITS)


def scopes(text):
    found = graph(text)
    return find_scopes(found.nodes, found.edges, back_edges(found.nodes, found.edges))


@pytest.mark.parametrize(
    "text",
    [
        # branches that meet behind units, at the graph's output, two of three, all three
        "i -> condition condition:yes -> one condition:no -> one one -> o",
        "i -> condition condition:yes -> one -> o condition:no -> o",
        "i -> three three:a -> one three:b -> one one -> o three:c -> sink",
        "i -> three three:a -> o three:b -> o three:c -> o",
        # an inner condition closed at the input where the outer one is
        "c1 [flowunit=condition] c2 [flowunit=condition] i -> c1 c1:yes -> c2 c1:no -> o "
        "c2:yes -> o c2:no -> o",
        # an expand inside a branch, a condition inside an expand, one branch of it collapsed
        "i -> condition condition:yes -> expand -> collapse -> o condition:no -> o",
        "i -> expand -> condition condition:yes -> one condition:no -> one one -> collapse -> o",
        "i -> expand -> condition condition:yes -> collapse -> o condition:no -> sink",
        # streams of another numbering meet themselves again
        "i -> stream -> join:a stream -> join:b join -> o",
        "i -> same -> join:a i -> join:b join -> o",
        "i -> expand -> stream -> collapse -> join:a i -> join:b join -> o",
        # loops: with a body, without, one in another, with a condition and an expand inside
        "i -> loop loop:back -> one -> loop loop:exit -> o",
        "i -> loop loop:back -> loop loop:exit -> o",
        "l1 [flowunit=loop] l2 [flowunit=loop] i -> l1 l1:back -> l2 l2:back -> one -> l2 "
        "l2:exit -> l1 l1:exit -> o",
        "i -> loop loop:back -> condition condition:yes -> one -> loop condition:no -> loop "
        "loop:exit -> o",
        "i -> loop loop:back -> expand -> same -> collapse -> loop loop:exit -> join:a i -> join:b "
        "join -> o",
    ],
)
def test_what_matches_is_accepted(text):
    assert scopes(text).findings == []


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "i -> condition condition:yes -> join:a condition:no -> join:b join -> o",
            StreamMismatchError,
            "'a' comes from condition:yes (from the graph's input, by 'yes' of 'condition'), 'b' "
            "from condition:no (from the graph's input, by 'no' of 'condition')",
        ),
        (
            "i -> condition condition:yes -> join:a condition:no -> o i -> join:b join -> sink",
            StreamMismatchError,
            "'b' from i:i (from the graph's input)",
        ),
        (
            "i -> one i -> condition condition:yes -> one one -> o condition:no -> sink",
            PortError,
            "input 'in' is fed by i:i (from the graph's input) and condition:yes",
        ),
        (
            "s1 [flowunit=one] i -> condition condition:yes -> s1 condition:yes -> o s1 -> o "
            "condition:no -> sink",
            PortError,
            "only branches of one condition",
        ),
        (
            "i -> expand -> join:a i -> join:b join -> o",
            StreamMismatchError,
            "expand:out (from the graph's input, expanded by 'expand')",
        ),
        (
            "e1 [flowunit=expand] e2 [flowunit=expand] i -> e1 -> join:a i -> e2 -> join:b "
            "join -> o",
            StreamMismatchError,
            "expanded by 'e2'",
        ),
        (
            "i -> stream -> join:a i -> join:b join -> o",
            StreamMismatchError,
            "stream:out (renumbered by 'stream', a stream unit without Count.SAME)",
        ),
        (
            "i -> condition condition:yes -> stream -> o condition:no -> o",
            PortError,
            "a stream unit without Count.SAME) and condition:no",
        ),
        (
            "i -> loop loop:back -> one -> o loop:exit -> sink",
            StreamMismatchError,
            "neither of its outputs 'back' and 'exit' leads back to it",
        ),
        (
            "i -> loop loop:back -> loop loop:exit -> loop i -> o",
            StreamMismatchError,
            "each of its outputs 'back' and 'exit' leads back to it",
        ),
        (
            "i -> loop loop:back -> condition condition:yes -> loop condition:no -> sink "
            "loop:exit -> o",
            StreamMismatchError,
            "the buffers that come back from condition:yes (from the graph's input, inside the "
            "loop 'loop', by 'yes' of 'condition') do not match those that left by 'back'",
        ),
        (
            "i -> loop loop:back -> stream -> loop loop:exit -> o",
            StreamMismatchError,
            "the buffers that come back from stream:out",
        ),
        (
            "i -> loop loop:back -> same -> loop loop:exit -> o",
            StreamMismatchError,
            "is a stream unit in the body of loop 'loop'",
        ),
        (
            "i -> loop loop:back -> one -> loop i -> o",
            StreamMismatchError,
            "is a loop whose exit 'exit' is not connected; connect it",
        ),
        (
            "i -> expand -> loop loop:back -> collapse -> loop loop:exit -> o",
            StreamMismatchError,
            "nothing before it inside its loop has expanded",
        ),
        (
            "i -> loop loop:back -> one -> loop one -> join:a loop:exit -> join:b join -> o",
            StreamMismatchError,
            "inside the loop 'loop'",
        ),
    ],
)
def test_what_does_not_match_is_refused_and_both_ways_are_named(text, error, message):
    with pytest.raises(GraphError) as caught:
        graph(text)
    found = caught.value.findings
    assert any(message in finding.message for finding in found), [f.message for f in found]
    assert any(finding.error is error for finding in found)


def test_a_merge_names_the_outermost_condition_and_its_outputs():
    (merge,) = scopes(
        "c1 [flowunit=condition] c2 [flowunit=three] i -> c1 c1:yes -> c2 c1:no -> o "
        "c2:a -> o c2:b -> o c2:c -> o"
    ).merges
    assert (merge.condition, merge.ports) == ("c1", {"yes", "no"})
    assert [str(edge.source) for edge in merge.edges] == ["c1:no", "c2:a", "c2:b", "c2:c"]


def test_a_part_of_the_branches_stays_a_part():
    found = scopes("i -> three three:a -> one three:b -> one one -> o three:c -> sink")
    ((name, ports),) = found.inputs["o"][-1].branches
    assert (name, ports) == ("three", {"a", "b"})


def test_the_depth_counts_from_the_innermost_loop():
    found = scopes(
        "e1 [flowunit=expand] e2 [flowunit=expand] c1 [flowunit=collapse] c2 [flowunit=collapse] "
        "i -> e1 -> loop loop:back -> e2 -> one -> c2 -> loop loop:exit -> c1 -> o"
    )
    names = ("e1", "loop", "e2", "one", "c2", "c1", "o")
    assert [found.depth(name) for name in names] == [0, 1, 0, 1, 1, 1, 0]


def test_of_two_loops_each_has_its_own_way_back():
    found = graph(
        "l1 [flowunit=loop] l2 [flowunit=loop] i -> l1 l1:back -> l2 l2:back -> one -> l2 "
        "l2:exit -> l1 l1:exit -> o"
    )
    back = back_edges(found.nodes, found.edges)
    assert {str(edge.source) for edge in back} == {"one:out", "l2:exit"}
