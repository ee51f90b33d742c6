import time
import tomllib
from pathlib import Path

import pytest

from modelflow.config.dot.tokens import dot_text
from modelflow.config.edit.graph_text import GraphText, diff
from modelflow.config.flow_config import PortRef
from modelflow.config.override import apply_overrides
from modelflow.config.read import read_config
from modelflow.config.write import write_config
from modelflow.errors import ConfigError

ROOT = Path(__file__).parents[2]
DIGITS = (ROOT / "graphs/digits.toml").read_text(encoding="utf-8")
SHIPPED = sorted(
    path
    for folder in ("graphs", "examples")
    for path in (ROOT / folder).rglob("*.toml")
    if "[graph]" in path.read_text(encoding="utf-8")
)


@pytest.fixture(autouse=True)
def _model(monkeypatch):
    monkeypatch.setenv("MODEL", "/model")  # examples/flask_service names it


def numstat(before, after):
    """Returns the lines added and removed, as ``git diff --numstat`` counts them."""
    lines = diff(before, after, "g").splitlines()[2:]
    return sum(line[0] == "+" for line in lines), sum(line[0] == "-" for line in lines)


def changed(before, after):
    """Returns the lines of a diff without the unchanged lines."""
    return [line for line in diff(before, after, "g").splitlines()[2:] if line[0] in "+-"]


def dot(text):
    return GraphText.read(text, "dot", "g.dot")


def nodes(config):
    return {node.name: dict(node.attributes) for node in config.nodes}


def in_words(found):
    """Returns nodes with every value as a text, as in DOT."""
    return {
        name: {key: dot_text(value) for key, value in given.items()}
        for name, given in found.items()
    }


# -- the lines that change --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "added", "removed"),
    [
        (lambda g: g.set("infer", "batch_size", 16), 1, 1),
        (lambda g: g.set("infer", "threads", 2), 1, 1),
        (lambda g: g.set("infer", "pos", "10,20!"), 1, 1),
        (lambda g: g.unset("resize", "image_width"), 1, 1),
        (lambda g: g.add_node("new", {"flowunit": "resize"}), 1, 0),
        (lambda g: g.connect("infer:out", "report:in"), 1, 0),
        (lambda g: g.disconnect("resize", "normalize"), 2, 1),
        (lambda g: g.disconnect("top_k", "report"), 1, 1),
        (lambda g: g.rename("files", "pictures"), 2, 2),
        (lambda g: g.remove_node("report"), 1, 2),
    ],
)
def test_an_edit_changes_the_lines_that_it_is_about(edit, added, removed):
    after = edit(GraphText.read(DIGITS, "toml")).text
    assert numstat(DIGITS, after) == (added, removed)
    read_config(after, "toml")


def test_a_chain_is_parted_in_its_own_place():
    after = GraphText.read(DIGITS, "toml").disconnect("resize", "normalize").text
    assert changed(DIGITS, after) == [
        "-    files -> decode -> resize -> normalize -> infer -> top_k -> report",
        "+    files -> decode -> resize",
        "+    normalize -> infer -> top_k -> report",
    ]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_ready_graph_with_an_override_written_is_the_graph_with_set_beside_it(path):
    text, overrides = path.read_text(encoding="utf-8"), {"*.device": "cuda", "*.queue_size": 77}
    before = read_config(path)
    name = before.nodes[-1].name
    overrides[f"{name}.batch_size"] = "3"
    after = GraphText.read(text, "toml", str(path)).override(overrides).text
    expected = apply_overrides(before, overrides)
    assert in_words(nodes(expected)) == nodes(read_config(after, "toml"))
    units = sum(a.get("type", "flowunit") == "flowunit" for a in nodes(before).values())
    added, removed = numstat(text, after)
    assert added == removed <= units + 1


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_ready_graph_is_taken_apart_node_by_node(path):
    text = GraphText.read(path.read_text(encoding="utf-8"), "toml")
    comments = [line for line in text.text.splitlines() if line.startswith("#")]
    for node in read_config(path).nodes:
        text = text.remove_node(node.name)
    assert not text.nodes
    assert not text.edges
    assert [line for line in text.text.splitlines() if line.startswith("#")] == comments


# -- DOT --------------------------------------------------------------------------------------


