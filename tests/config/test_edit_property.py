"""Random edits of random texts: each does what it says, and nothing else."""

import os
import tomllib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelflow.config.dot_syntax import Group
from modelflow.config.edit import GraphText
from modelflow.config.flow_config import PortRef
from modelflow.config.read_dot import read_dot
from modelflow.errors import ConfigError

EXAMPLES = int(os.environ.get("MODELFLOW_EDIT_EXAMPLES", "150"))

NAMES = ["a", "b", "c", "node1", "d e", "f:g", "ä", "if\\n", "-1"]
PLAIN = {"a", "b", "c", "node1", "ä", "-1"}
KEYS = ["x", "y", "device", "two words"]
VALUES = ["1", "2.5", "cuda", "a b", "", "it's", 'say "no"', "$arg", "0,1", "a\\b", "#", "->"]
GAPS = ["", " ", "  ", "\n", "\n\t", " /* c */ ", " # c -> d\n   ", " // [e]\n", "/*\n*/"]


def quoted(text):
    return '"' + text.replace('"', '\\"') + '"'


@st.composite
def written(draw, text):
    """A name or value as one may write it."""
    return text if text in PLAIN and draw(st.booleans()) else quoted(text)


class Writer:
    """Writes random DOT."""

    def __init__(self, draw):
        self.draw = draw
        self.noise = draw(st.integers(0, 2))

    def pick(self, options):
        return self.draw(st.sampled_from(options))

    def gap(self, usual):
        return (
            self.pick(GAPS) if self.noise and self.draw(st.integers(0, 9)) < self.noise else usual
        )

    def mention(self):
        name = self.draw(written(self.pick(NAMES)))
        if self.draw(st.integers(0, 3)):
            return name
        return name + self.gap("") + ":" + self.gap("") + self.pick(["in", '"out:0"', "n", "p:ne"])

    def attributes(self):
        parts = []
        for key in self.draw(st.lists(st.sampled_from(KEYS), max_size=3)):
            value = self.draw(written(self.pick(VALUES)))
            separator = self.pick([", ", ", ", "; ", " ", ",\n      "])
            parts.append(
                f"{quoted(key) if ' ' in key else key}{self.gap('=') and '='}{value}{separator}"
            )
        inside = "".join(parts)
        return f"[{inside if self.noise else inside.rstrip(' ,;')}]"

    def end(self, depth):
        if depth or self.draw(st.integers(0, 5)):
            return self.mention()
        return self.pick(["", "subgraph ", "subgraph s "]) + "{" + self.body(depth + 1) + "}"

    def statement(self, depth):
        kind = self.draw(st.integers(0, 11))
        if kind < 4:
            return self.mention() + self.pick(["", " "]) + self.attributes()
        if kind < 8:
            ends = [self.end(depth) for _ in range(self.draw(st.integers(2, 4)))]
            chain = ends[0]
            for end in ends[1:]:
                chain += self.gap(" ") + "->" + self.gap(" ") + end
            return chain + self.pick(["", "", " [style=dotted]", "[tailport=t]"])
        if kind == 8:
            return self.pick(["node", "node", "edge"]) + " " + self.attributes()
        if kind == 9:
            return self.pick(["queue_size=4", "graph [batch_size=2]", "edge [headport=h]"])
        return self.end(depth) if kind == 10 else self.mention()

    def body(self, depth):
        statements = [
            self.statement(depth) + self.pick(["", ";", " ;"])
            for _ in range(self.draw(st.integers(0, 6 if depth == 0 else 3)))
        ]
        if self.draw(st.integers(0, 3)) == 0:
            return " " + " ".join(statements) + self.pick(["", " "])
        indent = "    " * (depth + 1)
        lines = [indent + one + self.pick(["", "", "  # note", " /* n */"]) for one in statements]
        return "\n" + "".join(line + "\n" for line in lines) + "    " * depth


