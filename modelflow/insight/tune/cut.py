"""What a placement means before anything runs: what crosses, and what that costs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from modelflow.graph.graph import Graph
from modelflow.graph.graph_port import tensor_text
from modelflow.graph.node import Endpoint
from modelflow.insight.tune.sample import Sample
from modelflow.plan.partition import Partition, find_partitions

# Processor time of a batch's way to an actor and back, in microseconds of all processes: for the
# call, for each row, and for each kilobyte (benchmarks/far_nodes.py).
CALL_US = 300.0
ROW_US = 50.0
KILOBYTE_US = 0.25
# Of the time that is moved, what the way there and back may take before it is told.
_MOST_SHARE = 0.25


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
        work_us: What its nodes take for a row, in microseconds, as a sample shows; None: none does.
        advice: What would cost less.
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
        """The predicted processor time of a row's way there and back, in full batches.

        In microseconds; None: nobody says how large rows are.
        """
        sizes = [crossing.size for crossing in (*self.entering, *self.leaving)]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        return CALL_US / self.batch_size + ROW_US + KILOBYTE_US * sum(known) / 1000


def cuts_of(graph: Graph, sample: Sample | None = None) -> tuple[Cut, ...]:
    """Returns what each placed part of a graph means; none is placed: ().

    Args:
        graph: The whole.
        sample: What a run of it has shown: it says more than units do.

    Raises:
        GraphError: what is placed cannot be cut out; every reason is listed.
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
    """Returns the microseconds that a row of a partition takes there."""
    if sample is None:
        return None
    passed = [sample.passed.get(source) for source in part.entries[0].sources]
    rows = sum(one.rows for one in passed if one is not None)
    busy = sum(sample.busy_us.get(name, 0.0) for name in part.nodes)
    return busy / rows if rows else None


def _costs(cut: Cut) -> Iterator[str]:
    """Says where little is moved for what the way costs."""
    if cut.row_us is None or cut.work_us is None or cut.row_us <= _MOST_SHARE * cut.work_us:
        return
    nodes = ", ".join(cut.nodes)
    yield (
        f"the way to {cut.placement!r} and back takes {cut.row_us:.0f} us a row, and what is done "
        f"there ({nodes}) {cut.work_us:.0f} us: place more of what stands beside it there as well, "
        "or nothing; it pays where those machines have what this one lacks"
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
    """Says where four times as much crosses as need be: floats that were bytes a node before."""
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
                    f"node {source.node!r} makes {made.split()[0]} of UINT8, and that crosses to "
                    f"{part.placement.name!r}: place it there as well (placement="
                    f"{part.placement.name}), and a fourth of it does"
                )
