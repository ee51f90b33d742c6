"""Edits of TOML files with [[node]] and [[edge]]."""

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelflow.config.edit.graph_text import GraphText, diff
from modelflow.config.edit.toml import TomlEdits
from modelflow.config.flow_config import PortRef, format_port
from modelflow.config.read import read_config
from modelflow.errors import ConfigError
from tests.example_counts import of_a_hundred

TABLES = """\
# top
[graph]
queue_size = 3 # q

[[node]] # the first
name = "a" # a
config.k = 3

# of b
[[node]]
name = 'b'
flowunit = "x"  # unit
config = {x=1, y = 2}
[node.more]
z = 1

[[edge]]
from = "a"
to = "b:x"

# back
[[edge]]
from = "b"
to = "a"
"""
INLINE = """\
node = [{name="a", x=1}, {name="b"}, # two
    {name="c"},
]
edge = [{from="a", to="b"}, {from="b",to="c"}]
graph.queue_size = 1
"""


def changed(text, edit):
    after = edit(GraphText.read(text, "toml")).text
    read_config(after, "toml")
    lines = diff(text, after, "g").splitlines()[2:]
    return [line for line in lines if line[0] in "+-"]


@pytest.mark.parametrize(
    ("edit", "lines"),
    [
        (lambda g: g.set("a", "k", 4), ["-config.k = 3", "+config.k = 4"]),
        (lambda g: g.set("a", "k", "4"), ["-config.k = 3", "+config.k = 4"]),
        (lambda g: g.set("a", "k", "many"), ["-config.k = 3", '+config.k = "many"']),
        (lambda g: g.set("a", "n", 4), ["+n = 4"]),
        (lambda g: g.set("b", "sizes", (1, 2)), ["+sizes = [1, 2]"]),
        (lambda g: g.set("b", "x", 5), ["-config = {x=1, y = 2}", "+config = {x=5, y = 2}"]),
        (
            lambda g: g.set("b", "name", 5),
            ["-config = {x=1, y = 2}", "+config = {x=1, y = 2, name = 5}"],
        ),
        (lambda g: g.unset("b", "x"), ["-config = {x=1, y = 2}", "+config = { y = 2}"]),
        (lambda g: g.unset("b", "y"), ["-config = {x=1, y = 2}", "+config = {x=1 }"]),
        (lambda g: g.unset("b", "flowunit"), ['-flowunit = "x"  # unit', "+# unit"]),
        (lambda g: g.add_node("c", {"k": True}), ["+[[node]]", '+name = "c"', "+k = true", "+"]),
        (
            lambda g: g.connect("b:y", "a:z"),
            ["+", "+[[edge]]", '+from = "b:y"', '+to = "a:z"'],
        ),
        (lambda g: g.disconnect("b", "a"), ["-[[edge]]", '-from = "b"', '-to = "a"']),
        (
            lambda g: g.rename("b", "c:d"),
            [
                "-name = 'b'",
                "+name = 'c:d'",
                '-to = "b:x"',
                '+to = "\\"c:d\\":x"',
                '-from = "b"',
                '+from = "\\"c:d\\""',
            ],
        ),
    ],
)
def test_tables_are_edited_by_lines(edit, lines):
    assert changed(TABLES.replace("[node.more]\nz = 1\n", ""), edit) == lines


def test_a_node_goes_with_its_edges_and_all_its_tables_but_not_the_comments():
    after = GraphText.read(TABLES, "toml").remove_node("b").text
    assert after == TABLES[: TABLES.index("[[node]]\nname = 'b'")] + "# unit\n\n# back\n"