@st.composite
def dot_texts(draw):
    writer = Writer(draw)
    head = draw(st.sampled_from(["digraph", "strict digraph g", "# first\ndigraph 'g'"[:16]]))
    return f"{head} {{{writer.body(0)}}}{draw(st.sampled_from(['', chr(10)]))}"


FRAMES = {
    "dot": ("", ""),
    "literal": ("# top\n[graph]\n  graphconf = '''", "''' # end\n[flow]\nname = 'x'\n"),
    "basic": ('[flow]\nname = "x"\n[graph]\ngraphconf = """\n', '"""\n'),
    "single": ("graph = {graphconf = ", "}\n"),
}


def framed(frame, dot, is_crlf):
    before, after = FRAMES[frame]
    if frame == "basic":
        dot = dot.replace("\\", "\\\\").replace('""', '"\\"')
    if frame == "single":
        dot = quoted(dot.replace("\\", "\\\\")).replace("\n", "\\n").replace("\t", "\\t")
    text = before + dot + after
    return text.replace("\n", "\r\n") if is_crlf else text


def inner(frame, text):
    """The DOT text of a file, by the standard library."""
    return text if frame == "dot" else tomllib.loads(text)["graph"]["graphconf"]


def model(dot):
    graph = read_dot(dot)
    return (
        {node.name: dict(node.attributes) for node in graph.nodes},
        [(edge.source, edge.target) for edge in graph.edges],
        dict(graph.attributes),
        graph.name,
    )


def lines_about(dot, names):
    """The lines of the statements that name a node, of the innermost ones."""
    found = set()
    for _, statement in read_dot(dot).body.walk():
        inside = {end.name for end in statement.chain if not isinstance(end, Group)}
        groups = {name for end in statement.chain if isinstance(end, Group) for name in end.nodes}
        if names & (inside | (groups if statement.arrows else set())):
            first = dot.count("\n", 0, statement.start)
            found |= set(
                range(first, first + dot.count("\n", statement.start, statement.until) + 1)
            )
    return found


def is_subsequence(lines, others):
    others = iter(others)
    return all(line in others for line in lines)


