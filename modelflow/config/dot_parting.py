"""The ways to take a node or an edge out of a DOT text, best first.

Which of them leaves the rest of the graph as it was, only reading tells: a mention may be the first
one of its node, and the edges inside a group come before those of the chain that it stands in.
"""

from collections.abc import Iterator

from modelflow.config.dot_chain import cut, left_alone, links_of, said_before, unfolded
from modelflow.config.dot_layout import taken_away
from modelflow.config.dot_syntax import Body, Group, Mention, Statement
from modelflow.config.splice import Splice

__all__ = ["ways_to_disconnect", "ways_to_remove"]


def ways_to_remove(text: str, body: Body, name: str) -> Iterator[list[Splice]]:
    """Gives the ways to take every mention of a node away, and its edges.

    First the nodes that are left alone in their chains go too, then only where they are mentioned
    before; at last each edge of a chain of groups is written by itself, which keeps their order.
    """
    yield _without(text, body, name, is_bold=True)
    yield _without(text, body, name)
    yield _without(text, body, name, is_unfolded=True)


def ways_to_disconnect(text: str, body: Body, place: int) -> Iterator[list[Splice]]:
    """Gives the ways to take the edge at a place among all edges away.

    The chain is parted, or the group at one of its ends gets smaller, or each edge of the chain is
    written by itself.
    """
    inside, statement = next(found for found in body.walk() if place in found[1].edges)
    link = links_of(statement)[place - statement.edges.start]
    ends = statement.chain[link.number : link.number + 2]
    if all(isinstance(end, Mention) for end in ends):
        for is_bold in (True, False):
            yield _parted(text, inside, statement, {link.number}, set(), is_bold=is_bold)
    for end, name in zip(ends, (link.source, link.target), strict=True):
        if isinstance(end, Group):
            yield _out_of(text, end, name)
    parted = _parted(text, inside, statement, _arrows(statement), set())
    yield parted + unfolded(text, statement, {link})


def _without(
    text: str, body: Body, name: str, *, is_bold: bool = False, is_unfolded: bool = False
) -> list[Splice]:
    gone = {mention for mention in body.mentions() if mention.name == name}
    dropped = set(gone)
    splices: list[Splice] = []
    for inside, statement in body.walk():
        if gone.isdisjoint(statement.chain):
            continue
        if is_unfolded and any(isinstance(end, Group) for end in statement.chain):
            links = {link for link in links_of(statement) if name in (link.source, link.target)}
            splices += _parted(text, inside, statement, _arrows(statement), dropped)
            splices += unfolded(text, statement, links)
        else:
            splices += _parted(text, inside, statement, set(), dropped, is_bold=is_bold)
    return splices


def _parted(
    text: str,
    body: Body,
    statement: Statement,
    arrows: set[int],
    dropped: set[Mention],
    *,
    is_bold: bool = False,
) -> list[Splice]:
    """Parts a chain at ``arrows`` and what is ``dropped``, to which the nodes left alone go."""
    alone = left_alone(statement, arrows, dropped)
    dropped |= alone if is_bold else said_before(body, alone, dropped)
    return cut(text, statement, arrows, dropped)


def _out_of(text: str, group: Group, name: str) -> list[Splice]:
    """Takes a node out of a group that names it alone in a statement."""
    named = [one for one in group.body.statements if one.gives_to_alone(name) and not one.lists]
    return [taken_away(text, one.start, one.until) for one in named]


def _arrows(statement: Statement) -> set[int]:
    return set(range(len(statement.arrows)))
