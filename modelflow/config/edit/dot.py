"""Edits of one DOT text: selects the affected statements and rewrites them."""

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

    The methods expect that the edited nodes and edges exist. `modelflow.config.edit.graph_text`
    checks afterwards that the new text has the expected meaning.

    Attributes:
        name: The graph's name, or "".
        meaning: The meaning of the text.
    """

    def __init__(self, text: str, file: str = "<text>", first_line: int = 1) -> None:
        """Parses the text.

        Args:
            text: The DOT text.
            file: The name of the file, for messages.
            first_line: The line of ``file`` where the text begins.

        Raises:
            ConfigError: The text is not DOT.
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
        """Returns a value as DOT represents values: a text."""
        return dot_text(value)

    def give(self, values: Mapping[str, Mapping[str, Any]]) -> str:
        """Sets attributes of nodes, or removes attributes whose value is None.

        If the value in effect comes from a statement of the node alone, the new value replaces it.
        Otherwise the value goes into a statement of the node alone, which may be new.

        Raises:
            ConfigError: DOT cannot represent a value, or no statement of the node alone has the
                attribute to remove.
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
        """Returns the splice that adds a statement for a node, behind all mentions of the node."""
        if not attributes:
            return []
        line = f"{dot_word(node)}{self._blank()}[{_write_attributes(attributes)}]"
        return [self._put_behind(lambda statement: node in _names(statement), line)]

    def add_node(self, name: str, attributes: Mapping[str, Any]) -> str:
        """Adds a node behind the last node; an earlier ``node [...]`` applies to the new node.

        Raises:
            ConfigError: DOT cannot represent a name or a value.
        """
        written = _write_attributes({key: dot_text(value) for key, value in attributes.items()})
        line = dot_word(name) + (f"{self._blank()}[{written}]" if written else "")
        return apply_splices(self._text, [self._put_behind(_is_node, line)])

    def connect(self, source: PortRef, target: PortRef) -> str:
        """Adds an edge behind the last edge, and behind all statements about its nodes.

        Raises:
            ConfigError: DOT cannot represent a port.
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
        """Changes the name of a node in every mention.

        Raises:
            ConfigError: DOT cannot represent the name.
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
        """Removes a node, with its edges."""
        return self._part(lambda edge: name in (edge[0].node, edge[1].node), name)

    def disconnect(self, source: PortRef, target: PortRef) -> str:
        """Removes all edges between two ports."""
        return self._part((source, target).__eq__)

    def _part(self, is_gone: Callable[[Edge], bool], name: str | None = None) -> str:
        """Rewrites the chains that contain a removed edge or node."""
        splices: list[Splice] = []
        first_mentions: dict[int, dict[str, NodeMention]] = {}
        for body, statement in self._body.walk():
            gone = {place for place in statement.edges if is_gone(self.meaning.edges[place])}
            is_named = any(_is_mention(end) and end.nodes == (name,) for end in statement.chain)
            if not is_named and (not gone or name is not None):
                # A group that mentions the node is rewritten by its own statements.
                continue

            if id(body) not in first_mentions:
                mentions = reversed([*body.mentions()])
                first_mentions[id(body)] = {mention.name: mention for mention in mentions}
            # Splices of the group's statements, which come first, go into the rewritten chain.
            inside: list[Splice] = []
            while splices and splices[-1].start >= statement.start:
                inside.append(splices.pop())
            written = functools.partial(_piece, self._text, inside)
            lines = _without(first_mentions[id(body)], statement, gone, name, written)
            splices.append(replace_statement(self._text, statement, lines))
        return apply_splices(self._text, splices)

    def _put_behind(self, is_meant: Callable[[Statement], bool], line: str) -> Splice:
        """Returns the splice that adds a statement behind the last match, or at the end."""
        statements = self._body.statements
        if not statements:
            return put_into(self._text, self._body, line)
        found = next((one for one in reversed(statements) if is_meant(one)), statements[-1])
        return put_behind(self._text, found, line)

    def _blank(self) -> str:
        """Returns the text's separator between a node and its brackets: a blank, or nothing."""
        for statement in self._body.statements:
            if _is_node(statement) and statement.lists:
                between = self._text[statement.chain[0].end : statement.lists[0].start]
                return between if between.strip(" ") == "" else " "
        return " "


def refuse(what: str) -> str:
    """Returns the message for an edit that a DOT text does not allow."""
    return (
        f"{what}: cannot be changed alone: defaults (node [...], edge [...]) or a group of nodes "
        "({...}) set it; change them by hand"
    )


def _find_givers(statements: Sequence[Statement], key: str, *, is_to_go: bool) -> list[Statement]:
    """Returns the statements of one node alone in which an attribute must be written.

    Args:
        statements: The statements with attributes of the node, including groups with other nodes.
        key: The attribute.
        is_to_go: Whether to remove the attribute from all statements. Otherwise one statement sets
            it.
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
    """Returns the statements that replace a chain without some edges and without a node.

    Each run of nodes with edges between them stays a chain. A node without an edge stays at its
    first mention, because this mention declares the node, its order and its defaults. If the chain
    contains a group, each end and each edge gets a statement of its own.

    Args:
        first: The first mention of each node in the body of the chain.
        statement: The chain.
        gone: The positions of the removed edges.
        name: The removed node.
        written: Returns a piece of the text with the splices inside it applied.
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
    """Returns a piece of a text with the splices inside the piece applied."""
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