@pytest.mark.parametrize(
    ("edit", "lines"),
    [
        (
            lambda g: g.set("a", "y", 2),
            [
                '-node = [{name="a", x=1}, {name="b"}, # two',
                '+node = [{name="a", x=1, y = 2}, {name="b"}, # two',
            ],
        ),
        (
            lambda g: g.unset("a", "x"),
            [
                '-node = [{name="a", x=1}, {name="b"}, # two',
                '+node = [{name="a" }, {name="b"}, # two',
            ],
        ),
        (lambda g: g.add_node("d", {"k": 1}), ['+    {name = "d", k = 1},']),
        (
            lambda g: g.connect("a", "c"),
            [
                '-edge = [{from="a", to="b"}, {from="b",to="c"}]',
                '+edge = [{from="a", to="b"}, {from="b",to="c"}, {from = "a", to = "c"}]',
            ],
        ),
        (
            lambda g: g.disconnect("a", "b"),
            ['-edge = [{from="a", to="b"}, {from="b",to="c"}]', '+edge = [{from="b",to="c"}]'],
        ),
        (
            lambda g: g.disconnect("b", "c"),
            ['-edge = [{from="a", to="b"}, {from="b",to="c"}]', '+edge = [{from="a", to="b"}]'],
        ),
    ],
)
def test_inline_tables_are_edited_in_their_line(edit, lines):
    assert changed(INLINE, edit) == lines


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[\n  {name="a"} # x\n]', '[\n  {name="a"}, # x\n  {name = "b"}\n]'),
        ('[ {name="a"}, # x\n]', '[ {name="a"}, # x\n{name = "b"},\n]'),
        ('[{name="a"} # x\n ,]', '[{name="a"} # x\n , {name = "b"}]'),
        ("[ # x ]\n]", '[ # x ]\n{name = "b"}\n]'),
    ],
)
def test_what_is_added_to_a_list_in_lines_leaves_the_comments_in_it(before, after):
    text = GraphText.read(f"node = {before}\n", "toml").add_node("b").text
    assert text == f"node = {after}\n"


def test_a_node_that_was_not_added_is_refused(monkeypatch):
    monkeypatch.setattr(TomlEdits, "add_node", lambda edits, *_: edits._text)
    with pytest.raises(ConfigError, match="change it by hand"):
        GraphText.read(TABLES, "toml").add_node("c")


@pytest.mark.parametrize(
    "table", ["[[node]]\nk.x = 1 # x\nname = 'a'\n", "[[node]]\nname = 'a'\n[node.k] # x\nx = 1\n"]
)
def test_an_attribute_that_is_a_table_is_replaced_and_goes(table):
    text = GraphText.read(table, "toml")
    assert "# x\n" in text.set("a", "k", 2).text
    assert text.set("a", "k", 2).nodes == {"a": {"k": 2}}
    assert text.unset("a", "k").nodes == {"a": {}}


@pytest.mark.parametrize("newline", [" \n", "\r\n"])
def test_a_comment_with_blanks_behind_it_stands_once(newline):
    before = f'node = [ # x{newline}  {{name="a"}}, {{name="b"}}]\n'
    assert GraphText.read(before, "toml").remove_node("b").text.count("# x") == 1


def test_an_empty_file_becomes_a_graph():
    text = GraphText.read("", "toml").add_node("a").add_node("b", {"x": 1}).connect("a", "b")
    config = read_config(text.text, "toml")
    assert [node.name for node in config.nodes] == ["a", "b"]
    assert len(config.edges) == 1
    emptied = GraphText.read("node = []\n", "toml").add_node("a").connect("a", "a").text
    assert emptied == 'node = [{name = "a"}]\nedge = [{from = "a", to = "a"}]\n'


def test_a_value_that_toml_cannot_hold_is_refused():
    with pytest.raises(ConfigError, match="cannot be written as TOML"):
        GraphText.read(TABLES, "toml").set("a", "x", object())


NAMES = ["a", "b", "c d", "e:f", 'g"h', "ä.ö"]
KEYS = ["x", "y", "config", "two words", "a.b"]
VALUES = [
    -5,
    0,
    True,
    2.5,
    [1, 2],
    "",
    "text",
    "1",
    "true",
    'say "no"',
    "it's",
    "a\\b",
    "# no",
    "$x",
]
PORTS = [None, "in", "out:0", " p"]


class Writer:
    """Writes random files: tables with headers or inline, comments, irregular blanks."""

    def __init__(self, draw):
        self.pick = lambda *options: draw(st.sampled_from(options))
        self.some = lambda most, *options: draw(st.lists(st.sampled_from(options), max_size=most))
        self.nodes = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))

    def text(self):
        sections = [["[flow]", "desc = 'd' # d"], ["[graph]", "queue_size=3", ""], []]
        graph = self.inline() if self.pick(True, False) else self.tables()
        lines = ["# top", *graph, *self.pick(*sections)]
        return "".join(line + "\n" for line in lines)

    def inline(self):
        nodes = [f"{{name = {json.dumps(name)}, x=1}}" for name in self.nodes]
        between = self.pick(", ", ",\n  ", " , ")
        return [f"node = [{between.join(nodes)}{self.pick('', ',') if nodes else ''}] # all"]

    def tables(self):
        found = []
        for name in self.nodes:
            found += self.some(2, "", "# about")
            found += ["[[node]]" + self.pick("", " # note"), f"  name = {json.dumps(name)}"]
            found += self.pick([], ["x = 1"], ["y='q' # y"], ["x = [ # x", "]"])
            found += self.pick([], ["config = {k=1, l=2}"], ["[node.config]", " k = [", " 2]"])
        for _ in self.some(3, 0) if self.nodes else ():
            ends = [json.dumps(format_port(self.port())) for _ in range(2)]
            found += [*self.some(2, "", "# edge"), "[[edge]]"]
            found += [f"from = {ends[0]}", f"to={ends[1]} # to"]
        return found

    def port(self):
        return PortRef(self.pick(*self.nodes), self.pick(*PORTS))


