"""A node or an edge taken out of a DOT text: the statements that name it are parted.

A chain of nodes is parted where an edge goes. In a chain with groups each edge that stays is
written by itself behind it: the edges inside a group come before those of its chain.
"""

from modelflow.config.dot_chain import Link, cut, left_alone, links_of, said_before, unfolded
from modelflow.config.dot_syntax import Body, Group, Mention, Statement
from modelflow.config.splice import Splice

__all__ = ["without_edge", "without_node"]


def without_node(text: str, body: Body, name: str, *, drops_alone: bool) -> list[Splice]:
    """Returns the splices that take every mention of a node away, and its edges."""
    dropped = {mention for mention in body.mentions() if mention.name == name}
    return [
        splice
        for inside, statement in body.walk()
        if not dropped.isdisjoint(statement.chain)
        for splice in _parted(
            text,
            inside,
            statement,
            {link for link in links_of(statement) if name in (link.source, link.target)},
            dropped,
            drops_alone,
        )
    ]


def without_edge(text: str, body: Body, place: int, *, drops_alone: bool) -> list[Splice]:
    """Returns the splices that take the edge at a place among all edges away."""
    inside, statement = next(found for found in body.walk() if place in found[1].edges)
    link = links_of(statement)[place - statement.edges.start]
    return _parted(text, inside, statement, {link}, set(), drops_alone)


def _parted(
    text: str,
    body: Body,
    statement: Statement,
    gone: set[Link],
    dropped: set[Mention],
    drops_alone: bool,
) -> list[Splice]:
    """Parts a chain at the edges that go, to which the nodes left alone may go."""
    has_groups = any(isinstance(end, Group) for end in statement.chain)
    arrows = {link.number for link in links_of(statement) if has_groups or link in gone}
    alone = left_alone(statement, arrows, dropped)
    dropped = dropped | (alone if drops_alone else said_before(body, alone, dropped))
    behind = unfolded(text, statement, gone) if has_groups else []
    return cut(text, statement, arrows, dropped) + behind
