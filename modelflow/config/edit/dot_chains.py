"""Taking nodes and edges out of the chains of a DOT text: ``a -> b -> c``.

Which of them leaves the rest of the graph as it was, only reading tells: a mention may be the first
one of its node, and the edges inside a group come before those of the chain that it stands in.
"""

from dataclasses import dataclass
from itertools import pairwise

from modelflow.config.dot.syntax import Body, Group, NodeMention, Statement
from modelflow.config.dot.tokens import dot_word
from modelflow.config.edit.dot_statements import comments, is_first, put_behind, remove_tokens
from modelflow.config.edit.splice import Splice, indentation, line_end


@dataclass(frozen=True)
class Link:
    """One edge of a chain: at which arrow it stands, and the nodes that it connects."""

    number: int
    source: str
    target: str


def links_of(statement: Statement) -> list[Link]:
    """Returns the edges of a chain in the reader's order."""
    return [
        Link(number, source, target)
        for number, (sources, targets) in enumerate(pairwise(statement.chain))
        for source in sources.nodes
        for target in targets.nodes
    ]


def find_unlinked(
    statement: Statement, arrows: set[int], dropped: set[NodeMention]
) -> set[NodeMention]:
    """Returns the mentions that have no edge left in a chain.

    Args:
        statement: The chain.
        arrows: The places of the arrows that go.
        dropped: The mentions that go.
    """
    chain = statement.chain
    linked = [
        place not in arrows and not {source, target} & dropped
        for place, (source, target) in enumerate(pairwise(chain))
    ]
    beside = zip(chain, [False, *linked], [*linked, False], strict=True)
    return {
        end
        for end, has_source, has_target in beside
        if isinstance(end, NodeMention) and not (has_source or has_target or end in dropped)
    }


def find_repeated(
    body: Body, mentions: set[NodeMention], dropped: set[NodeMention]
) -> set[NodeMention]:
    """Returns those mentions that say nothing new: another in the same body comes before them.

    The first one of a body says that the node is there, in which order, with which defaults.
    """
    said: set[str] = set()
    found: set[NodeMention] = set()
    for mention in body.mentions():
        if mention in mentions and mention.name in said:
            found.add(mention)
        elif mention not in dropped:
            said.add(mention.name)
    return found


def cut(
    text: str, statement: Statement, arrows: set[int], dropped: set[NodeMention]
) -> list[Splice]:
    """Returns the splices that part a chain.

    Each part that has an edge keeps the attributes; a node that is left alone has none.

    Args:
        text: The whole text.
        statement: The chain.
        arrows: The places in it of the arrows that go; those at a dropped mention go too.
        dropped: The mentions that go.
    """
    chain = list(statement.chain)
    kept = [place for place, end in enumerate(chain) if end not in dropped]
    if not kept:
        return [remove_tokens(text, statement.start, statement.until)]
    linked = [later == place + 1 and place not in arrows for place, later in pairwise(kept)]
    lists = _lists(text, statement)
    parting = "; "
    if is_first(text, statement.start):
        ending = ";" * (statement.until > statement.end)
        parting = ending + line_end(text, statement.end) + indentation(text, statement.start)
    found = [_gap(text, statement.start, chain[kept[0]].start)]
    for number, (place, later) in enumerate(pairwise(kept)):
        if not linked[number]:
            start, end = chain[place].end, chain[later].start
            own = lists if number and linked[number - 1] else ""
            found.append(Splice(start, end, own + (comments(text[start:end]) or parting)))
    last = chain[kept[-1]].end
    if linked and linked[-1]:
        found.append(_gap(text, last, chain[-1].end))
    else:
        found.append(_gap(text, last, statement.end))
    return [splice for splice in found if splice.start < splice.end]


def _gap(text: str, start: int, end: int) -> Splice:
    return Splice(start, end, comments(text[start:end]))


def unfold(text: str, statement: Statement, gone: set[Link]) -> list[Splice]:
    """Returns the splices that write each edge of a chain by itself behind it, but those gone."""
    lists = _lists(text, statement)
    lines = [
        f"{_write(text, statement.chain[link.number], link.source)} -> "
        f"{_write(text, statement.chain[link.number + 1], link.target)}{lists}"
        for link in links_of(statement)
        if link not in gone
    ]
    return [put_behind(text, statement, lines)] if lines else []


def _write(text: str, end: NodeMention | Group, name: str) -> str:
    return dot_word(name) if isinstance(end, Group) else text[end.start : end.end]


def _lists(text: str, statement: Statement) -> str:
    """Returns the attributes of a chain as they are written behind it."""
    if not statement.lists:
        return ""
    start, end = statement.lists[0].start, statement.lists[-1].end
    return " " * (start > statement.chain[-1].end) + text[start:end]


def without_node(text: str, body: Body, name: str, *, drops_alone: bool) -> list[Splice]:
    """Returns the splices that take every mention of a node away, and its edges."""
    dropped = {mention for mention in body.mentions() if mention.name == name}
    return [
        splice
        for inside, statement in body.walk()
        if not dropped.isdisjoint(statement.chain)
        for splice in _part(
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
    return _part(text, inside, statement, {link}, set(), drops_alone)


def _part(
    text: str,
    body: Body,
    statement: Statement,
    gone: set[Link],
    dropped: set[NodeMention],
    drops_alone: bool,
) -> list[Splice]:
    """Parts a chain at the edges that go, to which the nodes left alone may go."""
    has_groups = any(isinstance(end, Group) for end in statement.chain)
    arrows = {link.number for link in links_of(statement) if has_groups or link in gone}
    alone = find_unlinked(statement, arrows, dropped)
    dropped = dropped | (alone if drops_alone else find_repeated(body, alone, dropped))
    behind = unfold(text, statement, gone) if has_groups else []
    return cut(text, statement, arrows, dropped) + behind