@dataclass
class Model:
    nodes: dict[str, dict[str, Any]]
    edges: list[tuple[PortRef, PortRef]]

    @classmethod
    def of(cls, text):
        config = read_config(text, "toml")
        nodes = {node.name: dict(node.attributes) for node in config.nodes}
        return cls(nodes, [(edge.source, edge.target) for edge in config.edges])


def set_attribute(text, model, pick):
    node, key, value = pick(model.nodes), pick(KEYS), pick(VALUES)
    is_new = key not in model.nodes[node]
    after = text.set(node, key, value)
    found = Model.of(after.text).nodes[node][key]
    model.nodes[node][key] = found if str(found).lower() == str(value).lower() else value
    return after, (lambda: after.unset(node, key)) if is_new and key != "config" else None


def unset(text, model, pick):
    node = pick(model.nodes)
    if not model.nodes[node]:
        return text, None
    key = pick(model.nodes[node])
    del model.nodes[node][key]
    return text.unset(node, key), None


def add_node(text, model, pick):
    name = next(f"new {n}" for n in range(99) if f"new {n}" not in model.nodes)
    model.nodes[name] = {"k": pick(VALUES)}
    after = text.add_node(name, model.nodes[name])
    return after, lambda: after.remove_node(name)


def remove_node(text, model, pick):
    name = pick(model.nodes)
    del model.nodes[name]
    model.edges = [edge for edge in model.edges if name not in (edge[0].node, edge[1].node)]
    return text.remove_node(name), None


def rename(text, model, pick):
    old = pick(model.nodes)
    new = next(f"o:{n}" for n in range(99) if f"o:{n}" not in model.nodes)
    names = {name: new if name == old else name for name in model.nodes}
    model.nodes = {names[name]: given for name, given in model.nodes.items()}
    model.edges = [tuple(PortRef(names[e.node], e.port) for e in edge) for edge in model.edges]
    return text.rename(old, new), None


def connect(text, model, pick):
    ends = tuple(PortRef(pick(model.nodes), pick(PORTS)) for _ in range(2))
    if ends in model.edges:
        return text, None
    after = text.connect(*ends)
    model.edges.append(ends)
    return after, (lambda: after.disconnect(*ends)) if len(model.edges) > 1 else None


def disconnect(text, model, pick):
    if not model.edges:
        return text, None
    gone = pick(model.edges)
    model.edges = [edge for edge in model.edges if edge != gone]
    return text.disconnect(*gone), None


OPERATIONS = [set_attribute, unset, add_node, remove_node, rename, connect, disconnect]


@settings(max_examples=of_a_hundred(60), deadline=None)
@given(data=st.data(), newline=st.sampled_from(["\n", "\r\n"]))
def test_an_edit_of_tables_does_what_it_says_and_nothing_else(data, newline):
    def pick(options):
        return data.draw(st.sampled_from(list(options)))

    text = GraphText.read(Writer(data.draw).text().replace("\n", newline), "toml")
    for _ in range(data.draw(st.integers(1, 4))):
        model = Model.of(text.text)
        operation = pick(OPERATIONS) if model.nodes else add_node
        after, inverse = operation(text, model, pick)
        found = Model.of(after.text)
        assert found == model
        assert list(found.nodes) == list(model.nodes)
        assert comments(after.text) == comments(text.text)
        assert after.text.count("\n") == after.text.count(newline)
        if inverse is not None:
            assert without_blanks(inverse().text) == without_blanks(text.text)
        text = after


def comments(text):
    return {
        word: text.count(f"# {word}") for word in ("top", "all", "about", "note", "y", "x", "to")
    }


def without_blanks(text):
    """Returns a text without blanks and final commas that have no meaning in brackets."""
    return re.sub(r",?\s*([\]}])", r"\1", text)