def lines_changed(before, after):
    """How many lines of ``before`` an edit at one place has touched."""
    old, new = before.split("\n"), after.split("\n")
    same = next((n for n, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
    rest = min(len(old), len(new)) - same
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    return len(old) - same - end


def has_defaults(dot, word):
    return any(statement.word == word for _, statement in read_dot(dot).body.walk())


OPERATIONS = ["set", "unset", "add", "remove", "rename", "connect", "disconnect", "graph"]


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    dot=dot_texts(), frame=st.sampled_from(sorted(FRAMES)), is_crlf=st.booleans(), data=st.data()
)
def test_an_edit_does_what_it_says_and_nothing_else(dot, frame, is_crlf, data):
    if frame == "literal" and "'''" in dot:
        frame = "dot"
    form = "dot" if frame == "dot" else "toml"
    text = GraphText.read(framed(frame, dot, is_crlf), form)
    for _ in range(data.draw(st.integers(1, 5))):
        text = one_edit(text, frame, data.draw)


def one_edit(text, frame, draw):
    before = inner(frame, text.text)
    nodes, edges, attributes, name = model(before)
    assert {key: dict(value) for key, value in text.nodes.items()} == (
        nodes if "\r" not in text.text or frame != "dot" else dict(text.nodes)
    )
    options = OPERATIONS if nodes else ["add", "graph"]
    operation = draw(st.sampled_from(options))
    node = draw(st.sampled_from(sorted(nodes))) if nodes else None
    value = draw(st.sampled_from(VALUES))
    inverse, about, is_here = None, set(), False
    refusal = None
    try:
        if operation == "set":
            key = draw(st.sampled_from(KEYS))
            after = text.set(node, key, value)
            if key not in nodes[node] and node in owned(before):
                inverse = lambda: after.unset(node, key)  # noqa: E731
            nodes[node][key] = value
            is_here = True
        elif operation == "unset" and nodes[node]:
            key = draw(st.sampled_from(sorted(nodes[node])))
            after = text.unset(node, key)
            given_left = model(inner(frame, after.text))[0][node].get(key)
            del nodes[node][key]
            if given_left is not None:
                assert has_defaults(before, "node") or "{" in before.partition("{")[2]
                nodes[node][key] = given_left
            about = {node}
        elif operation == "add":
            new = fresh(draw(st.sampled_from(["new", "new node ", "Ü"])), nodes)
            given_to = draw(
                st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2)
            )
            after = text.add_node(new, given_to)
            found = model(inner(frame, after.text))[0]
            extra = {key: value for key, value in found[new].items() if key not in given_to}
            assert not extra or has_defaults(before, "node")
            place = list(found).index(new)
            items = list(nodes.items())
            nodes = dict([*items[:place], (new, {**extra, **given_to}), *items[place:]])
            inverse, is_here = (lambda: after.remove_node(new)), True
        elif operation == "remove":
            after = text.remove_node(node)
            del nodes[node]
            edges = [edge for edge in edges if node not in (edge[0].node, edge[1].node)]
            about = {node}
        elif operation == "rename":
            new = fresh("other", nodes)
            after = text.rename(node, new)
            nodes = {(new if key == node else key): given for key, given in nodes.items()}
            edges = [
                tuple(PortRef(new if e.node == node else e.node, e.port) for e in edge)
                for edge in edges
            ]
            about = {node}
            if node in PLAIN and node.isascii():  # "ä" is written with quotes
                inverse = lambda: after.rename(new, node)  # noqa: E731
        elif operation == "connect":
            ends = tuple(
                PortRef(end, draw(st.sampled_from([None, "in", "out:0", "p q"])))
                for end in (node, draw(st.sampled_from(sorted(nodes))))
            )
            if ends in edges:
                return text
            refusal = has_defaults(before, "edge") and None in (ends[0].port, ends[1].port)
            after = text.connect(*ends)
            place = model(inner(frame, after.text))[1].index(ends)
            edges = [*edges[:place], ends, *edges[place:]]
            inverse, is_here = (lambda: after.disconnect(*ends)), True
        elif operation == "disconnect" and edges:
            gone = draw(st.sampled_from(edges))
            after = text.disconnect(*gone)
            edges = [edge for edge in edges if edge != gone]
            about = {gone[0].node, gone[1].node}
        elif operation == "graph":
            key = draw(st.sampled_from(["queue_size", "batch_size"]))
            if frame != "dot" and key not in attributes:
                return text
            after = text.set_graph(key, 7)
            attributes[key] = "7"
            is_here = True
        else:
            return text
    except ConfigError as error:
        if operation == "unset":
            assert "by hand" in str(error)
            assert has_defaults(before, "node") or "{" in before.partition("{")[2]
        elif operation == "connect":
            assert refusal, str(error)
        elif frame == "literal":
            assert "'" in str(error)
        else:
            raise
        return text
    edited = inner(frame, after.text)
    found = model(edited)
    assert list(found[0].items()) == list(nodes.items())
    assert found[1:] == (edges, attributes, name)
    if is_here:
        assert lines_changed(text.text, after.text) <= 1
    else:
        touched = lines_about(before, about)
        kept = [line for n, line in enumerate(before.split("\n")) if n not in touched]
        assert is_subsequence(kept, edited.split("\n"))
    if inverse is not None:
        assert inverse().text == text.text
    return after


def fresh(name, nodes):
    return next(f"{name}{n}" for n in range(99) if f"{name}{n}" not in nodes)


def owned(dot):
    """The nodes with statements of their own, none of which has empty brackets."""
    found, empty = set(), set()
    for _, statement in read_dot(dot).body.walk():
        if len(statement.chain) == 1 and len(statement.chain[0].nodes) == 1:
            found |= set(statement.chain[0].nodes)
            if any(not one.attributes for one in statement.lists):
                empty |= set(statement.chain[0].nodes)
    return found - empty
