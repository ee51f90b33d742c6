"""Edits of one DOT text, each as the few splices that it comes to.

Whatever the text looks like, an edit does what it says and nothing else: the text that it gives is
read, and compared with what the graph is to be. Where one way of writing it does not come to that
(defaults that apply there, a group of nodes), the next is tried, and at last the edit is refused.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from modelflow.config.dot.read import read_dot
from modelflow.config.dot.syntax import NodeMention, Statement
from modelflow.config.dot.tokens import dot_text, dot_word
from modelflow.config.edit.dot_chains import without_edge, without_node
from modelflow.config.edit.dot_meaning import Edge, Meaning
from modelflow.config.edit.dot_statements import (
    put_behind,
    put_first,
    put_last,
    with_attribute,
    with_value,
    without_attribute,
)
from modelflow.config.edit.splice import Splice, apply_splices
from modelflow.config.flow_config import PortRef
from modelflow.errors import ConfigError

Splices = list[Splice]
# Nodes that are left without an edge go from their chain, or stay where nothing before names them.
_BOTH = (True, False)


class DotEdits:
    """The edits of a DOT text; each method gives the splices of one.

    What they are about is there (`modelflow.config.edit.graph_text` looks first).

    Attributes:
        name: The graph's name, or "".
        attributes: Those of the graph itself.
        nodes: The attributes of each node, defaults among them.
        edges: In order.
    """

    def __init__(self, text: str, file: str = "<text>", first_line: int = 1) -> None:
        """Reads the text.

        Args:
            text: The DOT text.
            file: Where it stands, for messages.
            first_line: The line of ``file`` that it begins in.

        Raises:
            ConfigError: it is not DOT.
        """
        graph = read_dot(text, file, first_line)
        self._text = text
        self._body = graph.body
        self._meaning = meaning = Meaning.of(graph)
        self.name, self.attributes = meaning.name, meaning.attributes
        self.nodes: Mapping[str, Mapping[str, str]] = meaning.given
        self.edges: tuple[Edge, ...] = meaning.edges

    # -- attributes -----------------------------------------------------------------------------

    def set_attribute(self, node: str, key: str, value: Any) -> Splices:
        """Gives a node an attribute: in place of the value in effect, else behind its others.

        Raises:
            ConfigError: DOT cannot hold the value, or the node cannot have it here.
        """
        text = dot_text(value)
        given = self.nodes[node]
        if given.get(key) == text:
            return []
        expected = self._meaning.giving(node, {**given, key: text})
        return self._first(self._ways_to_set(node, key, text), expected.__eq__, f"{node}.{key}")

    def unset_attribute(self, node: str, key: str) -> Splices:
        """Takes away what a node itself says of an attribute; a default may then hold.

        Raises:
            ConfigError: the node says nothing of it: defaults or a group do.
        """
        splices = self._without(node, key)
        given = {name: text for name, text in self.nodes[node].items() if name != key}
        others = self._meaning.giving(node, given)

        def is_expected(meaning: Meaning) -> bool:
            left = {name: text for name, text in meaning.given.get(node, {}).items() if name != key}
            return left == given and meaning.giving(node, given) == others

        return self._first([splices] if splices else [], is_expected, f"{node}.{key}")

    def set_everywhere(self, key: str, values: Mapping[str, str | None]) -> Splices | None:
        """Gives several nodes an attribute, or takes it from them (None), read and compared once.

        Returns:
            None: it cannot be done in one go; node by node it may be.
        """
        splices: Splices = []
        expected = self._meaning
        for node, value in values.items():
            given = {name: text for name, text in expected.given[node].items() if name != key}
            if value is None:
                splices += self._without(node, key)
            else:
                given = {**expected.given[node], key: value}
                splices += next(self._ways_to_set(node, key, value))
            expected = expected.giving(node, given)
        splices.sort(key=lambda splice: (splice.start, splice.end))
        if any(one.end > other.start for one, other in itertools.pairwise(splices)):
            return None
        return splices if self._means(splices) == expected else None

    def set_graph(self, key: str, value: Any) -> Splices:
        """Gives the graph an attribute.

        Raises:
            ConfigError: DOT cannot hold the value.
        """
        text = dot_text(value)
        found = [
            attribute
            for statement in self._body.statements
            if statement.word in ("=", "graph")
            for attribute in statement.attributes
            if attribute.name == key
        ]
        if found and found[-1].value == text:
            return []
        attributes = {**self.attributes, key: text}
        expected = replace(self._meaning, attributes=attributes)
        if found:
            ways = [[with_value(self._text, found[-1], text)]]
        else:
            line = f"{dot_word(key)}={dot_word(text)}"
            ways = [[put(self._text, self._body, line)] for put in (put_first, put_last)]
        return self._first(ways, expected.__eq__, key)

    def _ways_to_set(self, node: str, key: str, text: str) -> Iterator[Splices]:
        """Gives the ways, best first: a value in place, an own statement's brackets, a new one."""
        own = self._own_statements(node)
        there = [one for statement in own for one in statement.attributes if one.name == key]
        if there:
            yield [with_value(self._text, there[-1], text)]
        written, blank = f"{dot_word(key)}={dot_word(text)}", self._blank()
        if own:
            statement = next((one for one in own if one.lists), own[0])
            yield with_attribute(self._text, statement, written, blank)
        line = f"{dot_word(node)}{blank}[{written}]"
        yield from self._ways_to_add(line, self._is_node)

    # -- nodes ----------------------------------------------------------------------------------

    def add_node(self, name: str, attributes: Mapping[str, Any]) -> Splices:
        """Adds a node behind the last one; ``node [...]`` further up applies to it.

        Raises:
            ConfigError: DOT cannot hold a name or a value.
        """
        texts = {key: dot_text(value) for key, value in attributes.items()}
        written = ", ".join(f"{dot_word(key)}={dot_word(text)}" for key, text in texts.items())
        line = dot_word(name) + (f"{self._blank()}[{written}]" if texts else "")

        def is_expected(meaning: Meaning) -> bool:
            given = meaning.given.get(name, {})
            return meaning.without_node(name) == self._meaning and texts.items() <= given.items()

        return self._first(self._ways_to_add(line, self._is_node), is_expected, name)

    def remove_node(self, name: str) -> Splices:
        """Takes a node away, with its edges.

        Raises:
            ConfigError: the text cannot be parted so.
        """
        expected = self._meaning.without_node(name)
        ways = (without_node(self._text, self._body, name, drops_alone=drops) for drops in _BOTH)
        return self._first(ways, expected.__eq__, name)

    def rename(self, old: str, new: str) -> Splices:
        """Gives a node another name wherever it is mentioned.

        Raises:
            ConfigError: DOT cannot hold the name.
        """
        splices = [
            Splice(
                mention.start,
                mention.name_end,
                dot_word(new, in_quotes=self._text[mention.start] == '"'),
            )
            for mention in self._body.mentions()
            if mention.name == old
        ]
        return self._first([splices], self._meaning.rename(old, new).__eq__, old)

    # -- edges ----------------------------------------------------------------------------------

    def connect(self, source: PortRef, target: PortRef) -> Splices:
        """Adds an edge behind the last one.

        Raises:
            ConfigError: DOT cannot hold a port, or ``edge [...]`` gives it others.
        """
        line = " -> ".join(
            dot_word(end.node) + (f":{dot_word(end.port)}" if end.port is not None else "")
            for end in (source, target)
        )

        def is_expected(meaning: Meaning) -> bool:
            places = [place for place, edge in enumerate(meaning.edges) if edge == (source, target)]
            return any(meaning.without_edge(place) == self._meaning for place in places)

        ways = self._ways_to_add(line, lambda statement: bool(statement.arrows))
        return self._first(ways, is_expected, line)

    def disconnect(self, source: PortRef, target: PortRef) -> Splices:
        """Takes an edge away, the last one where it stands several times.

        Raises:
            ConfigError: the text cannot be parted so.
        """
        place = max(n for n, edge in enumerate(self.edges) if edge == (source, target))
        expected = self._meaning.without_edge(place)
        ways = (without_edge(self._text, self._body, place, drops_alone=drops) for drops in _BOTH)
        return self._first(ways, expected.__eq__, f"{source} -> {target}")

    # -- ways -----------------------------------------------------------------------------------

    def _first(
        self,
        ways: Iterable[Splices],
        is_expected: Callable[[Meaning], bool],
        what: str,
    ) -> Splices:
        """Returns the first way whose text means what is expected."""
        for splices in ways:
            meaning = self._means(splices)
            if meaning is not None and is_expected(meaning):
                return splices
        raise ConfigError(
            f"{what}: cannot be changed here without changing more: defaults (node [...], "
            "edge [...]) or a group of nodes ({...}) say something of it; change them by hand"
        )

    def _means(self, splices: Splices) -> Meaning | None:
        """Returns what the text says with some splices; None: it is no DOT any more."""
        try:
            return Meaning.of(read_dot(apply_splices(self._text, splices)))
        except ConfigError:
            return None

    def _ways_to_add(self, line: str, is_alike: Callable[[Statement], bool]) -> Iterator[Splices]:
        """Gives the ways to add a statement: behind the last of its kind, at the end."""
        alike = [statement for statement in self._body.statements if is_alike(statement)]
        if alike:
            yield [put_behind(self._text, alike[-1], [line])]
        yield [put_last(self._text, self._body, line)]

    def _own_statements(self, node: str) -> list[Statement]:
        return [statement for _, statement in self._body.walk() if statement.gives_to_alone(node)]

    def _without(self, node: str, key: str) -> Splices:
        """Returns the splices that take an attribute out of a node's own statements."""
        own = self._own_statements(node)
        return [splice for one in own for splice in without_attribute(self._text, one, key)]

    def _blank(self) -> str:
        """Returns what the text writes between a node and its brackets: a blank, or nothing."""
        for statement in self._body.statements:
            if self._is_node(statement) and statement.lists:
                between = self._text[statement.chain[0].end : statement.lists[0].start]
                return between if between.strip(" ") == "" else " "
        return " "

    @staticmethod
    def _is_node(statement: Statement) -> bool:
        return len(statement.chain) == 1 and isinstance(statement.chain[0], NodeMention)
