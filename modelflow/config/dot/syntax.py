"""The syntax of a DOT text: statements with their spans.

A span is ``[start, end)`` in characters of the text. These classes describe how the text is
written; `read_dot.DotGraph` describes its meaning.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Attribute(NamedTuple):
    """The attribute ``name=value``, or a name alone, which means ``name=true``.

    Attributes:
        name, value: The name and the value, without quotes.
        start, name_end: The span of the written name.
        value_start: The start of the value, or None without a value.
        end: The end of the value, or of the name.
        until: The end of the following ``,`` or ``;``, or `end` without a separator.
    """

    name: str
    value: str
    start: int
    name_end: int
    value_start: int | None
    end: int
    until: int


class AttributeList(NamedTuple):
    """An attribute list ``[...]``, with its brackets."""

    start: int
    end: int
    attributes: tuple[Attribute, ...]


class NodeMention(NamedTuple):
    """A mention of a node in a statement: the span of its name, and the end of its port."""

    name: str
    start: int
    name_end: int
    end: int

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node as a tuple; a `Group` may have several nodes."""
        return (self.name,)


class Group(NamedTuple):
    """A group ``{...}`` or ``subgraph NAME {...}``, with the nodes that are mentioned inside."""

    start: int
    end: int
    body: "Body"
    nodes: tuple[str, ...]


class Statement(NamedTuple):
    """One statement of a body.

    Attributes:
        start, end: The span.
        until: The end of the ``;`` behind the statement, or `end` without ``;``.
        word: ``node``, ``edge`` or ``graph`` for defaults or attributes of the graph. ``=`` for an
            attribute without brackets, which is a list with one attribute. "" for nodes and edges.
        chain: The ends of the edges, in order. A statement about nodes has one end.
        lists: The attribute lists.
        edges: The positions of the statement's own edges among the edges of the graph.
    """

    start: int
    end: int
    until: int
    word: str
    chain: tuple[NodeMention | Group, ...] = ()
    lists: tuple[AttributeList, ...] = ()
    edges: range = range(0)

    @property
    def attributes(self) -> Iterator[Attribute]:
        """The attributes of all lists."""
        return (attribute for found in self.lists for attribute in found.attributes)


class Body(NamedTuple):
    """The statements between two braces; the span excludes the braces."""

    start: int
    end: int
    statements: tuple[Statement, ...]

    def walk(self) -> Iterator[tuple["Body", Statement]]:
        """Yields every statement with its body; statements of groups come before their own group's.

        This is the order in which the statements take effect.
        """
        for statement in self.statements:
            for end in statement.chain:
                if isinstance(end, Group):
                    yield from end.body.walk()
            yield self, statement

    def mentions(self) -> Iterator[NodeMention]:
        """Yields every mention of a node in the order of the text."""
        for statement in self.statements:
            for end in statement.chain:
                if isinstance(end, Group):
                    yield from end.body.mentions()
                else:
                    yield end