def test_the_value_in_effect_is_changed():
    text = dot("digraph { node [x=0] a [x=1] b; a [y=2, x=3 /* now */]\n a [x=4] }")
    assert text.set("a", "x", 5).text.endswith("\n a [x=5] }")
    assert text.set("b", "x", 5).nodes == {"a": {"x": "4", "y": "2"}, "b": {"x": "5"}}
    assert text.set("a", "x", 4).text == text.text


def test_what_holds_already_is_not_written_again():
    text = dot('digraph { node [x=1] a [y="1" + "2"] }')
    assert text.set("a", "x", 1).text == text.text
    assert text.set("a", "y", 12).text == text.text


def test_a_value_keeps_its_quotes_and_gets_them_where_it_needs_them():
    text = dot('digraph { a [x="1", y=2, z] }')
    assert text.set("a", "x", 5).text == 'digraph { a [x="5", y=2, z] }'
    assert text.set("a", "y", "1,2").text == 'digraph { a [x="1", y="1,2", z] }'
    assert text.set("a", "y", (1, 2)).text == 'digraph { a [x="1", y="1,2", z] }'
    assert text.set("a", "z", False).text == 'digraph { a [x="1", y=2, z=false] }'
    assert text.set("a", "y", 'say "no"').nodes["a"]["y"] == 'say "no"'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a", "a [k=v]"),
        ("a;", "a [k=v];"),
        ("a []", "a [k=v]"),
        ("a [x=1,]", "a [x=1, k=v,]"),
        ("a [x=1; y=2]", "a [x=1; y=2, k=v]"),
        ("a [\n  x=1 # one\n]", "a [\n  x=1, # one\n  k=v\n]"),
        ("a [\n  x=1,\n  y=2, // two\n]", "a [\n  x=1,\n  y=2, // two\n  k=v,\n]"),
        ("a -> b", "a -> b\n a [k=v]"),
    ],
)
def test_a_new_attribute_stands_behind_the_others(before, after):
    text = dot(f"digraph {{\n {before}\n}}")
    assert text.set("a", "k", "v").text == f"digraph {{\n {after}\n}}"


def test_brackets_are_put_as_the_text_puts_them():
    assert dot("digraph {\n a[x=1]\n b\n}").set("b", "k", "v").text.endswith("\n b[k=v]\n}")


def test_an_attribute_that_a_group_gives_is_given_by_a_statement_of_its_own():
    after = dot("digraph {\n {a b} [x=1]\n}").set("a", "x", 2)
    assert after.text == "digraph {\n {a b} [x=1]\n a [x=2]\n}"
    assert after.nodes == {"a": {"x": "2"}, "b": {"x": "1"}}


def test_what_defaults_give_is_not_taken_away():
    text = dot("digraph { node [x=1] a b [x=2] }")
    assert text.unset("b", "x").nodes["b"] == {"x": "1"}
    with pytest.raises(ConfigError, match=r"a\.x: cannot be changed alone.*by hand"):
        text.unset("a", "x")


def test_an_attribute_goes_as_often_as_it_stands():
    text = dot("digraph {\n a [x=1,\n  y=1, y=2]\n a [y=3]\n}")
    assert text.unset("a", "y").text == "digraph {\n a [x=1]\n a\n}"


def test_comments_stay():
    text = dot(
        "digraph {\n a [x=1 /* one */, /* two */ y=2] # a\n"
        " d -> a -> /* why */ b // ab\n -> c # bc\n}"
    )
    for edit in (
        text.remove_node("a"),
        text.remove_node("b"),
        text.disconnect("a", "b"),
        text.unset("a", "x").unset("a", "y"),
    ):
        words = ("one", "two", "# a", "why", "// ab", "# bc")
        assert [word for word in words if word not in edit.text] == []


@pytest.mark.parametrize(
    ("before", "edit", "after"),
    [
        ("a // x\n [k=1]; b", lambda g: g.unset("a", "k"), "// x\na; b"),
        ("a // x\n [k=1]; b", lambda g: g.set("a", "k", 2), "a // x\n [k=2]; b"),
        ('"a" + // x\n "b" -> c', lambda g: g.rename("ab", "d"), '"d" // x\n -> c'),
        ("a // x\n; /* y */\nb", lambda g: g.remove_node("a"), "// x\n /* y */\nb"),
    ],
)
def test_no_comment_takes_in_what_stands_behind_it(before, edit, after):
    assert edit(dot(f"digraph {{\n{before}\n}}")).text == f"digraph {{\n{after}\n}}"


