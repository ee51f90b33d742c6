"""Computes a drawing of a graph's text, even if the text has errors. Pure.

Nodes and edges are the written ones. Ports are the ports of the units, and ports that edges name.
Parts that do not fit are drawn and marked.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from modelflow.config.edit.graph_text import GraphText
from modelflow.config.flow_config import PortRef, read_position
from modelflow.draw.outline import PORT, Outline, OutlineEdge, OutlineNode, mark_of
from modelflow.errors import ModelflowError
from modelflow.graph.check.loops import Successors, find_cycle, in_order
from modelflow.graph.node import Role
from modelflow.registry.registry import Registry
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec

MISSING = "missing"
"""The kind of a node with an unknown unit, or a node that only edges name."""


@dataclass(frozen=True)
class CardPort:
    """A drawn port.

    Attributes:
        name: The port's name. "" if an edge names no port and the unit has no port that it means.
        port: The unit's port. None if the unit is unknown or has no such port.
        is_used: Whether an edge ends at the port.
    """

    name: str
    port: Port | None
    is_used: bool = False


@dataclass(frozen=True)
class NodeCard:
    """A drawn node.

    Attributes:
        name: The node's name.
        role: ``input``, ``output``, ``flowunit``, or any other text of the attribute.
        unit: The name of the node's unit. "" for the graph's own ports.
        spec: The unit. None if the unit is unknown.
        attributes: The attributes as written.
        inputs, outputs: The ports, in order.
    """

    name: str
    role: str
    unit: str
    spec: FlowUnitSpec | None
    attributes: Mapping[str, Any]
    inputs: tuple[CardPort, ...] = ()
    outputs: tuple[CardPort, ...] = ()

    @property
    def kind(self) -> str:
        """The kind that selects the colour."""
        if self.role in (Role.INPUT, Role.OUTPUT):
            return PORT
        if self.spec is None:
            return MISSING
        return str(self.attributes.get("device") or "cpu").partition(":")[0]


@dataclass(frozen=True)
class EdgeLine:
    """A drawn edge: its ends as written, and the ports that they mean."""

    source: PortRef
    target: PortRef
    output: str
    input: str


@dataclass(frozen=True)
class Sketch:
    """A drawn graph.

    Attributes:
        name: The graph's name.
        cards: The nodes by name, in the order of the data flow where it has one.
        strands: The edges, in the order of the file.
    """

    name: str
    cards: Mapping[str, NodeCard] = field(default_factory=dict)
    strands: tuple[EdgeLine, ...] = ()

    @property
    def outline(self) -> Outline:
        """The graph in the form for `layout_of`."""
        nodes = tuple(
            OutlineNode(
                card.name,
                card.kind,
                (card.name, card.unit or card.role),
                tuple(port.name for port in card.inputs),
                tuple(port.name for port in card.outputs),
                read_position(card.attributes.get("pos")),
                "" if card.spec is None else mark_of(card.spec),
            )
            for card in self.cards.values()
        )
        edges = tuple(
            OutlineEdge(one.source.node, one.output, one.target.node, one.input)
            for one in self.strands
        )
        return Outline(self.name, nodes, edges)


def sketch_of(text: GraphText, registry: Registry) -> Sketch:
    """Returns the drawing of a text.

    Args:
        text: The text.
        registry: The registry to look up units.
    """
    cards = {name: _card(name, given, registry) for name, given in text.nodes.items()}
    for end in (end for edge in text.edges for end in edge):
        cards.setdefault(end.node, NodeCard(end.node, Role.FLOWUNIT, "", None, {}))
    strands = []
    for source, target in text.edges:
        first = cards[source.node]
        is_input = first.role == Role.INPUT
        output = source.node if is_input else _resolve(first.outputs, source.port)
        cards[source.node] = replace(first, outputs=_with(first.outputs, output))
        last = cards[target.node]
        is_output = last.role == Role.OUTPUT
        into = target.node if is_output else _resolve(last.inputs, target.port)
        cards[target.node] = replace(last, inputs=_with(last.inputs, into))
        strands.append(EdgeLine(source, target, output, into))
    order = _in_order(cards, strands)
    return Sketch(text.name, {name: cards[name] for name in order}, tuple(strands))


def _card(name: str, given: Mapping[str, Any], registry: Registry) -> NodeCard:
    role = str(given.get("type") or Role.FLOWUNIT)
    if role == Role.INPUT:
        return NodeCard(name, role, "", None, given, outputs=(CardPort(name, Port(name)),))
    if role == Role.OUTPUT:
        return NodeCard(name, role, "", None, given, inputs=(CardPort(name, Port(name)),))
    unit = str(given.get("flowunit") or name)
    if registry.knows(unit):  # the check reports an unknown unit
        with contextlib.suppress(ModelflowError):  # the check reports a unit with errors, too
            spec = registry.find(unit)
            inputs, outputs = _ports(spec.inputs), _ports(spec.outputs)
            return NodeCard(name, role, unit, spec, given, inputs, outputs)
    return NodeCard(name, role, unit, None, given)


def _ports(ports: Iterable[Port]) -> tuple[CardPort, ...]:
    return tuple(CardPort(port.name, port) for port in ports)


def _resolve(ports: Sequence[CardPort], written: str | None) -> str:
    """Returns the port that an end of an edge means, or "" if that is ambiguous.

    An end without a name means the only port that is not optional; see `Node.main_port`.
    """
    if written is not None:
        return written
    known = [one for one in ports if one.port is not None]
    needed = [one for one in known if one.port is not None and not one.port.is_optional]
    found = needed if len(needed) == 1 else known
    return found[0].name if len(found) == 1 else ""


def _with(ports: tuple[CardPort, ...], used: str) -> tuple[CardPort, ...]:
    """Marks a port as used, and adds a missing port."""
    if used not in [port.name for port in ports]:
        return (*ports, CardPort(used, None, is_used=True))
    return tuple(replace(port, is_used=True) if port.name == used else port for port in ports)


def _in_order(cards: Mapping[str, NodeCard], strands: Iterable[EdgeLine]) -> list[str]:
    """Returns the nodes in the order of the data flow; edges that close a circle are ignored."""
    successors: Successors = {name: [] for name in cards}
    for strand in strands:
        successors[strand.source.node].append(strand.target.node)
    while cycle := find_cycle(successors):
        last, first = cycle[-1]
        successors[last].remove(first)
    return in_order(successors)
