"""Parses DOT in Graphviz's syntax into nodes and edges with line numbers."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from modelflow.config.dot.syntax import (
    Attribute,
    AttributeList,
    Body,
    Group,
    NodeMention,
    Statement,
)
from modelflow.config.dot.tokens import Token, TokenKind, TokenReader, tokens_of
from modelflow.config.flow_config import EdgeConfig, NodeConfig, PortRef
from modelflow.errors import ConfigError, Finding, Location

_COMPASS = frozenset(("n", "ne", "e", "se", "s", "sw", "w", "nw", "c", "_"))
_MAX_DEPTH = 50
# Limit for a text from outside: `{a b c} -> {d e f}` is a product, and each node copies defaults.
_MOST = 200_000
# Attributes that identify the unit of a node: two different values are a mistake.
_IDENTITY = ("type", "flowunit")
_DEFAULTS = ("node", "edge", "graph")


@dataclass(frozen=True)
class DotGraph:
    """The content of a DOT text.

    Attributes:
        name: The graph's name, or "".
        attributes: The attributes of the graph itself (``queue_size=8``, ``graph [..]``).
        nodes, edges: The nodes and edges, in the order of their first mention.
        body: The statements; their spans are positions in the given text.
        notes: Notes for the user about values that a later statement replaces.
        has_variables: Whether names and values may contain variables of the environment.
    """

    name: str
    attributes: Mapping[str, str]
    nodes: tuple[NodeConfig, ...]
    edges: tuple[EdgeConfig, ...]
    body: Body = field(compare=False, repr=False)
    notes: tuple[str, ...] = ()
    has_variables: bool = True


def read_dot(text: str, file: str = "<text>", first_line: int = 1) -> DotGraph:
    """Parses one directed graph.

    Args:
        text: The DOT text.
        file: The name of the file, for messages.
        first_line: The line of ``file`` where the text begins.

    Raises:
        ConfigError: The text is not such a graph. The message has the line, the found text and the
            expected text.
    """
    return _Parser(tokens_of(text, file, first_line), file).graph("$" in text)


@dataclass
class _Scope:
    """The defaults inside one pair of braces."""

    node: dict[str, str] = field(default_factory=dict)
    edge: dict[str, str] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)

    def inner(self) -> "_Scope":
        return _Scope(dict(self.node), dict(self.edge))


class _Ends(NamedTuple):
    """One place of a chain: the ends of its edges, and its syntax."""

    refs: list[PortRef]
    written: NodeMention | Group


class _Parser(TokenReader):
    """A recursive-descent parser with one token of look-ahead."""

    def __init__(self, tokens: Iterator[Token], file: str) -> None:
        super().__init__(tokens, file)
        self._attributes: dict[str, str] = {}
        self._nodes: dict[str, dict[str, str]] = {}
        self._lines: dict[str, int] = {}
        self._edges: list[EdgeConfig] = []
        # Node -> attribute -> (value, line) from the node's own statements.
        self._given: dict[str, dict[str, tuple[str, int]]] = {}
        self._notes: list[str] = []
        self._depth = 0
        self._copies = 0

    def graph(self, has_variables: bool) -> DotGraph:
        if self.word() == "strict":
            self.next()
        if self.word() == "graph":
            self.fail("got an undirected 'graph'; expected 'digraph', with '->' for edges")
        if self.word() != "digraph":
            self.fail(f"got {self.describe()}; expected 'digraph'")
        self.next()
        name = self.value("a name") if self.is_value else ""
        body = self._body(_Scope(), is_top=True)
        if self.token.kind is not TokenKind.END:
            self.fail(f"got {self.describe()} behind the graph; expected nothing more")
        nodes = tuple(
            NodeConfig(node, attributes, Location(self.file, self._lines[node]))
            for node, attributes in self._nodes.items()
        )
        edges, notes = tuple(self._edges), tuple(self._notes)
        return DotGraph(name, self._attributes, nodes, edges, body, notes, has_variables)

    # -- statements -----------------------------------------------------------------------------

    def _body(self, scope: _Scope, is_top: bool) -> Body:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self.fail(f"subgraphs are nested more than {_MAX_DEPTH} deep")
        self.expect("{")
        start, statements = self.end, []
        while self.symbol != "}":
            if not self.accept(";"):
                statements.append(self._statement(scope, is_top))
        end = self.token.start
        self.next()
        self._depth -= 1
        return Body(start, end, tuple(statements))

    def _statement(self, scope: _Scope, is_top: bool) -> Statement:
        start = self.token.start
        word = self.word()
        if word in _DEFAULTS:
            self.next()
            lists = self._attribute_lists()
            if word != "graph":
                (scope.node if word == "node" else scope.edge).update(_values(lists))
            elif is_top:
                self._attributes.update(_values(lists))
            return self._end(start, word, lists=lists)
        if self.is_value:
            line, name, end = self.token.line, self.value("a name"), self.end
            if self.accept("="):
                at, value = self.token.start, self.value("a value")
                if is_top:
                    self._attributes[name] = value
                given = Attribute(name, value, start, end, at, self.end, self.end)
                return self._end(start, "=", lists=(AttributeList(start, self.end, (given,)),))
            ends = self._endpoint_of(name, start, line, scope)
        else:
            line = self.token.line
            ends = self._endpoint(scope)
        return self._edge_or_node(ends, line, scope)

    def _end(self, start: int, word: str = "", **parts: Any) -> Statement:
        until = self.token.end if self.symbol == ";" else self.end
        return Statement(start, self.end, until, word, **parts)

    def _edge_or_node(self, first: _Ends, line: int, scope: _Scope) -> Statement:
        chain = [first]
        while self.symbol in ("->", "--"):
            if self.symbol == "--":
                self.fail("got '--'; expected '->': edges are directed")
            self.next()
            chain.append(self._endpoint(scope))
        lists = self._attribute_lists()
        attributes = _values(lists)
        before = len(self._edges)
        if len(chain) == 1:
            self._spend(len(first.refs) * len(attributes))
            for end in first.refs:
                self._give(end.node, attributes, line)
        else:
            self._spend(len(scope.edge))
            self._connect([ends.refs for ends in chain], {**scope.edge, **attributes}, line)
        written = tuple(ends.written for ends in chain)
        edges = range(before, len(self._edges))
        return self._end(written[0].start, chain=written, lists=lists, edges=edges)

    def _connect(
        self, chain: list[list[PortRef]], attributes: Mapping[str, str], line: int
    ) -> None:
        self._spend(sum(len(a) * len(b) for a, b in itertools.pairwise(chain)))
        location = Location(self.file, line)
        for sources, targets in itertools.pairwise(chain):
            for source in sources:
                for target in targets:
                    tail = PortRef(source.node, source.port or attributes.get("tailport"))
                    head = PortRef(target.node, target.port or attributes.get("headport"))
                    self._edges.append(EdgeConfig(tail, head, location))

    def _give(self, node: str, attributes: Mapping[str, str], line: int) -> None:
        """Sets attributes of a node from its own statement; a changed value adds a note."""
        given = self._given.setdefault(node, {})
        for key, value in attributes.items():
            before, first_line = given.get(key, (value, line))
            if before != value and key in _IDENTITY:
                at = Location(self.file, line)
                problem = (
                    f"DOT: node {node!r}: got {key}={value}, but line {first_line} says {before}; "
                    "expected one node of that name; rename one"
                )
                raise ConfigError([Finding(at, problem, error=ConfigError)])
            if before != value:
                self._notes.append(
                    f"{self.file}:{line}: node {node!r}: {key}={value} replaces {key}={before} of "
                    f"line {first_line}; are these two nodes?"
                )
            given[key] = value, line
        self._nodes[node].update(attributes)

    def _spend(self, copies: int) -> None:
        self._copies += copies
        if self._copies > _MOST:
            self.fail(f"the graph comes to more than {_MOST} edges and attributes")

    # -- endpoints ------------------------------------------------------------------------------

    def _endpoint(self, scope: _Scope) -> _Ends:
        if self.symbol == "{":
            return self._subgraph(self.token.start, scope)
        if not self.is_value:
            self.fail(f"got {self.describe()}; expected a node, an attribute or '}}'")
        start, line = self.token.start, self.token.line
        return self._endpoint_of(self.value("a node"), start, line, scope)

    def _endpoint_of(self, name: str, start: int, line: int, scope: _Scope) -> _Ends:
        if name.lower() == "subgraph" and (self.symbol == "{" or self.is_value):
            if self.is_value:
                self.next()
            return self._subgraph(start, scope)
        port, name_end = None, self.end
        if self.accept(":"):
            port = self.value("a port")
            if self.accept(":"):
                part = self.value("a compass point, or the rest of the port's name")
                if part not in _COMPASS:  # TensorFlow has such port names: output:0
                    port = f"{port}:{part}"
        if name not in self._nodes:
            self._spend(1 + len(scope.node))
            self._nodes[name] = dict(scope.node)
            self._lines[name] = line
        scope.names[name] = None
        return _Ends([PortRef(name, port)], NodeMention(name, start, name_end, self.end))

    def _subgraph(self, start: int, scope: _Scope) -> _Ends:
        self._spend(1 + len(scope.node) + len(scope.edge))
        inner = scope.inner()
        body = self._body(inner, is_top=False)
        self._spend(len(inner.names))
        scope.names.update(inner.names)
        names = tuple(inner.names)
        return _Ends([PortRef(name) for name in names], Group(start, self.end, body, names))

    # -- attributes -----------------------------------------------------------------------------

    def _attribute_lists(self) -> tuple[AttributeList, ...]:
        lists = []
        while self.symbol == "[":
            start, attributes = self.token.start, []
            self.next()
            while self.symbol != "]":
                name_start, name = self.token.start, self.value("an attribute or ']'")
                name_end, at, value = self.end, None, "true"
                if self.accept("="):
                    at, value = self.token.start, self.value("a value")
                end = self.end
                if self.symbol in (",", ";"):
                    self.next()
                attributes.append(Attribute(name, value, name_start, name_end, at, end, self.end))
            self.next()
            lists.append(AttributeList(start, self.end, tuple(attributes)))
        return tuple(lists)


def _values(lists: tuple[AttributeList, ...]) -> dict[str, str]:
    return {given.name: given.value for found in lists for given in found.attributes}