def test_words_that_come_to_stand_beside_each_other_stay_words():
    assert dot("digraph {a[k=1]b}").unset("a", "k").text == "digraph {a b}"
    assert dot('digraph {a"b"->c}').remove_node("b").text == "digraph {a c}"


def test_a_parted_chain_keeps_its_attributes_on_each_edge():
    text = dot("digraph {\n a -> b -> c -> d [headport=in];\n}")
    after = text.disconnect("b", "c:in")
    assert after.text == "digraph {\n a -> b [headport=in];\n c -> d [headport=in];\n}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a -> b\n a", "a\n a"),
        ("a -> b\n c\n a", "a\n c\n a"),
        ("a -> b -> c -> {d}", "a\n c\n {d}\n c -> d"),
        ("a -> c -> b -> {d -> e}", "a\n c\n {d -> e}\n a -> c"),
        ("a; b; c -> b", "a; c"),
        ("a<b>c", "a c"),
        ("b b; a b b", " a"),
        ("a b b b c", "a c"),
    ],
)
def test_a_node_goes_and_the_others_stay_in_their_order(before, after):
    text = dot(f"digraph {{\n {before}\n}}")
    order = [name for name in text.nodes if name != "b"]
    edges = tuple(edge for edge in text.edges if "b" not in (edge[0].node, edge[1].node))
    removed = text.remove_node("b")
    assert removed.text == f"digraph {{\n {after}\n}}"
    assert list(removed.nodes) == order
    assert removed.edges == edges


def test_an_edge_goes_as_often_as_it_stands():
    assert dot("digraph { a -> b -> a -> b }").disconnect("a", "b").text == "digraph { a; b -> a }"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c\n a -> {b c}", "c\n a\n {b c}\n a -> b"),
        ("{a b} -> c", "{a b}\n c\n b -> c"),
        ("a -> {b [x=1] c}", "a\n {b [x=1] c}\n a -> b"),
    ],
)
def test_an_edge_of_a_group_is_taken_out_of_it(before, after):
    text = dot(f"digraph {{\n {before}\n}}").disconnect("a", "c")
    assert text.text == f"digraph {{\n {after}\n}}"


def test_a_graph_of_one_line_stays_one():
    text = dot("digraph{a->b}")
    assert text.add_node("c", {"x": 1}).text == "digraph{a->b c [x=1]}"
    assert text.connect("b", "a").text == "digraph{a->b b -> a}"
    assert dot("digraph{}").add_node("a").text == "digraph{a}"
    assert dot("digraph{a new/**/b->a}").remove_node("new").text == "digraph{a/**/b->a}"
    assert dot("digraph {\n}").add_node("a").text == "digraph {\n    a\n}"


def test_a_new_statement_ends_as_the_one_before_it():
    text = dot("digraph {\n  a; // a\n  a -> a;\n}").add_node("b").connect("a", "b")
    assert text.text == "digraph {\n  a; // a\n  b;\n  a -> a;\n  a -> b;\n}"


def test_line_ends_stay():
    text = dot("digraph {\r\n  a [x=1]\r\n  a -> b -> c\r\n}\r\n")
    after = text.add_node("d").connect("c", "d").disconnect("a", "b").set("a", "y", 2).text
    assert after == "digraph {\r\n  a [x=1, y=2]\r\n  d\r\n  b -> c\r\n  c -> d\r\n}\r\n"


def test_ports_are_named_as_native_files_name_them():
    text = dot('digraph { a; "b:c" }').connect("a:output:0", PortRef("b:c", "in"))
    assert text.edges == ((PortRef("a", "output:0"), PortRef("b:c", "in")),)
    assert text.disconnect("a:output:0", '"b:c":in').edges == ()


def test_edges_that_defaults_would_change_are_refused():
    with pytest.raises(ConfigError, match=r"b -> a: cannot .*edge \[\.\.\.\]"):
        dot("digraph { edge [headport=x] a -> b }").connect("b", "a")


# -- TOML around it ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "[graph]\ngraphconf = '''digraph { a [x=1] }''' # g\n",
        '[graph]\ngraphconf = """\ndigraph { a [x=1, y="\\\\d"] }"""\n',
        'graph = { graphconf = "digraph {\\n \\"a\\" [x=1] }" }\n',
        "graph.graphconf = 'digraph { a [x=1] }'",
        "[graph]\r\ngraphconf = '''\r\ndigraph {\r\n a [x=1]\r\n}'''\r\n",
    ],
)
def test_the_graph_is_edited_inside_its_text(text):
    after = GraphText.read(text, "toml").set("a", "x", 23).text
    assert after == text.replace("x=1", "x=23")
    assert nodes(read_config(after, "toml"))["a"]["x"] == "23"


