"""A moment's picture of what a model has counted; those of several processes are added up.

It imports nothing that runs models: who adds up may have none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from modelflow.runtime.stats import NodeStats
    from modelflow.serve.served_model import ServedModel

__all__ = ["NodePicture", "Picture", "added"]


@dataclass(frozen=True, slots=True)
class NodePicture:
    """What a node of a model's graph has counted.

    Attributes:
        name: The node's.
        is_engine: It runs a model of its own.
        batches, items, errors: Calls of the unit, items given to it, items that failed in it.
        busy: Seconds spent in the unit, over all threads.
        queue: Items that wait for it now.
        sizes: Of each size of batch: the size, how many calls had it, their seconds.
    """

    name: str
    is_engine: bool
    batches: int
    items: int
    errors: int
    busy: float
    queue: int
    sizes: tuple[tuple[int, int, float], ...]

    @classmethod
    def of(cls, stats: "NodeStats") -> Self:
        """Takes it of a node that runs."""
        sizes = ((n, k, stats.batch_seconds.get(n, 0.0)) for n, k in stats.batch_sizes.items())
        return cls(
            stats.node,
            "engine_calls" in stats.figures,
            stats.batches,
            stats.buffers,
            stats.errors,
            stats.busy,
            stats.queue,
            tuple(sizes),
        )

    def __add__(self, other: "NodePicture") -> "NodePicture":
        sizes = {size: (count, seconds) for size, count, seconds in self.sizes}
        for size, count, seconds in other.sizes:
            before = sizes.get(size, (0, 0.0))
            sizes[size] = before[0] + count, before[1] + seconds
        return NodePicture(
            self.name,
            self.is_engine,
            self.batches + other.batches,
            self.items + other.items,
            self.errors + other.errors,
            self.busy + other.busy,
            self.queue + other.queue,
            tuple((size, *found) for size, found in sorted(sizes.items())),
        )

    @property
    def item_seconds(self) -> float:
        """Seconds that items have spent in calls: a call counts for each of its items."""
        return sum(size * seconds for size, _, seconds in self.sizes)


@dataclass(frozen=True, slots=True)
class Picture:
    """What a version of a model has counted. See `modelflow.serve.figures.ModelFigures`.

    Attributes:
        name, version: Whose it is.
        outcomes: Requests by how they ended.
        refused: Requests that were not taken, by reason.
        rows, failed_rows, seconds, answer_seconds, failed_seconds, last, latencies: As there.
        under_way: Requests that have no answer yet.
        nodes: What its nodes have counted.
    """

    name: str
    version: int
    outcomes: Mapping[str, int]
    refused: Mapping[str, int]
    rows: int
    failed_rows: int
    seconds: float
    answer_seconds: float
    failed_seconds: float
    last: float
    latencies: tuple[int, ...]
    under_way: int
    nodes: tuple[NodePicture, ...]

    @classmethod
    def of(cls, model: "ServedModel") -> Self:
        """Takes it of a model that answers; from any thread."""
        figures = model.figures
        return cls(
            model.name,
            model.version,
            dict(figures.outcomes),
            dict(model.admission.refused),
            figures.rows,
            figures.failed_rows,
            figures.seconds,
            figures.answer_seconds,
            figures.failed_seconds,
            figures.last,
            tuple(figures.latencies),
            model.admission.under_way,
            tuple(NodePicture.of(stats) for stats in model.flow.stats().values()),
        )

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Takes it of what `document` has given, perhaps in another process."""
        nodes = tuple(
            NodePicture(**{**node, "sizes": tuple(map(tuple, node["sizes"]))})
            for node in document["nodes"]
        )
        found = {**document, "nodes": nodes, "latencies": tuple(document["latencies"])}
        return cls(**found)

    def document(self) -> dict[str, Any]:
        """Returns it as what JSON can hold."""
        return asdict(self)

    def past(self) -> "Picture":
        """Returns it without what is true of its moment alone."""
        nodes = tuple(replace(node, queue=0) for node in self.nodes)
        return replace(self, under_way=0, nodes=nodes)

    def __add__(self, other: "Picture") -> "Picture":
        nodes = {node.name: node for node in self.nodes}
        for node in other.nodes:
            nodes[node.name] = nodes[node.name] + node if node.name in nodes else node
        return Picture(
            self.name,
            self.version,
            _sum(self.outcomes, other.outcomes),
            _sum(self.refused, other.refused),
            self.rows + other.rows,
            self.failed_rows + other.failed_rows,
            self.seconds + other.seconds,
            self.answer_seconds + other.answer_seconds,
            self.failed_seconds + other.failed_seconds,
            max(self.last, other.last),
            tuple(map(sum, zip(self.latencies, other.latencies, strict=True))),
            self.under_way + other.under_way,
            tuple(nodes.values()),
        )


def added(pictures: Iterable[Picture]) -> list[Picture]:
    """Adds up those of one name and version."""
    found: dict[tuple[str, int], Picture] = {}
    for picture in pictures:
        key = picture.name, picture.version
        found[key] = found[key] + picture if key in found else picture
    return list(found.values())


def _sum(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(some) + Counter(more))
