"""The drawable contents of a graph: nodes with ports and texts, and edges. Pure functions.

An outline contains only texts. A picture can therefore be drawn without the graph, such as from the
snapshot of a flow in another process.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from modelflow.config.flow_config import Position, read_position
from modelflow.graph.node import Node, Role
from modelflow.unit.kind import Normal
from modelflow.unit.spec import FlowUnitSpec

if TYPE_CHECKING:
    from modelflow.graph.graph import Graph


PORT = "port"
"""The kind of a node that is an input or output of the graph."""


@dataclass(frozen=True)
class OutlineNode:
    """A node of a drawing.

    Attributes:
        name: Its name.
        kind: The kind of its device, or `PORT`. It decides the colour.
        lines: The lines of text in its box, beginning with the name.
        inputs: Its input ports, in order.
        outputs: Its output ports, in order.
        position: The middle of its box in the graph file. None lets the layout choose.
        mark: ``source``, ``sink`` or the kind of its unit. Empty for an ordinary unit and a port.
    """

    name: str
    kind: str
    lines: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    position: Position | None = None
    mark: str = ""


@dataclass(frozen=True)
class OutlineEdge:
    """An edge of a drawing, from an output port to an input port."""

    source: str
    output: str
    target: str
    input: str


@dataclass(frozen=True)
class Outline:
    """A graph for drawing.

    Attributes:
        name: The name of the graph.
        nodes: The nodes in topological order.
        edges: The edges in the order of the file.
        device: The device of most nodes, which the lines of other nodes alone name.
    """

    name: str = ""
    nodes: tuple[OutlineNode, ...] = ()
    edges: tuple[OutlineEdge, ...] = ()
    device: str = ""

    @classmethod
    def of(cls, graph: "Graph") -> Self:
        """Returns the outline of a graph."""
        edges = (
            OutlineEdge(edge.source.node, edge.source.port, edge.target.node, edge.target.port)
            for edge in graph.edges
        )
        written = graph.config.nodes
        positions = {node.name: read_position(node.attributes.get("pos")) for node in written}
        units = [node for node in graph.nodes.values() if node.role is Role.FLOWUNIT]
        usual = Counter(map(_devices, units)).most_common(1)
        device = usual[0][0] if usual else ""
        nodes = (_node(node, positions.get(node.name), device) for node in graph.nodes.values())
        return cls(graph.name, tuple(nodes), tuple(edges), device)

    def document(self) -> dict[str, Any]:
        """Returns the outline as a JSON object; `read` is the inverse."""
        return asdict(self)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Returns the outline from the result of `document`.

        Raises:
            KeyError, TypeError: the document is damaged.
        """
        nodes = (
            OutlineNode(
                str(node["name"]),
                str(node["kind"]),
                _texts(node["lines"]),
                _texts(node["inputs"]),
                _texts(node["outputs"]),
                _position(node.get("position")),
                str(node.get("mark", "")),
            )
            for node in document["nodes"]
        )
        edges = (OutlineEdge(*(str(edge[key]) for key in _ENDS)) for edge in document["edges"])
        device = str(document.get("device", ""))
        return cls(str(document["name"]), tuple(nodes), tuple(edges), device)


_ENDS = ("source", "output", "target", "input")


def _position(value: Any) -> Position | None:
    return None if value is None else (float(value[0]), float(value[1]))


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(str, values))


def mark_of(spec: FlowUnitSpec) -> str:
    """Returns the mark of a unit's nodes; see `OutlineNode`."""
    if not isinstance(spec.kind, Normal):
        return str(spec.kind)
    return "" if spec.outputs else "sink"


def _devices(node: Node) -> str:
    return ", ".join(map(str, node.devices))


def _node(node: Node, position: Position | None, usual: str) -> OutlineNode:
    kind = node.devices[0].kind if node.devices else "cpu"
    kind = kind if node.role is Role.FLOWUNIT else PORT
    mark = "" if node.spec is None else mark_of(node.spec)
    lines = _lines(node, usual)
    return OutlineNode(node.name, kind, lines, node.inputs, node.outputs, position, mark)


def _lines(node: Node, usual: str) -> tuple[str, ...]:
    if node.role is not Role.FLOWUNIT:
        return (node.name, f"graph {node.role}")
    unit = node.spec.name if node.spec is not None else ""
    settings = node.settings
    said = {
        "batch": settings.batch_size,
        "queue": settings.queue_size,
        "threads": settings.threads,
    }
    extra = [f"{what} {value}" for what, value in said.items() if value is not None]
    devices = _devices(node)
    lines = [node.name, unit if unit != node.name else "", " · ".join(extra)]
    if devices != usual:
        lines.append(devices)
    return tuple(line for line in lines if line)