def test_escapes_of_the_text_are_written_anew():
    text = '[graph]\ngraphconf = """\ndigraph { \\"a\\" \\\n  [x=1] } # \\u0061"""\n'
    after = GraphText.read(text, "toml").set("a", "x", 23).text
    assert after == '[graph]\ngraphconf = """\ndigraph { "a" [x=23] } # a"""\n'


def test_what_the_quotes_of_the_text_cannot_hold_is_escaped_or_gets_others():
    literal = GraphText.read("[graph]\ngraphconf='''digraph { a }''' # c", "toml")
    assert literal.set("a", "x", "it's").text == literal.text.replace("{ a }", '{ a [x="it\'s"] }')
    after = literal.set("a", "x", "'''")
    assert after.text == '[graph]\ngraphconf="""digraph { a [x="\'\'\'"] }""" # c'
    basic = GraphText.read('[graph]\ngraphconf="""digraph { a }"""', "toml")
    for value in ('"', '""', "\\d", "it's", "a\nb", '"""'):
        after = basic.set("a", "x", value)
        assert tomllib.loads(after.text)["graph"]["graphconf"].startswith("digraph { a [x=")
        assert after.nodes["a"]["x"] == value
    beside = GraphText.read('[graph]\ngraphconf="""digraph { a [x="1""y"=2] }"""', "toml")
    assert beside.set("a", "x", "").nodes["a"] == {"x": "", "y": "2"}


def test_a_renamed_input_keeps_what_serve_says_of_it():
    text = (
        "[serve.input.image] # i\nbatched = false\n"
        "[graph]\ngraphconf='digraph { image [type=input] }'\n"
    )
    after = GraphText.read(text, "toml").rename("image", "the image").text
    assert list(read_config(after, "toml").serve.input) == ["the image"]
    assert numstat(text, after) == (2, 2)
    inline = text.replace("[serve.input.image] # i\n", "[serve]\ninput.image.")
    with pytest.raises(ConfigError, match=r"serve\.input\.image: is not written as"):
        GraphText.read(inline, "toml").rename("image", "x")


# -- overrides of --set ------------------------------------------------------------------------


OVERRIDES = [
    {"a.x": 5, "b.new": "1.5"},
    {"*.device": "cuda"},
    {"*.batch_size": 2, "a.batch_size": 9},
    {"a": {"device": "cuda", "deviceid": "1"}},
    {"b.device": "cuda:1", "b.flag": True},
    {"a.x": "${HOME}"},
]


@pytest.mark.parametrize("overrides", OVERRIDES, ids=str)
@pytest.mark.parametrize("form", ["dot", "graphviz", "toml"])
def test_an_override_written_means_what_it_means_beside_the_file(form, overrides):
    source = "digraph {\n i [type=input]\n a [x=1, device=cpu, deviceid=3]\n i -> a -> b\n}"
    text = write_config(read_config(source, "dot"), form)
    form = "dot" if form == "dot" else "toml"
    after = GraphText.read(text, form).override(overrides).text
    expected = nodes(apply_overrides(read_config(text, form), overrides))
    found = nodes(read_config(after, form))
    assert in_words(found) == in_words(expected)


def test_a_number_of_a_device_that_defaults_give_becomes_the_first():
    text = dot("digraph { node [deviceid=3] a }").override({"a.device": "cuda"})
    assert text.nodes["a"] == {"device": "cuda", "deviceid": "0"}


