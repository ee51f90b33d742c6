"""What a placement means before anything runs: what crosses, and what that costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from modelflow.graph.graph import Graph
from modelflow.graph.graph_port import tensor_text
from modelflow.graph.node import Endpoint
from modelflow.plan.placement import Partition, find_partitions
from modelflow.unit.port import Port
from modelflow.wire.tensor import TensorSpec

__all__ = ["Crossing", "Cut", "cuts_of"]

# Processor time of a batch's way to an actor and back, in microseconds of all processes: for the
# call, for each row, and for each kilobyte (benchmarks/far_nodes.py).
CALL_US = 300.0
ROW_US = 50.0
KILOBYTE_US = 0.25


@dataclass(frozen=True, slots=True)
class Crossing:
    """One port of a cut.

    Attributes:
        end: The node outside and its port, where rows enter; the one inside, where they leave.
        tensor: What passes there, as far as units say.
        size: The bytes of one row; None: nobody says.
    """

    end: str
    tensor: str
    size: int | None


@dataclass(frozen=True, slots=True)
class Cut:
    """What one partition means.

    Attributes:
        name: The far node.
        placement: Where it runs.
        nodes: What runs there.
        batch_size: The most rows that cross together.
        entering, leaving: What crosses.
        advice: What would cost less.
    """

    name: str
    placement: str
    nodes: tuple[str, ...]
    batch_size: int
    entering: tuple[Crossing, ...]
    leaving: tuple[Crossing, ...]
    advice: tuple[str, ...]

    @property
    def row_us(self) -> float | None:
        """The predicted processor time of a row's way there and back, in full batches.

        In microseconds; None: nobody says how large rows are.
        """
        sizes = [crossing.size for crossing in (*self.entering, *self.leaving)]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        return CALL_US / self.batch_size + ROW_US + KILOBYTE_US * sum(known) / 1000


def cuts_of(graph: Graph) -> tuple[Cut, ...]:
    """Returns what each placed part of a graph means; none is placed: ().

    Raises:
        GraphError: what is placed cannot be cut out; every reason is listed.
    """
    return tuple(_cut(graph, partition) for partition in find_partitions(graph))


def _cut(graph: Graph, part: Partition) -> Cut:
    return Cut(
        part.name,
        part.placement.name,
        part.nodes,
        part.batch_size,
        tuple(_crossing(graph, entry.sources[0], entry.targets[0]) for entry in part.entries),
        tuple(_crossing(graph, leaving.source, leaving.source) for leaving in part.exits),
        tuple(_advice(graph, part)),
    )


def _crossing(graph: Graph, source: Endpoint, target: Endpoint) -> Crossing:
    tensor = _tensor(graph, source) or _tensor(graph, target)
    size = None
    if tensor is not None and tensor.shape is not None and None not in tensor.shape:
        extents = [extent for extent in tensor.shape if extent is not None]
        size = prod(extents) * tensor.dtype.itemsize
    return Crossing(str(source), "" if tensor is None else tensor_text(tensor), size)


def _tensor(graph: Graph, end: Endpoint) -> TensorSpec | None:
    port = _port(graph, end)
    return None if port is None else port.tensor


def _port(graph: Graph, end: Endpoint) -> Port | None:
    spec = graph.nodes[end.node].spec
    ports = () if spec is None else (*spec.inputs, *spec.outputs)
    return next((port for port in ports if port.name == end.port), None)


def _advice(graph: Graph, part: Partition) -> Iterator[str]:
    """Says where four times as much crosses as need be: floats that were bytes a node before."""
    for entry in part.entries:
        for source in entry.sources:
            given = _port(graph, source)
            spec = graph.nodes[source.node].spec
            if spec is None or given is None or given.dtype not in ("float32", "float64"):
                continue
            if any(port.dtype == "uint8" for port in spec.inputs):
                yield (
                    f"node {source.node!r} makes {given.dtype} of uint8, and that crosses to "
                    f"{part.placement.name!r}: place it there as well (placement="
                    f"{part.placement.name}), and a fourth of it does"
                )
