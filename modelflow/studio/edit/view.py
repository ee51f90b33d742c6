"""Computes the page's view of a draft as JSON values (``studio/src/edit/view.ts``: ``View``)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from modelflow.draw.shapes import SIGNS, Box, Layout, Point
from modelflow.errors import ConfigError, Finding, Location, PlanError
from modelflow.graph.advice import advice
from modelflow.plan import make_plan
from modelflow.studio.edit.catalog import port_document, show_value
from modelflow.studio.edit.draft import Draft
from modelflow.studio.edit.picture.placing import place_nodes
from modelflow.studio.edit.picture.sketch import CardPort, NodeCard, Sketch
from modelflow.studio.moments import card_size
from modelflow.unit.port import Port

# An advice for the command line. A page has a field instead.
_GIVE = re.compile(r"give one with --arg (\w+)=VALUE")
# The beginning of an error of the plan.
_PLACE = re.compile(
    r"(?P<file>.+?):(?P<line>\d+): (?:node '(?P<node>[^']*)': )?(?P<what>.*)", re.DOTALL
)


_NOWHERE: Mapping[str, Point] = MappingProxyType({})


def view_of(draft: Draft, places: Mapping[str, Point] = _NOWHERE) -> dict[str, Any]:
    """Returns text, picture, findings and plan of a draft.

    Args:
        draft: The draft.
        places: The middles of the boxes in the last picture; see `place_nodes`.
    """
    checked = draft.check
    try:
        sketch: Sketch | None = draft.sketch
    except ConfigError:  # no graph, which the check reports
        sketch = None
    graph, findings = checked
    plan: dict[str, dict[str, str]] = {}
    if graph is not None:
        try:
            plan = {row["node"]: row for row in make_plan(graph).rows()}
        except PlanError as error:
            findings = (_finding_of(error, draft),)
    return {
        "text": draft.text,
        "picture": None if sketch is None else _picture(sketch, places),
        "findings": [_finding(finding, str(draft.path)) for finding in findings],
        "notes": [] if graph is None else [*graph.notes, *map(str, advice(graph))],
        "plan": plan,
        "args": _args(draft),
        "is_typed": sketch is not None and draft.graph_text.is_typed,
    }


def _args(draft: Draft) -> list[dict[str, str]]:
    """Returns the arguments of the graph, or none if the text cannot be read."""
    try:
        args = draft.config.args.values()
    except ConfigError:  # the findings give the reason
        return []
    return [
        {"name": arg.name, "help": arg.desc, "default": show_value(arg.default)} for arg in args
    ]


def _finding_of(error: PlanError, draft: Draft) -> Finding:
    """Converts an error of the plan to a finding at the place that the error names."""
    found = _PLACE.fullmatch(str(error))
    if found is None:
        return Finding(Location(str(draft.path)), str(error))
    location = Location(found["file"], int(found["line"]))
    return Finding(location, found["what"], found["node"])


def _finding(finding: Finding, file: str) -> dict[str, Any]:
    message = _GIVE.sub(r"give \1 a value among the arguments", finding.message)
    elsewhere = finding.location.file if finding.location.file != file else ""
    return {
        "message": f"{elsewhere}: {message}" if elsewhere else message,
        "line": None if elsewhere else finding.location.line,
        "node": finding.node,
        "port": finding.port,
    }


# -- the picture ----------------------------------------------------------------------------------


def _picture(sketch: Sketch, places: Mapping[str, Point]) -> dict[str, Any]:
    outline = sketch.outline
    sizes = {node.name: card_size(node.name, node.kind) for node in outline.nodes}
    layout = place_nodes(outline, sizes, places)
    nodes = zip(layout.boxes, sketch.cards.values(), outline.nodes, strict=True)
    return {
        "name": sketch.name,
        **_place(layout),
        "boxes": [_box(box, card, node.position is not None) for box, card, node in nodes],
        "wires": [
            {
                "source": strand.source.node,
                "output": strand.output,
                "target": strand.target.node,
                "input": strand.input,
                "written": [asdict(strand.source), asdict(strand.target)],
                "path": wire.path,
            }
            for strand, wire in zip(sketch.strands, layout.wires, strict=True)
        ],
    }


def _place(one: Box | Layout) -> dict[str, float]:
    return {"x": one.x, "y": one.y, "width": one.width, "height": one.height}


def _box(box: Box, card: NodeCard, is_pinned: bool) -> dict[str, Any]:
    return {
        "name": card.name,
        "kind": box.kind,
        "role": card.role,
        "unit": card.unit,
        "attributes": {key: show_value(value) for key, value in card.attributes.items()},
        **_place(box),
        "pinned": is_pinned,
        "mark": box.mark,
        "sign": SIGNS.get(box.mark, ""),
        "inputs": _ports(card.inputs, box.inputs, box, card),
        "outputs": _ports(card.outputs, box.outputs, box, card),
    }


def _ports(
    ports: Sequence[CardPort], order: Sequence[str], box: Box, card: NodeCard
) -> list[dict[str, Any]]:
    is_clear = card.spec is not None or not card.unit
    places = {name: place for place, name in enumerate(order)}
    return [
        {
            **port_document(port.port or Port(port.name)),
            "y": box.height * place / (len(ports) + 1),
            "used": port.is_used,
            "wrong": is_clear and port.port is None,
        }
        for place, port in enumerate(sorted(ports, key=lambda port: places[port.name]), 1)
    ]
