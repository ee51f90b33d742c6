"""Advice of a unit about its place in a graph: a better way to the same result."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """A node in the view of a unit that gives advice.

    Attributes:
        node: The node's name.
        unit: The name of its unit, or ``""`` for an output of the graph.
        devices: The kinds of device where the node may run.
        written: The options that the node itself sets, by name or alias.
        config: All converted options, as ``open`` receives them, or None for an output of the
            graph.
    """

    node: str
    unit: str
    devices: Collection[str]
    written: Collection[str]
    config: Any


Advise = Callable[[Place, Sequence[Place]], str | None]
"""A function that returns advice for the author of the graph, or None.

The arguments are the node of the unit, and the nodes that read its outputs."""
