"""DOT, as Graphviz reads it, to nodes and edges that know their lines."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from modelflow.config.dot_tokens import Token, TokenKind, tokens_of
from modelflow.config.flow_config import EdgeConfig, NodeConfig, PortRef
from modelflow.errors import ConfigError, Finding, Location

__all__ = ["DotGraph", "read_dot"]

_COMPASS = frozenset(("n", "ne", "e", "se", "s", "sw", "w", "nw", "c", "_"))
_MAX_DEPTH = 50
# Of a text from outside: `{a b c} -> {d e f}` is a product, and defaults are copied to each node.
_MOST = 200_000
# What tells a node from another: of two values, one is a mistake.
_IDENTITY = ("type", "flowunit")


@dataclass(frozen=True)
class DotGraph:
    """What a DOT text says.

    Attributes:
        name: The graph's name, or "".
        attributes: Those of the graph itself (``queue_size=8``, ``graph [..]``).
        nodes, edges: In the order of their first mention.
        notes: Sentences for the user about values that are replaced further down.
    """

    name: str
    attributes: Mapping[str, str]
    nodes: tuple[NodeConfig, ...]
    edges: tuple[EdgeConfig, ...]
    notes: tuple[str, ...] = ()


def read_dot(text: str, file: str = "<text>", first_line: int = 1) -> DotGraph:
    """Parses one directed graph.

    Args:
        text: The DOT text.
        file: Where it stands, for messages.
        first_line: The line of ``file`` that the text begins in.

    Raises:
        ConfigError: with the line, what was found and what was expected.
    """
    return _Parser(tokens_of(text, file, first_line), file).graph()


@dataclass
class _Scope:
    """The defaults that hold inside one pair of braces."""

    node: dict[str, str] = field(default_factory=dict)
    edge: dict[str, str] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)

    def inner(self) -> "_Scope":
        return _Scope(dict(self.node), dict(self.edge))


class _Parser:
    """A recursive-descent parser with one token of look-ahead."""

    def __init__(self, tokens: Iterator[Token], file: str) -> None:
        self._tokens = tokens
        self._file = file
        self._token = next(tokens)
        self._attributes: dict[str, str] = {}
        self._nodes: dict[str, dict[str, str]] = {}
        self._lines: dict[str, int] = {}
        self._edges: list[EdgeConfig] = []
        # Node -> attribute -> the value that the node's own statements give, and its line.
        self._given: dict[str, dict[str, tuple[str, int]]] = {}
        self._notes: list[str] = []
        self._depth = 0
        self._copies = 0

    def graph(self) -> DotGraph:
        if self._is_word("strict"):
            self._next()
        if self._is_word("graph"):
            self._fail("got an undirected 'graph'; expected 'digraph', with '->' for edges")
        if not self._is_word("digraph"):
            self._fail(f"got {self._described()}; expected 'digraph'")
        self._next()
        name = self._value("a name") if self._token.is_value else ""
        self._body(_Scope(), is_top=True)
        if self._token.kind is not TokenKind.END:
            self._fail(f"got {self._described()} behind the graph; expected nothing more")
        nodes = tuple(
            NodeConfig(node, attributes, Location(self._file, self._lines[node]))
            for node, attributes in self._nodes.items()
        )
        return DotGraph(name, self._attributes, nodes, tuple(self._edges), tuple(self._notes))

    # -- statements -----------------------------------------------------------------------------

    def _body(self, scope: _Scope, is_top: bool) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(f"subgraphs are nested more than {_MAX_DEPTH} deep")
        self._expect("{")
        while not self._accept("}"):
            if not self._accept(";"):
                self._statement(scope, is_top)
        self._depth -= 1

    def _statement(self, scope: _Scope, is_top: bool) -> None:
        for word, defaults in (("node", scope.node), ("edge", scope.edge), ("graph", None)):
            if self._is_word(word):
                self._next()
                found = self._attribute_lists()
                if defaults is not None:
                    defaults.update(found)
                elif is_top:
                    self._attributes.update(found)
                return
        if self._token.is_value:
            line, name = self._token.line, self._value("a name")
            if not self._is_subgraph_word(name) and self._accept("="):
                value = self._value("a value")
                if is_top:
                    self._attributes[name] = value
                return
            ends = self._endpoint_of(name, line, scope)
        else:
            line = self._token.line
            ends = self._endpoint(scope)
        self._edge_or_node(ends, line, scope)

    def _is_subgraph_word(self, name: str) -> bool:
        return name.lower() == "subgraph" and not self._is_symbol("=")

    def _edge_or_node(self, ends: list[PortRef], line: int, scope: _Scope) -> None:
        chain = [ends]
        while self._is_symbol("->") or self._is_symbol("--"):
            if self._is_symbol("--"):
                self._fail("got '--'; expected '->': edges are directed")
            self._next()
            chain.append(self._endpoint(scope))
        attributes = self._attribute_lists()
        if len(chain) == 1:
            self._spend(len(ends) * len(attributes))
            for end in ends:
                self._give(end.node, attributes, line)
            return
        self._spend(len(scope.edge) + sum(len(a) * len(b) for a, b in itertools.pairwise(chain)))
        attributes = {**scope.edge, **attributes}
        location = Location(self._file, line)
        for sources, targets in itertools.pairwise(chain):
            for source in sources:
                for target in targets:
                    tail = PortRef(source.node, source.port or attributes.get("tailport"))
                    head = PortRef(target.node, target.port or attributes.get("headport"))
                    self._edges.append(EdgeConfig(tail, head, location))

    def _give(self, node: str, attributes: Mapping[str, str], line: int) -> None:
        """Gives a node what a statement of its own says; a later value goes before, with a note."""
        given = self._given.setdefault(node, {})
        for key, value in attributes.items():
            before, first_line = given.get(key, (value, line))
            if before != value and key in _IDENTITY:
                at = Location(self._file, line)
                problem = (
                    f"DOT: node {node!r}: got {key}={value}, but line {first_line} says {before}; "
                    "expected one node of that name; rename one"
                )
                raise ConfigError([Finding(at, problem, error=ConfigError)])
            if before != value:
                self._notes.append(
                    f"{self._file}:{line}: node {node!r}: {key}={value} replaces {key}={before} of "
                    f"line {first_line}; are these two nodes?"
                )
            given[key] = value, line
        self._nodes[node].update(attributes)

    def _spend(self, copies: int) -> None:
        self._copies += copies
        if self._copies > _MOST:
            self._fail(f"the graph comes to more than {_MOST} edges and attributes")

    # -- endpoints ------------------------------------------------------------------------------

    def _endpoint(self, scope: _Scope) -> list[PortRef]:
        if self._is_symbol("{"):
            return self._subgraph(scope)
        if not self._token.is_value:
            self._fail(f"got {self._described()}; expected a node, an attribute or '}}'")
        line = self._token.line
        return self._endpoint_of(self._value("a node"), line, scope)

    def _endpoint_of(self, name: str, line: int, scope: _Scope) -> list[PortRef]:
        if self._is_subgraph_word(name) and (self._is_symbol("{") or self._token.is_value):
            if self._token.is_value:
                self._next()
            return self._subgraph(scope)
        port = None
        if self._accept(":"):
            port = self._value("a port")
            if self._accept(":"):
                part = self._value("a compass point, or the rest of the port's name")
                if part not in _COMPASS:  # TensorFlow's ports are called so: output:0
                    port = f"{port}:{part}"
        if name not in self._nodes:
            self._spend(1 + len(scope.node))
            self._nodes[name] = dict(scope.node)
            self._lines[name] = line
        scope.names[name] = None
        return [PortRef(name, port)]

    def _subgraph(self, scope: _Scope) -> list[PortRef]:
        self._spend(1 + len(scope.node) + len(scope.edge))
        inner = scope.inner()
        self._body(inner, is_top=False)
        self._spend(len(inner.names))
        scope.names.update(inner.names)
        return [PortRef(name) for name in inner.names]

    # -- attributes -----------------------------------------------------------------------------

    def _attribute_lists(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self._accept("["):
            while not self._accept("]"):
                name = self._value("an attribute or ']'")
                found[name] = self._value("a value") if self._accept("=") else "true"
                if not self._accept(","):
                    self._accept(";")
        return found

    def _value(self, expected: str) -> str:
        token = self._token
        if not token.is_value:
            self._fail(f"got {self._described()}; expected {expected}")
        self._next()
        text = token.text
        while token.kind is TokenKind.QUOTED and self._accept("+"):
            if self._token.kind is not TokenKind.QUOTED:
                self._fail(f"got {self._described()} behind '+'; expected a quoted text")
            text += self._token.text
            self._next()
        return text

    # -- tokens ---------------------------------------------------------------------------------

    def _next(self) -> None:
        self._token = next(self._tokens)

    def _is_word(self, word: str) -> bool:
        return self._token.kind is TokenKind.ID and self._token.text.lower() == word

    def _is_symbol(self, symbol: str) -> bool:
        return self._token.kind is TokenKind.SYMBOL and self._token.text == symbol

    def _accept(self, symbol: str) -> bool:
        if self._is_symbol(symbol):
            self._next()
            return True
        return False

    def _expect(self, symbol: str) -> None:
        if not self._accept(symbol):
            self._fail(f"got {self._described()}; expected {symbol!r}")

    def _described(self) -> str:
        token = self._token
        return token.kind.value if token.kind is TokenKind.END else repr(token.text)

    def _fail(self, problem: str) -> None:
        at = Location(self._file, self._token.line)
        raise ConfigError([Finding(at, f"DOT: {problem}", error=ConfigError)])
