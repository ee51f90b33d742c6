import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.config.dot.read import read_dot
from modelflow.errors import ConfigError


def nodes(text):
    return {node.name: dict(node.attributes) for node in read_dot(text).nodes}


def edges(text):
    return [f"{edge.source}->{edge.target}" for edge in read_dot(text).edges]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("digraph { a }", {"a": {}}),
        ("strict digraph g { a; b }", {"a": {}, "b": {}}),
        ("DIGRAPH { a [x=1, y=2] }", {"a": {"x": "1", "y": "2"}}),
        ("digraph { a [x=1; y=2 z=-.5] [w=3] }", {"a": {"x": "1", "y": "2", "z": "-.5", "w": "3"}}),
        ('digraph { a [x="say \\"hi\\""] }', {"a": {"x": 'say "hi"'}}),
        ('digraph { a [x="one" + " two"] }', {"a": {"x": "one two"}}),
        ('digraph { a [x="one \\\ntwo"] }', {"a": {"x": "one two"}}),
        ("digraph { a [x=<b<i/>>] }", {"a": {"x": "b<i/>"}}),
        ('digraph { "a b" [x=true] }', {"a b": {"x": "true"}}),
        ("digraph { a [flag] }", {"a": {"flag": "true"}}),
        (
            "digraph { node [k=1] a node [k=2 j=3] b a [j=4] }",
            {"a": {"k": "1", "j": "4"}, "b": {"k": "2", "j": "3"}},
        ),
        (
            "digraph { node [k=1] subgraph s { node [k=2] a } b }",
            {"a": {"k": "2"}, "b": {"k": "1"}},
        ),
        ("digraph { // c\n a # c }\n /* c [ \n */ b }", {"a": {}, "b": {}}),
        ("digraph { é_1 }", {"é_1": {}}),
        ('digraph { a [mean="1,2"] }', {"a": {"mean": "1,2"}}),
    ],
)
def test_nodes_are_read_as_graphviz_reads_them(text, expected):
    assert nodes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("digraph { a -> b }", ["a->b"]),
        ("digraph { a -> b -> c }", ["a->b", "b->c"]),
        ("digraph { a:out -> b:in }", ["a:out->b:in"]),
        ('digraph { a:"x/y" -> b:in:nw }', ["a:x/y->b:in"]),
        ("digraph { a -> b [tailport=x headport=y] }", ["a:x->b:y"]),
        ("digraph { edge [headport=y] a -> b }", ["a->b:y"]),
        ("digraph { {a b} -> {c d} }", ["a->c", "a->d", "b->c", "b->d"]),
        ("digraph { subgraph s { a } -> b }", ["a->b"]),
        ("digraph { subgraph { a -> b } c }", ["a->b"]),
    ],
)
def test_edges_are_read_as_graphviz_reads_them(text, expected):
    assert edges(text) == expected


def test_graph_attributes_are_those_of_the_top():
    graph = read_dot(
        "digraph g { queue_size=4 graph [batch_size=2] subgraph s { x=1 graph [y=2] } }"
    )
    assert (graph.name, dict(graph.attributes)) == ("g", {"queue_size": "4", "batch_size": "2"})


def test_every_node_and_edge_knows_its_line():
    graph = read_dot("digraph {\n a\n /* \n */ b\n a -> b\n}", "g.dot", first_line=10)
    assert [str(node.location) for node in graph.nodes] == ["g.dot:11", "g.dot:13"]
    assert str(graph.edges[0].location) == "g.dot:14"


