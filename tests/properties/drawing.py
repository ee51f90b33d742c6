"""A graph under construction."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Drawing:
    """Nodes and edges, as `tests.runtime.graphs.graph_of` takes them."""

    nodes: dict[str, Any] = field(default_factory=dict)
    edges: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, spec, settings, feeds):
        """Adds a node and returns its name; ``feeds`` maps input ports to endpoints."""
        name = f"n{self.count}"
        self.count += 1
        self.nodes[name] = (spec, settings)
        for port, sources in feeds.items():
            self.edges += [f"{source} -> {name}:{port}" for source in sources]
        return name

    def output(self, sources):
        name = f"out{self.count}"
        self.count += 1
        self.nodes[name] = "output"
        self.edges += [f"{source} -> {name}" for source in sources]
        return name
