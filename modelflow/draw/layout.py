"""Where the boxes of a drawing stand: layers from left to right, few crossings. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelflow.graph.graph import Graph
from modelflow.graph.node import Edge, Node, Role

__all__ = ["Box", "Layout", "Wire", "layout_of"]

# Pixels. Widths of letters are those of a common sans-serif font.
LETTER, LINE = 7.2, 17.0
GAP_ACROSS, GAP_DOWN, MARGIN = 56.0, 22.0, 18.0
_SWEEPS = 8


@dataclass(frozen=True)
class Box:
    """A node in the drawing: its place, its lines of text, what decides its colour."""

    name: str
    lines: tuple[str, ...]
    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Wire:
    """An edge in the drawing, from ``start`` to ``end``, with its label."""

    start: tuple[float, float]
    end: tuple[float, float]
    label: str


@dataclass(frozen=True)
class Layout:
    """A whole drawing, in pixels; ``kinds`` are what the legend explains."""

    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    kinds: tuple[str, ...]
    width: float
    height: float


def layout_of(graph: Graph) -> Layout:
    """Places the nodes of ``graph`` in layers: each behind everything that feeds it."""
    layers = _layers(graph)
    for _ in range(_SWEEPS):
        _sort(layers, graph.edges, backwards=False)
        _sort(layers, graph.edges, backwards=True)
    sizes = {name: _size(node) for name, node in graph.nodes.items()}
    boxes: dict[str, Box] = {}
    tallest = max((_column_height(layer, sizes) for layer in layers), default=0.0)
    x = MARGIN
    for layer in layers:
        width = max(sizes[name][0] for name in layer)
        y = MARGIN + (tallest - _column_height(layer, sizes)) / 2
        for name in layer:
            own_width, height = sizes[name]
            node = graph.nodes[name]
            place = x + (width - own_width) / 2
            boxes[name] = Box(name, _lines(node), _kind(node), place, y, own_width, height)
            y += height + GAP_DOWN
        x += width + GAP_ACROSS
    wires = tuple(_wire(graph, edge, boxes) for edge in graph.edges)
    kinds = tuple(dict.fromkeys(box.kind for box in boxes.values()))
    return Layout(
        tuple(boxes.values()), wires, kinds, x - GAP_ACROSS + MARGIN, tallest + 2 * MARGIN + 34
    )


def _layers(graph: Graph) -> list[list[str]]:
    depth: dict[str, int] = {}
    for name in graph.nodes:  # in topological order
        feeding = [depth.get(edge.source.node, 0) for edge in graph.edges_into(name)]
        depth[name] = max(feeding, default=-1) + 1
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, place in depth.items():
        layers[place].append(name)
    return layers


def _sort(layers: list[list[str]], edges: Sequence[Edge], *, backwards: bool) -> None:
    """Orders each layer by the mean place of its neighbours in the layers before it."""
    places: dict[str, float] = {}
    for layer in reversed(layers) if backwards else layers:
        means = {}
        for place, name in enumerate(layer):
            near = [
                places[other]
                for edge in edges
                for here, other in (
                    (edge.source.node, edge.target.node)
                    if backwards
                    else (edge.target.node, edge.source.node),
                )
                if here == name and other in places
            ]
            means[name] = sum(near) / len(near) if near else float(place)
        layer.sort(key=means.__getitem__)
        places |= {name: place - len(layer) / 2 for place, name in enumerate(layer)}


def _size(node: Node) -> tuple[float, float]:
    lines = _lines(node)
    return max(len(line) for line in lines) * LETTER + 26, len(lines) * LINE + 18


def _column_height(layer: Sequence[str], sizes: Mapping[str, tuple[float, float]]) -> float:
    return math.fsum(sizes[name][1] for name in layer) + GAP_DOWN * (len(layer) - 1)


def _lines(node: Node) -> tuple[str, ...]:
    if node.role is not Role.FLOWUNIT:
        return (node.name, f"graph {node.role}")
    unit = node.spec.name if node.spec is not None else ""
    settings = node.settings
    extra = [
        f"{what} {value}"
        for what, value in (
            ("batch", settings.batch_size),
            ("queue", settings.queue_size),
            ("threads", settings.threads),
        )
        if value is not None
    ]
    devices = ", ".join(map(str, node.devices))
    lines = [node.name, *([unit] if unit != node.name else []), devices, " · ".join(extra)]
    return tuple(line for line in lines if line)


def _kind(node: Node) -> str:
    if node.role is not Role.FLOWUNIT:
        return "port"
    return node.devices[0].kind if node.devices else "cpu"


def _wire(graph: Graph, edge: Edge, boxes: Mapping[str, Box]) -> Wire:
    source, target = boxes[edge.source.node], boxes[edge.target.node]
    return Wire(
        (source.x + source.width, _port_y(graph, source, edge, is_source=True)),
        (target.x, _port_y(graph, target, edge, is_source=False)),
        _label(graph, edge),
    )


def _port_y(graph: Graph, box: Box, edge: Edge, *, is_source: bool) -> float:
    node = graph.nodes[box.name]
    ports = node.outputs if is_source else node.inputs
    port = edge.source.port if is_source else edge.target.port
    return box.y + box.height * (ports.index(port) + 1) / (len(ports) + 1)


def _label(graph: Graph, edge: Edge) -> str:
    """The ports, where the nodes at the ends have several."""
    source, target = graph.nodes[edge.source.node], graph.nodes[edge.target.node]
    ends = [edge.source.port] if len(source.outputs) > 1 else []
    ends += [edge.target.port] if len(target.inputs) > 1 else []
    return " → ".join(ends)