def test_a_second_part_that_is_no_compass_point_belongs_to_the_port():
    (edge,) = read_dot("digraph { a:output:0 -> b:in:nw }").edges
    assert (edge.source.port, edge.target.port) == ("output:0", "in")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "expected 'digraph'"),
        ("graph { a -- b }", 1, "undirected 'graph'; expected 'digraph'"),
        ("digraph {\n a -- b }", 2, "expected '->'"),
        ("digraph {\n a", 2, "got the end of the text"),
        ("digraph { a } b", 1, "behind the graph"),
        ("digraph {\n a [x=] }", 2, "expected a value"),
        ('digraph { a [x="open] }', 1, "a quoted text that does not end"),
        ("digraph { a [x=<b>", 1, "expected an attribute or ']'"),
        ("digraph { a [x=<b", 1, "an HTML text that does not end"),
        ("digraph {\n /* open }", 2, "a comment that does not end"),
        ("digraph { a ! b }", 1, "got '!', which begins nothing"),
        ("digraph { a [wait=20ms] }", 1, "got 20ms, a number and a name in one; put it in quotes"),
        ("digraph { a [version=1.2.3] }", 1, "got 1.2.3, a number and a name in one"),
        ("digraph { -3d -> b }", 1, "got -3d, a number and a name in one"),
        ("digraph { a -> }", 1, "expected a node"),
        ('digraph { a [x="1" + 2] }', 1, "expected a quoted text"),
        ("digraph " + "{" * 60 + "}" * 60, 1, "nested more than"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, line, message):
    with pytest.raises(ConfigError, match=message) as caught:
        read_dot(text)
    assert caught.value.findings[0].location.line == line


@given(
    st.one_of(
        st.text(),
        st.lists(
            st.sampled_from(
                [
                    "digraph",
                    "{",
                    "}",
                    "[",
                    "]",
                    "a",
                    '"b"',
                    "->",
                    "=",
                    ":",
                    ";",
                    ",",
                    "+",
                    "<x>",
                    "subgraph",
                    "node",
                    "edge",
                    "graph",
                    "\n",
                    "#",
                    "/*",
                    "*/",
                    "1.5",
                    "strict",
                ]
            )
        ).map(" ".join),
    )
)
def test_any_text_gives_a_graph_or_a_config_error(text):
    for source in (text, f"digraph {{ {text} }}"):
        try:
            read_dot(source)
        except ConfigError as error:
            assert error.findings[0].location.line  # noqa: PT017 - both outcomes are right


def test_a_node_named_twice_with_another_value_is_noted_with_both_lines():
    graph = read_dot("digraph {\n a [x=1, y=1]\n a [x=2, y=1]\n a [z=3]\n}", "g.dot")
    (note,) = graph.notes
    assert note == "g.dot:3: node 'a': x=2 replaces x=1 of line 2; are these two nodes?"
    assert graph.nodes[0].attributes == {"x": "2", "y": "1", "z": "3"}


def test_a_default_that_a_node_replaces_is_not_noted():
    assert read_dot("digraph { node [x=1] a [x=2] {a} -> b b [x=3] }").notes == ()


@pytest.mark.parametrize("key", ["flowunit", "type"])
def test_a_node_named_twice_for_two_units_is_a_mistake(key):
    with pytest.raises(ConfigError, match=rf":3: .*node 'a': got {key}=w, but line 2 says v"):
        read_dot(f"digraph {{\n a [{key}=v]\n a [{key}=w]\n}}")


def test_a_text_goes_on_in_the_next_line_behind_a_backslash():
    for newline in ("\n", "\r\n"):
        (node,) = read_dot(f'digraph {{ "a\\{newline}b" }}').nodes
        assert node.name == "ab"


def test_the_reader_says_where_everything_stands():
    text = 'digraph {\n a:p [x="1" /* c */; y]; // a\n {b c} -> "d" + "e" -> a [z=2]\n k = v\n}'
    body = read_dot(text).body
    assert text[body.start - 1] == "{"
    assert text[body.end] == "}"
    node, edges, assignment = body.statements
    assert text[node.start : node.until] == 'a:p [x="1" /* c */; y];'
    x, y = node.attributes
    assert [text[x.start : x.name_end], text[x.value_start : x.end]] == ["x", '"1"']
    assert text[x.start : x.until] == 'x="1" /* c */;'
    assert [y.value, y.value_start, y.until] == ["true", None, y.end]
    group, joined, last = edges.chain
    assert [text[end.start : end.end] for end in (group, joined, last)] == [
        "{b c}",
        '"d" + "e"',
        "a",
    ]
    assert [end.nodes for end in edges.chain] == [("b", "c"), ("de",), ("a",)]
    assert edges.edges == range(3)
    assert [mention.name for mention in body.mentions()] == ["a", "b", "c", "de", "a"]
    assert text[assignment.start : assignment.end] == "k = v"
