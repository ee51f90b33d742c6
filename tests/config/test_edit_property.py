"""Tests of random edits of random texts: each has its effect, and no other effect."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelflow.config.dot.read import read_dot
from modelflow.config.dot.syntax import Group
from modelflow.config.edit.graph_text import GraphText
from modelflow.config.flow_config import PortRef
from modelflow.errors import ConfigError
from tests.config.random_dot import KEYS, PLAIN, VALUES, dot_texts

FRAMES = {
    "dot": ("", ""),
    "literal": ("# top\n[graph]\n  graphconf = '''", "''' # end\n[flow]\nname = 'x'\n"),
    "basic": ('[flow]\nname = "x"\n[graph]\ngraphconf = """\n', '"""\n'),
    "single": ("graph = {graphconf = ", "}\n"),
}


COMMENTS = ["/* c */", "# c -> d", "// [e]", "/*\n*/", "# note", "/* n */"]


def framed(frame, dot, is_crlf):
    before, after = FRAMES[frame]
    if frame == "basic":
        dot = tomlkit.string(dot, multiline=True).as_string()[3:-3]
    if frame == "single":
        dot = tomlkit.string(dot).as_string()
    text = before + dot + after
    return text.replace("\n", "\r\n") if is_crlf else text


def inner(frame, text):
    """Returns the DOT text of a file, found with the standard library."""
    return text if frame == "dot" else tomllib.loads(text)["graph"]["graphconf"]


@dataclass
class Model:
    """The content of a DOT text; each operation changes the model as the text should change."""

    name: str
    attributes: dict[str, str]
    nodes: dict[str, dict[str, Any]]
    edges: list[tuple[PortRef, PortRef]]

    @classmethod
    def of(cls, dot):
        graph = read_dot(dot)
        return cls(
            graph.name,
            dict(graph.attributes),
            {node.name: dict(node.attributes) for node in graph.nodes},
            [(edge.source, edge.target) for edge in graph.edges],
        )


def lines_about(dot, names):
    """Returns the lines of the innermost statements that name a node."""
    found = set()
    for _, statement in read_dot(dot).body.walk():
        inside = {end.name for end in statement.chain if not isinstance(end, Group)}
        groups = {name for end in statement.chain if isinstance(end, Group) for name in end.nodes}
        if names & (inside | (groups if len(statement.chain) > 1 else set())):
            first = dot.count("\n", 0, statement.start)
            found |= set(
                range(first, first + dot.count("\n", statement.start, statement.until) + 1)
            )
    return found


def is_subsequence(lines, others):
    others = iter(others)
    return all(line in others for line in lines)


def lines_changed(before, after):
    """Returns how many lines of ``before`` an edit at one place has touched."""
    old, new = before.split("\n"), after.split("\n")
    same = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    rest = min(len(old), len(new)) - same
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    return len(old) - same - end


def has_defaults(dot, word):
    return any(statement.word == word for _, statement in read_dot(dot).body.walk())


@dataclass
class Edit:
    """An operation that was done.

    Attributes:
        after: The text after the operation.
        about: The nodes whose statements may change; None if the edit is at one place.
        inverse: The operation that reverts the edit.
    """

    after: GraphText
    about: set[str] | None = None
    inverse: Callable[[], GraphText] | None = None


# Each operation takes the text, its DOT, the model, and a function that draws. It edits the text
# and the model, and returns the edit, or None if it has nothing to do.


def set_attribute(text, dot, model, draw):
    node, key = draw(st.sampled_from(sorted(model.nodes))), draw(st.sampled_from(KEYS))
    after = text.set(node, key, value := draw(st.sampled_from(VALUES)))
    is_new = key not in model.nodes[node] and node in owned(dot)
    model.nodes[node][key] = value
    return Edit(after, None, (lambda: after.unset(node, key)) if is_new else None)


def unset(text, dot, model, draw):
    given = {node: given for node, given in model.nodes.items() if given}
    if not given:
        return None
    node = draw(st.sampled_from(sorted(given)))
    key = draw(st.sampled_from(sorted(given[node])))
    after = text.unset(node, key)
    del given[node][key]
    if key in after.nodes[node]:
        assert gives_otherwise(dot)
        given[node][key] = after.nodes[node][key]
    return Edit(after, {node})


def add_node(text, dot, model, draw):
    name = fresh(draw(st.sampled_from(["new", "new node ", "Ü"])), model.nodes)
    given = draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2))
    after = text.add_node(name, given)
    defaults = {key: value for key, value in after.nodes[name].items() if key not in given}
    assert not defaults or has_defaults(dot, "node")
    nodes = list(model.nodes.items())
    nodes.insert(list(after.nodes).index(name), (name, defaults | given))
    model.nodes = dict(nodes)
    return Edit(after, None, lambda: after.remove_node(name))


def remove_node(text, dot, model, draw):
    name = draw(st.sampled_from(sorted(model.nodes)))
    del model.nodes[name]
    model.edges = [edge for edge in model.edges if name not in (edge[0].node, edge[1].node)]
    return Edit(text.remove_node(name), {name})


def rename(text, dot, model, draw):
    old, new = draw(st.sampled_from(sorted(model.nodes))), fresh("other", model.nodes)
    names = {name: new if name == old else name for name in model.nodes}
    model.nodes = {names[name]: given for name, given in model.nodes.items()}
    model.edges = [tuple(PortRef(names[e.node], e.port) for e in edge) for edge in model.edges]
    after = text.rename(old, new)
    is_plain = old in PLAIN and old.isascii()  # other names are written with quotes
    return Edit(after, {old}, (lambda: after.rename(new, old)) if is_plain else None)


def connect(text, dot, model, draw):
    nodes, ports = st.sampled_from(sorted(model.nodes)), [None, "in", "out:0", "p q"]
    ends = tuple(PortRef(draw(nodes), draw(st.sampled_from(ports))) for _ in range(2))
    if ends in model.edges:
        return None
    after = text.connect(*ends)
    model.edges.insert(after.edges.index(ends), ends)
    return Edit(after, None, lambda: after.disconnect(*ends))


def disconnect(text, dot, model, draw):
    if not model.edges:
        return None
    gone = draw(st.sampled_from(model.edges))
    model.edges = [edge for edge in model.edges if edge != gone]
    return Edit(text.disconnect(*gone), {gone[0].node, gone[1].node})


OPERATIONS = [add_node, set_attribute, unset, remove_node, rename, connect, disconnect]


def fresh(name, nodes):
    return next(f"{name}{n}" for n in range(99) if f"{name}{n}" not in nodes)


def owned(dot):
    """Returns the nodes with statements of their own, none of which has empty brackets."""
    found, empty = set(), set()
    for _, statement in read_dot(dot).body.walk():
        if len(statement.chain) == 1 and not isinstance(statement.chain[0], Group):
            found |= set(statement.chain[0].nodes)
            if any(not one.attributes for one in statement.lists):
                empty |= set(statement.chain[0].nodes)
    return found - empty


def gives_otherwise(dot):
    """Returns whether nodes may have attributes that they do not give themselves."""
    return has_defaults(dot, "node") or "{" in dot.partition("{")[2]


def may_refuse(operation, dot):
    """Returns whether the operation may be impossible in a text."""
    if operation is unset:
        return gives_otherwise(dot)
    return operation is connect and has_defaults(dot, "edge")


@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    dot=dot_texts(), frame=st.sampled_from(sorted(FRAMES)), is_crlf=st.booleans(), data=st.data()
)
def test_an_edit_does_what_it_says_and_nothing_else(dot, frame, is_crlf, data):
    frame = "basic" if frame == "literal" and "'''" in dot else frame
    text = GraphText.read(framed(frame, dot, is_crlf), "dot" if frame == "dot" else "toml")
    for _ in range(data.draw(st.integers(1, 5))):
        before = inner(frame, text.text)
        model = Model.of(before)
        operation = data.draw(st.sampled_from(OPERATIONS if model.nodes else [add_node]))
        try:
            edit = operation(text, before, model, data.draw)
        except ConfigError as error:
            reason = str(error)
        else:
            if edit is not None:
                check(edit, text, before, model, frame)
                text = edit.after
            continue
        assert may_refuse(operation, before), reason


def check(edit, text, before, model, frame):
    after = inner(frame, edit.after.text)
    found = Model.of(after)
    assert found == model
    assert list(found.nodes) == list(model.nodes)
    for comment in COMMENTS:  # a comment at an end of a group's edges is written for each of them
        assert after.count(comment) >= before.count(comment)
    if edit.about is None:
        assert lines_changed(text.text, edit.after.text) <= 1
    else:
        touched = lines_about(before, edit.about)
        kept = [line for n, line in enumerate(before.split("\n")) if n not in touched]
        assert is_subsequence(kept, after.split("\n"))
    if edit.inverse is not None:
        assert edit.inverse().text == text.text