# -- mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda g: g.set("infr", "x", 1),
            r"g\.toml: there is no node 'infr'; did you mean 'infer'",
        ),
        (
            lambda g: g.unset("infer", "batchsize"),
            "no attribute 'batchsize'; did you mean 'batch_s",
        ),
        (lambda g: g.disconnect("infer", "topk"), "did you mean 'infer -> top_k'"),
        (lambda g: g.connect("infer", "topk"), "did you mean 'top_k'"),
        (lambda g: g.connect("infer", "top_k"), "there is the edge infer -> top_k already"),
        (lambda g: g.add_node("infer"), "there is a node 'infer' already"),
        (lambda g: g.rename("infer", "top_k"), "there is a node 'top_k' already"),
        (lambda g: g.rename("infer", ""), "a node without a name"),
        (lambda g: g.remove_node("x"), "there is no node 'x'"),
        (lambda g: g.override({"infr.x": 1}), "did you mean 'infer'"),
        (lambda g: g.set("infer", "x", "<\\"), "cannot be written as DOT"),
    ],
)
def test_a_mistake_is_named(edit, message):
    with pytest.raises(ConfigError, match=message):
        edit(GraphText.read(DIGITS, "toml", "g.toml"))


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        ("a: 1", "yaml", r"YAML cannot be edited: its comments .*modelflow convert"),
        ("{}", "json", r"JSON cannot be edited.*modelflow convert"),
        ("", "tml", r"expected toml or dot; did you mean 'toml'"),
        ("digraph {\n ]", "dot", r"g:2: DOT"),
        ("[graph]\ngraphconf = '''\ndigraph {\n ]'''", "toml", r"g:4: DOT"),
        ("[graph", "toml", r"g:1: TOML"),
        ("[graph]\ngraphconf = ['digraph {', '}']", "toml", r"g:2: graphconf: is a list"),
        ("[graph]\ngraphconffilepath = 'x.dot'", "toml", r"g:2: .*'x\.dot'; edit that file"),
        ("[[node]]\nflowunit = 'x'", "toml", r"g:1: \[\[node\]\]: expected a name"),
        ("[[edge]]\nfrom = 'x'", "toml", r"g:1: \[\[edge\]\]: expected from"),
        ("node = 3", "toml", r"g:1: \[\[node\]\]: expected a list of tables"),
    ],
)
def test_a_text_that_cannot_be_edited_is_refused(text, form, message):
    with pytest.raises(ConfigError, match=message):
        GraphText.read(text, form, "g")


def test_a_diff_names_the_file_and_lines_without_an_end():
    assert diff("a\n", "a\n", "g.toml") == ""
    assert diff("a\nb", "a\nc", "g.toml") == (
        "--- a/g.toml\n+++ b/g.toml\n@@ -1,2 +1,2 @@\n a\n"
        "-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    )


LONG = range(2500)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (f"digraph {{hub {''.join(f'n{n} [k=1]; hub -> n{n}; ' for n in LONG)}}}", "dot"),
        (
            "".join(f"[[node]]\nname = 'n{n}'\n" for n in (*LONG, "hub")).replace("nhub", "hub")
            + "".join(f"[[edge]]\nfrom = 'hub'\nto = 'n{n}'\n" for n in LONG),
            "toml",
        ),
    ],
    ids=["dot", "toml"],
)
def test_an_edit_of_many_statements_takes_no_longer_than_they_are_long(text, form):
    graph = GraphText.read(text, form)
    began = time.process_time()
    graph.remove_node("hub").move_all({f"n{n}": (1.0, 2.0) for n in LONG})
    assert time.process_time() - began < 3  # 5 s if each edit searched all others


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{graph}", '{graph}\n[driver]\ndir = ["units"]\n'),
        ("[driver]  # mine\n{graph}", '[driver]  # mine\ndir = ["units"]\n{graph}'),
        ('[driver]\ndir = "a"  # one\n{graph}', '[driver]\ndir = ["a", "units"]  # one\n{graph}'),
        ('driver = {{dir = ["a"]}}\n{graph}', 'driver = {{dir = ["a", "units"]}}\n{graph}'),
        ('[driver]\ndir = ["units"]\n{graph}', '[driver]\ndir = ["units"]\n{graph}'),
    ],
)
def test_a_folder_of_units_is_added_and_every_other_byte_stays(before, after):
    for graph in ("[graph]\ngraphconf = 'digraph { a }'\n", "[[node]]\nname = 'a'\n"):
        text, expected = (one.format(graph=graph) for one in (before, after))
        assert GraphText.read(text, "toml").add_folder("units").text == expected
        lines = text.replace("\n", "\r\n"), expected.replace("\n", "\r\n")
        assert GraphText.read(lines[0], "toml").add_folder("units").text == lines[1]


def test_a_dot_file_names_no_folder_of_units():
    with pytest.raises(ConfigError, match=r"convert g\.dot -o g\.toml"):
        GraphText.read("digraph { a }", "dot", "g.dot").add_folder("units")
