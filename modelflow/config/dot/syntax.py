"""What stands where in a DOT text: the statements that the reader has found, with their spans.

A span is ``[start, end)`` in characters of the text. The values say how the text is written;
`read_dot.DotGraph` says what it means.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Attribute(NamedTuple):
    """``name=value``, or a name alone, which stands for ``name=true``.

    Attributes:
        name, value: What they say, without quotes.
        start, name_end: The span of the name as written.
        value_start: Where the value begins; None where there is none.
        end: Behind the value, or the name.
        until: Behind the ``,`` or ``;`` that follows; `end` where there is none.
    """

    name: str
    value: str
    start: int
    name_end: int
    value_start: int | None
    end: int
    until: int


class AttributeList(NamedTuple):
    """``[...]``, with its brackets."""

    start: int
    end: int
    attributes: tuple[Attribute, ...]


class NodeMention(NamedTuple):
    """A node, named in a statement: its name's span, and the end of its port."""

    name: str
    start: int
    name_end: int
    end: int

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that an edge from or to it has: this one."""
        return (self.name,)


class Group(NamedTuple):
    """``{...}`` or ``subgraph NAME {...}``, with the nodes that are named in it."""

    start: int
    end: int
    body: "Body"
    nodes: tuple[str, ...]


class Statement(NamedTuple):
    """One statement of a body.

    Attributes:
        start, end: Its span.
        until: Behind the ``;`` that ends it; `end` where there is none.
        word: ``node``, ``edge`` or ``graph`` where it gives defaults or the graph's attributes;
            ``=`` for an attribute without brackets, which is a list of one; "" for nodes and edges.
        chain: The ends of its edges in a row; one alone where it names nodes.
        lists: Its attributes.
        edges: The places of its own edges among those of the graph.
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
        """Gives the attributes of all its lists."""
        return (attribute for found in self.lists for attribute in found.attributes)


class Body(NamedTuple):
    """The statements between two braces, which do not belong to its span."""

    start: int
    end: int
    statements: tuple[Statement, ...]

    def walk(self) -> Iterator[tuple["Body", Statement]]:
        """Gives every statement with the body that it stands in, those of groups before their own.

        This is the order in which they take effect.
        """
        for statement in self.statements:
            for end in statement.chain:
                if isinstance(end, Group):
                    yield from end.body.walk()
            yield self, statement

    def mentions(self) -> Iterator[NodeMention]:
        """Gives every mention of a node in the order of the text."""
        for statement in self.statements:
            for end in statement.chain:
                if isinstance(end, Group):
                    yield from end.body.mentions()
                else:
                    yield end
