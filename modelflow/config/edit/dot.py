"""Edits of one DOT text: the statements that an edit is about, and how they are written anew."""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from modelflow.config.dot.read import read_dot
from modelflow.config.dot.syntax import Group, NodeMention, Statement
from modelflow.config.dot.tokens import dot_text, dot_word
from modelflow.config.edit.dot_statements import (
    put_behind,
    put_into,
    replace_name,
    replace_statement,
    with_attributes,
)
from modelflow.config.edit.meaning import Edge, Meaning
from modelflow.config.edit.statements import Splice, apply_splices
from modelflow.config.flow_config import PortRef
from modelflow.errors import ConfigError


class DotEdits:
    """The edits of a DOT text; each method returns the new text.

    What they are about is there, and whether the new text says what was asked is looked at behind
    them (`modelflow.config.edit.graph_text`).

    Attributes:
        name: The graph's name, or "".
        meaning: What the text says.
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
        self.name = graph.name
        self.meaning = Meaning(
            tuple(node.name for node in graph.nodes),
            {node.name: node.attributes for node in graph.nodes},
            tuple((edge.source, edge.target) for edge in graph.edges),
            {"dot": {**graph.attributes, "digraph": graph.name}},
        )

    def value_of(self, value: Any, _old: Any) -> str:
        """Returns a value as DOT has it: a text."""
        return dot_text(value)

    def give(self, values: Mapping[str, Mapping[str, Any]]) -> str:
        """Gives nodes attributes, or takes them away (None).

        A value is written in the place of the one in effect, where a statement of the node alone
        gives it; else into a statement of the node alone, which may be new.

        Raises:
            ConfigError: DOT cannot hold a value, or no statement of the node alone gives what is to
                go.
        """
        givers: dict[str, list[Statement]] = {}
        for _, statement in self._body.walk():
            for node in statement.chain[0].nodes if len(statement.chain) == 1 else ():
                givers.setdefault(node, []).append(statement)
        changes: dict[Statement, dict[str, str | None]] = {}
        added: list[Splice] = []
        for node, attributes in values.items():
            new: dict[str, str] = {}
            for key, value in attributes.items():
                found = _find_givers(givers.get(node, ()), key, is_to_go=value is None)
                for statement in found:
                    changes.setdefault(statement, {})[key] = value
                if not found and value is None:
                    raise ConfigError(refuse(f"{node}.{key}"))
                if not found:
                    new[key] = value
            added += self._new_statement(node, new)
        rewritten = (
            replace_statement(
                self._text, one, [with_attributes(self._text, one, change, self._blank())]
            )
            for one, change in changes.items()
        )
        return apply_splices(self._text, [*rewritten, *added])

    def _new_statement(self, node: str, attributes: Mapping[str, str]) -> list[Splice]:
        """Returns the splice that gives a node a statement, behind all that names it."""
        if not attributes:
            return []
        line = f"{dot_word(node)}{self._blank()}[{_write_attributes(attributes)}]"
        return [self._put_behind(lambda statement: node in _names(statement), line)]

    def add_node(self, name: str, attributes: Mapping[str, Any]) -> str:
        """Adds a node behind the last one; ``node [...]`` further up applies to it.

        Raises:
            ConfigError: DOT cannot hold a name or a value.
        """
        written = _write_attributes({key: dot_text(value) for key, value in attributes.items()})
        line = dot_word(name) + (f"{self._blank()}[{written}]" if written else "")
        return apply_splices(self._text, [self._put_behind(_is_node, line)])

    def connect(self, source: PortRef, target: PortRef) -> str:
        """Adds an edge behind the last one, and behind all that is said of its nodes.

        Raises:
            ConfigError: DOT cannot hold a port.
        """
        line = " -> ".join(
            dot_word(end.node) + (f":{dot_word(end.port)}" if end.port is not None else "")
            for end in (source, target)
        )

        def is_before(statement: Statement) -> bool:
            return len(statement.chain) > 1 or not _names(statement).isdisjoint(
                (source.node, target.node)
            )

        return apply_splices(self._text, [self._put_behind(is_before, line)])

    def rename(self, old: str, new: str) -> str:
        """Gives a node another name wherever it is mentioned.

        Raises:
            ConfigError: DOT cannot hold the name.
        """
        return apply_splices(
            self._text,
            [
                replace_name(self._text, mention.start, mention.name_end, new)
                for mention in self._body.mentions()
                if mention.name == old
            ],
        )

    def remove_node(self, name: str) -> str:
        """Takes a node away, with its edges."""
        return self._part(lambda edge: name in (edge[0].node, edge[1].node), name)

    def disconnect(self, source: PortRef, target: PortRef) -> str:
        """Takes an edge away, however often it stands."""
        return self._part((source, target).__eq__)

    def _part(self, is_gone: Callable[[Edge], bool], name: str | None = None) -> str:
        """Writes the chains anew that some edges or a node are to leave."""
        splices: list[Splice] = []
        first_mentions: dict[int, dict[str, NodeMention]] = {}
        for body, statement in self._body.walk():
            gone = {place for place in statement.edges if is_gone(self.meaning.edges[place])}
            is_named = any(_is_mention(end) and end.nodes == (name,) for end in statement.chain)
            if not is_named and (not gone or name is not None):
                continue  # where a group names it, it leaves the group

            if id(body) not in first_mentions:
                mentions = reversed([*body.mentions()])
                first_mentions[id(body)] = {mention.name: mention for mention in mentions}
            inside: list[Splice] = []
            while splices and splices[-1].start >= statement.start:
                inside.append(splices.pop())
            written = functools.partial(_piece, self._text, inside)
            lines = _without(first_mentions[id(body)], statement, gone, name, written)
            splices.append(replace_statement(self._text, statement, lines))
        return apply_splices(self._text, splices)

    def _put_behind(self, is_meant: Callable[[Statement], bool], line: str) -> Splice:
        """Returns the splice that puts a statement behind the last one that is meant, or of all."""
        statements = self._body.statements
        if not statements:
            return put_into(self._text, self._body, line)
        found = next((one for one in reversed(statements) if is_meant(one)), statements[-1])
        return put_behind(self._text, found, line)

    def _blank(self) -> str:
        """Returns what the text writes between a node and its brackets: a blank, or nothing."""
        for statement in self._body.statements:
            if _is_node(statement) and statement.lists:
                between = self._text[statement.chain[0].end : statement.lists[0].start]
                return between if between.strip(" ") == "" else " "
        return " "


def refuse(what: str) -> str:
    """Returns what to say of an edit that is not possible in a DOT text."""
    return (
        f"{what}: cannot be changed here without changing more: defaults (node [...], "
        "edge [...]) or a group of nodes ({...}) say something of it; change them by hand"
    )


def _find_givers(statements: Sequence[Statement], key: str, *, is_to_go: bool) -> list[Statement]:
    """Returns the statements of one node alone in which an attribute is to be written.

    Args:
        statements: Those that give the node something, groups with others among them.
        key: The attribute.
        is_to_go: It goes from everywhere; otherwise it is written in one place.
    """
    own = [one for one in statements if _is_node(one)]
    giving = [one for one in statements if any(given.name == key for given in one.attributes)]
    if is_to_go:
        return [one for one in own if one in giving]
    if giving:
        return [one for one in giving[-1:] if one in own]
    return [one for one in own if one.lists][:1] or own[:1]


def _without(
    first: Mapping[str, NodeMention],
    statement: Statement,
    gone: Collection[int],
    name: str | None,
    written: Callable[[int, int], str],
) -> list[str]:
    """Returns the statements that a chain becomes without some edges and without a node.

    Each run of nodes with edges between them stays a chain. A node without an edge stays where it
    is mentioned first: that says that it is there, in which order and with which defaults. Where a
    group is in the chain, each end of it and each edge gets a statement.

    Args:
        first: Where each node is mentioned first in the body of the chain.
        statement: The chain.
        gone: The places of the edges that go.
        name: The node that goes.
        written: Returns a piece of the text with what has changed inside it.
    """
    chain = statement.chain
    links = [
        (number, source, target)
        for number, ends in enumerate(pairwise(chain))
        for source in ends[0].nodes
        for target in ends[1].nodes
    ]
    left = [link for place, link in zip(statement.edges, links, strict=True) if place not in gone]
    has_groups = not all(map(_is_mention, chain))
    linked = set() if has_groups else {number for number, _, _ in left}
    runs = [[chain[0]]]
    for number, end in enumerate(chain[1:]):
        if number in linked:
            runs[-1].append(end)
        else:
            runs.append([end])
    lists = written(chain[-1].end, statement.end)
    lines = [
        written(run[0].start, run[-1].end) + (lists if len(run) > 1 else "")
        for run in runs
        if len(run) > 1
        or isinstance(run[0], Group)
        or (run[0].name != name and first[run[0].name] is run[0])
    ]
    if has_groups:
        lines += [
            f"{_write_end(chain[number], source, written)} -> "
            f"{_write_end(chain[number + 1], target, written)}{lists}"
            for number, source, target in left
        ]
    return lines


def _piece(text: str, splices: list[Splice], start: int, end: int) -> str:
    """Returns a piece of a text with the splices inside it put in."""
    inside = [
        Splice(one.start - start, one.end - start, one.text)
        for one in splices
        if start <= one.start and one.end <= end
    ]
    return apply_splices(text[start:end], inside)


def _write_end(end: NodeMention | Group, name: str, written: Callable[[int, int], str]) -> str:
    return dot_word(name) if isinstance(end, Group) else written(end.start, end.end)


def _write_attributes(attributes: Mapping[str, str]) -> str:
    return ", ".join(f"{dot_word(key)}={dot_word(value)}" for key, value in attributes.items())


def _names(statement: Statement) -> set[str]:
    return {name for end in statement.chain for name in end.nodes}


def _is_mention(end: NodeMention | Group) -> bool:
    return isinstance(end, NodeMention)


def _is_node(statement: Statement) -> bool:
    return len(statement.chain) == 1 and _is_mention(statement.chain[0])
