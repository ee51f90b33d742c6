"""What a unit may say of its place in a graph: how the same would be done better."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """A node, as the advice of a unit sees it.

    Attributes:
        node: The node's name.
        unit: The name of its unit; ``""`` for an output of the graph.
        devices: The kinds of device on which it may run.
        written: The options that the node itself gives, by name or alias.
        config: All options, converted: what ``open`` gets; None for an output of the graph.
    """

    node: str
    unit: str
    devices: Collection[str]
    written: Collection[str]
    config: Any


Advise = Callable[[Place, Sequence[Place]], str | None]
"""Gives a sentence for the author of the graph, or None; from the node that runs the unit, and
those that read what it gives."""
