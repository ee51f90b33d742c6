"""Snapshots of a model's counters, which can be summed over several processes.

This module does not import the runtime, because the supervisor sums snapshots without running
models.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

from modelflow.draw.outline import Outline
from modelflow.profile.snapshot import Snapshot
from modelflow.serve.metrics.model_counts import BOUNDS, Exemplar

if TYPE_CHECKING:
    from modelflow.runtime.stats import NodeStats
    from modelflow.serve.requests.served_model import ServedModel


# The fields that a snapshot copies from `ModelCounts`.
_COUNTED = (
    *("outcomes", "rows", "failed_rows", "seconds", "answer_seconds", "failed_seconds"),
    *("cache_hits", "cache_misses", "last", "latencies", "exemplars"),
)
_NOT_SUMMED = (
    *("name", "version", "outcomes", "refused", "last", "latencies", "exemplars", "shadows"),
)


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """A snapshot of the counters of a model's version. See `ModelCounts`.

    Attributes:
        name, version: The name and the version of the model.
        outcomes: The number of finished requests by code.
        refused: The number of refused requests by reason.
        rows, failed_rows, seconds, answer_seconds, failed_seconds, cache_hits, cache_misses, last,
            latencies, exemplars: As in `ModelCounts`.
        under_way: The number of requests without a reply yet.
        sequences: The number of open sequences of requests.
        snapshot: The snapshot of the model's flow.
        shadows: The number of finished copies by code, for which the version is a shadow.
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
    snapshot: Snapshot
    exemplars: tuple[Exemplar | None, ...] = (None,) * (len(BOUNDS) + 1)
    shadows: Mapping[str, int] = field(default_factory=dict)
    sequences: int = 0
    cache_hits: int = 0
    cache_misses: int = 0

    @classmethod
    def of(cls, model: "ServedModel") -> Self:
        """Returns a snapshot of a running model. Call this from any thread."""
        counted = {name: getattr(model.figures, name) for name in _COUNTED}
        answered = {"count": counted["outcomes"]["OK"], "seconds": counted["seconds"]}
        return cls(
            name=model.name,
            version=model.version,
            refused=dict(model.admission.refused),
            under_way=model.admission.under_way,
            sequences=len(model.sequences),
            shadows=dict(model.shadows.outcomes),
            snapshot=Snapshot.of(
                replace(model.flow.stats().without_words, answered=answered),
                model.flow.scheduler.plan,
                Outline.of(model.flow.graph),
            ),
            **counted
            | {
                "outcomes": dict(counted["outcomes"]),
                "latencies": tuple(counted["latencies"]),
                "exemplars": tuple(counted["exemplars"]),
            },
        )

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Returns the snapshot for the result of `document`, perhaps from another process."""
        snapshot = Snapshot.read(document["snapshot"])
        exemplars = tuple(one and Exemplar(*one) for one in document["exemplars"])
        lists = {"latencies": tuple(document["latencies"]), "exemplars": exemplars}
        return cls(**{**document, "snapshot": snapshot, **lists})

    @property
    def nodes(self) -> "tuple[NodeStats, ...]":
        """Returns the counters of the model's nodes."""
        return tuple(self.snapshot.stats.values())

    @property
    def answered(self) -> int:
        """Returns the number of successful requests."""
        return self.outcomes.get("OK", 0)

    @property
    def batches(self) -> dict[int, tuple[int, float]]:
        """Returns the number of calls of the model, and their seconds, by batch size."""
        node = model_node(self.nodes)
        sizes = node.batch_sizes.items()
        return {size: (count, node.batch_seconds[size]) for size, count in sizes if size}

    @property
    def executions(self) -> int:
        """Returns the number of calls of the model."""
        return sum(count for count, _ in self.batches.values())

    def split_seconds(self) -> tuple[float, float]:
        """Returns the waiting time and the compute time of the successful requests, in seconds.

        The rest of ``seconds`` is ``answer_seconds``. The compute time of an item is a mean over
        all items. Example: a call of a unit with 8 items that takes 4 ms counts as 4 ms for each
        item.
        """
        items = self.rows + self.failed_rows
        cost = sum(node.row_seconds for node in self.nodes) / items if items else 0.0
        graph = self.seconds - self.answer_seconds
        compute = min(cost * self.answered, graph)
        return graph - compute, compute

    def document(self) -> dict[str, Any]:
        """Returns the snapshot as JSON values."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**found, "snapshot": self.snapshot.document()}

    def past(self) -> "ModelSnapshot":
        """Returns a copy without the current state: only totals, no running requests."""
        return replace(self, under_way=0, sequences=0, snapshot=self.snapshot.past)

    def __add__(self, other: "ModelSnapshot") -> "ModelSnapshot":
        summed = (one.name for one in fields(self) if one.name not in _NOT_SUMMED)
        return replace(
            self,
            outcomes=_sum(self.outcomes, other.outcomes),
            refused=_sum(self.refused, other.refused),
            shadows=_sum(self.shadows, other.shadows),
            last=max(self.last, other.last),
            latencies=tuple(map(sum, zip(self.latencies, other.latencies, strict=True))),
            exemplars=tuple(map(_newest, self.exemplars, other.exemplars)),
            **{name: getattr(self, name) + getattr(other, name) for name in summed},
        )


def add_snapshots(snapshots: Iterable[ModelSnapshot]) -> list[ModelSnapshot]:
    """Returns the sums of the snapshots with the same name and version."""
    found: dict[tuple[str, int], ModelSnapshot] = {}
    for snapshot in snapshots:
        key = snapshot.name, snapshot.version
        found[key] = found[key] + snapshot if key in found else snapshot
    return list(found.values())


def model_node(nodes: "Iterable[NodeStats]") -> "NodeStats":
    """Returns the node whose calls count as calls of the model.

    This is the last node that runs an engine, or the last node if no node runs an engine.
    """
    return max(enumerate(nodes), key=lambda each: ("engine_calls" in each[1].figures, each[0]))[1]


def _newest(one: Exemplar | None, other: Exemplar | None) -> Exemplar | None:
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda exemplar: exemplar.time)


def _sum(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(some) + Counter(more))
