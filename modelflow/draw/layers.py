"""Orders the boxes of a drawing in layers, with few crossings of edges. Pure functions.

An edge that passes over layers has a *lane* in each of these layers. An edge that leads back (of a
loop) has no lane, because its way is below all boxes. Example: for ``a -> b -> c`` and ``a -> c``
the layers are ``a``, ``b`` with the lane of the second edge, and ``c``.
"""

import itertools
import math
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from modelflow.draw.outline import Outline


class Lane(NamedTuple):
    """The place of an edge in a layer that the edge passes: the index of the edge, the layer."""

    edge: int
    layer: int


Slot = str | Lane
"""An item of a layer: a box by its name, or a lane."""

_SWEEPS = 8


class _End(NamedTuple):
    slot: Slot
    port: str


@dataclass
class Order:
    """The layers of a drawing, in the order of the data.

    Attributes:
        depth: The layer of each node.
        layers: The items of each layer, in order.
        inputs, outputs: The ports of each node, in the order with few crossings.
    """

    depth: dict[str, int]
    layers: list[list[Slot]]
    inputs: dict[str, tuple[str, ...]]
    outputs: dict[str, tuple[str, ...]]
    _gaps: "list[list[tuple[_End, _End]]]" = field(default_factory=list)

    @classmethod
    def of(cls, outline: Outline) -> "Order":
        """Returns the order of a graph: the best of several sweeps over the layers."""
        depth = _depths(outline)
        layers: list[list[Slot]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
        for name, layer in depth.items():
            layers[layer].append(name)
        gaps: list[list[tuple[_End, _End]]] = [[] for _ in layers]
        for place, edge in enumerate(outline.edges):
            first, last = depth[edge.source], depth[edge.target]
            lanes = [Lane(place, layer) for layer in range(first + 1, last)]
            for lane in lanes:
                layers[lane.layer].append(lane)
            if first < last:
                ends = [_End(edge.source, edge.output), *(_End(lane, "") for lane in lanes)]
                ends.append(_End(edge.target, edge.input))
                for gap, pair in enumerate(itertools.pairwise(ends), first):
                    gaps[gap].append(pair)
        inputs = {node.name: node.inputs for node in outline.nodes}
        outputs = {node.name: node.outputs for node in outline.nodes}
        order = best = cls(depth, layers, inputs, outputs, gaps)
        least = order._count_crossings()
        for _ in range(_SWEEPS):
            if not least:
                break
            order = order._sweep()
            crossings = order._count_crossings()
            if crossings < least:
                best, least = order, crossings
        return best

    def _sweep(self) -> "Order":
        """Returns an order after a sweep forwards and a sweep backwards."""
        layers = [list(layer) for layer in self.layers]
        order = Order(self.depth, layers, dict(self.inputs), dict(self.outputs), self._gaps)
        last = len(layers) - 1
        for layer in range(1, last + 1):
            order._sort(layer, [(target, source) for source, target in self._gaps[layer - 1]], -1)
        for layer in range(last - 1, -1, -1):
            order._sort(layer, self._gaps[layer], 1)
        for layer in range(1, last + 1):  # the neighbours of these ports have moved
            pairs = [(target, source) for source, target in self._gaps[layer - 1]]
            order._sort_ports(layer, _means(pairs, order._places(layer - 1, -1)), -1)
        return order

    def _sort(self, layer: int, pairs: Sequence[tuple[_End, _End]], side: int) -> None:
        """Orders a layer and its ports by the mean place of their neighbours.

        Args:
            layer: The layer.
            pairs: Ends in this layer, and in the neighbouring layer.
            side: -1 if the neighbours are in the previous layer, else 1.
        """
        places = self._places(layer + side, side)
        by_slot = _means([(_End(own.slot, ""), other) for own, other in pairs], places)
        row = self.layers[layer]
        means = {slot: by_slot.get(_End(slot, ""), float(at)) for at, slot in enumerate(row)}
        row.sort(key=means.__getitem__)
        self._sort_ports(layer, _means(pairs, places), side)

    def _sort_ports(self, layer: int, means: Mapping[_End, float], side: int) -> None:
        """Orders the ports of a layer. A port whose edge leads back, or without edge, is last."""
        ports = self.inputs if side < 0 else self.outputs
        for slot in self.layers[layer]:
            if isinstance(slot, str):
                keys = {port: means.get(_End(slot, port), math.inf) for port in ports[slot]}
                ports[slot] = tuple(sorted(ports[slot], key=keys.__getitem__))

    def _places(self, layer: int, side: int) -> dict[_End, float]:
        """Returns the places of the ends in a layer that face the next (-1) or last (1) layer."""
        found = {}
        for place, slot in enumerate(self.layers[layer]):
            names: tuple[str, ...] = ("",)
            if isinstance(slot, str):
                names = (self.outputs if side < 0 else self.inputs)[slot]
            for at, port in enumerate(names, 1):
                found[_End(slot, port)] = place + at / (len(names) + 1)
        return found

    def _count_crossings(self) -> int:
        return sum(map(self._count_crossings_of, range(len(self.layers) - 1)))

    def _count_crossings_of(self, gap: int) -> int:
        upper, lower = self._places(gap, -1), self._places(gap + 1, 1)
        passed: list[float] = []
        count = 0
        for _, end in sorted((upper[one], lower[other]) for one, other in self._gaps[gap]):
            count += len(passed) - bisect_right(passed, end)
            insort(passed, end)
        return count


def _means(pairs: Sequence[tuple[_End, _End]], places: Mapping[_End, float]) -> dict[_End, float]:
    near: dict[_End, list[float]] = {}
    for own, other in pairs:
        near.setdefault(own, []).append(places[other])
    return {end: math.fsum(found) / len(found) for end, found in near.items()}


def _depths(outline: Outline) -> dict[str, int]:
    """Returns the layer of each node, without the edges that lead back."""
    sources: dict[str, list[str]] = {}
    for edge in outline.edges:
        sources.setdefault(edge.target, []).append(edge.source)
    depth: dict[str, int] = {}
    for node in outline.nodes:  # in topological order
        feeding = [depth[name] for name in sources.get(node.name, ()) if name in depth]
        depth[node.name] = max(feeding, default=-1) + 1
    return depth
