"""The effect of a placement, estimated without a run: the rows that cross, and their cost."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from modelflow.graph.graph import Graph
from modelflow.graph.graph_port import tensor_text
from modelflow.graph.node import Endpoint
from modelflow.insight.tune.sample import Sample
from modelflow.plan.partition import Partition, find_partitions

# Processor time of the transfer of a batch to an actor and back, in microseconds of all processes:
# for each call, row and kilobyte. Measured by benchmarks/far_nodes.py.
CALL_US = 300.0
ROW_US = 50.0
KILOBYTE_US = 0.25
# Transfers up to this share of the moved work cause no advice.
_MOST_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Crossing:
    """A port at which rows cross a cut.

    Attributes:
        end: The node and the output that makes the rows: outside the cut where they enter, inside
            where they leave.
        tensor: Type and shape of the rows, as far as the units declare them.
        size: The bytes of one row; None if unknown.
    """

    end: str
    tensor: str
    size: int | None


@dataclass(frozen=True, slots=True)
class Cut:
    """The estimated effect of one partition.

    Attributes:
        name: The name of the remote node.
        placement: The placement on which the partition runs.
        nodes: The nodes of the partition.
        batch_size: The most rows that cross together.
        entering, leaving: The ports at which rows cross.
        work_us: Microseconds that the nodes take for a row, from a sample; None without one.
        advice: Changes that would cost less.
    """

    name: str
    placement: str
    nodes: tuple[str, ...]
    batch_size: int
    entering: tuple[Crossing, ...]
    leaving: tuple[Crossing, ...]
    work_us: float | None
    advice: tuple[str, ...]

    @property
    def row_us(self) -> float | None:
        """The predicted processor time of a row's round trip in full batches.

        In microseconds; None if the size of a row is unknown.
        """
        sizes = [crossing.size for crossing in (*self.entering, *self.leaving)]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        return CALL_US / self.batch_size + ROW_US + KILOBYTE_US * sum(known) / 1000


def cuts_of(graph: Graph, sample: Sample | None = None) -> tuple[Cut, ...]:
    """Returns the estimated effect of each partition of a graph.

    The result is empty if no node has a placement.

    Args:
        graph: The whole graph.
        sample: The results of a run; it overrides the types that units declare.

    Raises:
        GraphError: A placed part cannot be cut out. The message lists every reason.
    """
    return tuple(_cut(graph, partition, sample) for partition in find_partitions(graph))


def _cut(graph: Graph, part: Partition, sample: Sample | None) -> Cut:
    cut = Cut(
        part.name,
        part.placement.name,
        part.nodes,
        part.batch_size,
        tuple(
            _crossing(graph, entry.sources[0], entry.targets[0], sample) for entry in part.entries
        ),
        tuple(_crossing(graph, leaving.source, leaving.source, sample) for leaving in part.exits),
        _work(part, sample),
        (),
    )
    return replace(cut, advice=(*_advice(graph, part, sample), *_costs(cut)))


def _work(part: Partition, sample: Sample | None) -> float | None:
    """Returns the microseconds that the nodes of a partition take for a row."""
    if sample is None:
        return None
    passed = [sample.passed.get(source) for source in part.entries[0].sources]
    rows = sum(one.rows for one in passed if one is not None)
    busy = sum(sample.busy_us.get(name, 0.0) for name in part.nodes)
    return busy / rows if rows else None


def _costs(cut: Cut) -> Iterator[str]:
    """Yields advice if the transfer costs much compared with the moved work."""
    if cut.row_us is None or cut.work_us is None or cut.row_us <= _MOST_SHARE * cut.work_us:
        return
    nodes = ", ".join(cut.nodes)
    yield (
        f"the transfer to {cut.placement!r} and back takes {cut.row_us:.0f} us a row, and the work "
        f"there ({nodes}) {cut.work_us:.0f} us. Place neighbouring nodes there as well, or none. A "
        "placement pays if its machines have hardware that this machine lacks"
    )


def _crossing(graph: Graph, source: Endpoint, target: Endpoint, sample: Sample | None) -> Crossing:
    seen = None if sample is None else sample.passed.get(source)
    if seen is not None:
        return Crossing(str(source), seen.tensor, seen.size)
    tensor = graph.port(source).tensor or graph.port(target).tensor
    size = None
    if tensor is not None and tensor.shape is not None and None not in tensor.shape:
        extents = [extent for extent in tensor.shape if extent is not None]
        size = prod(extents) * tensor.dtype.itemsize
    return Crossing(str(source), "" if tensor is None else tensor_text(tensor), size)


def _advice(graph: Graph, part: Partition, sample: Sample | None) -> Iterator[str]:
    """Yields advice where FP32 or FP64 made of UINT8 crosses, at four times the size or more."""
    for entry in part.entries:
        for source in entry.sources:
            made = _crossing(graph, source, source, sample).tensor
            if not made.startswith(("FP32", "FP64")):
                continue
            into = [edge for edge in graph.edges if edge.target.node == source.node]
            if any(
                _crossing(graph, edge.source, edge.target, sample).tensor.startswith("UINT8")
                for edge in into
            ):
                yield (
                    f"node {source.node!r} makes {made.split()[0]} of UINT8, which crosses to "
                    f"{part.placement.name!r}. Place the node there as well (placement="
                    f"{part.placement.name}); at most a quarter of the bytes then crosses"
                )
