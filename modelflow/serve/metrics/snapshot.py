"""A moment's picture of what a model has counted; those of several processes are added up.

It imports nothing that runs models: who adds up may have none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

from modelflow.draw.outline import Outline
from modelflow.profile.snapshot import Snapshot

if TYPE_CHECKING:
    from modelflow.runtime.stats import NodeStats
    from modelflow.serve.requests.served_model import ServedModel


# What a snapshot has of `ModelCounts`, under the same names.
_COUNTED = (
    *("outcomes", "rows", "failed_rows", "seconds", "answer_seconds", "failed_seconds"),
    *("last", "latencies"),
)
_NOT_SUMMED = ("name", "version", "outcomes", "refused", "last", "latencies")


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """What a version of a model has counted. See `ModelCounts`.

    Attributes:
        name, version: Whose it is.
        outcomes: Requests by how they ended.
        refused: Requests that were not taken, by reason.
        rows, failed_rows, seconds, answer_seconds, failed_seconds, last, latencies: As there.
        under_way: Requests that have no answer yet.
        snapshot: What its flow has counted.
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

    @classmethod
    def of(cls, model: "ServedModel") -> Self:
        """Takes it of a model that answers; from any thread."""
        counted = {name: getattr(model.figures, name) for name in _COUNTED}
        return cls(
            name=model.name,
            version=model.version,
            refused=dict(model.admission.refused),
            under_way=model.admission.under_way,
            snapshot=Snapshot.of(
                model.flow.stats().without_words,
                model.flow.scheduler.plan,
                Outline.of(model.flow.graph),
            ),
            **counted
            | {"outcomes": dict(counted["outcomes"]), "latencies": tuple(counted["latencies"])},
        )

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Takes it of what `document` has given, perhaps in another process."""
        snapshot = Snapshot.read(document["snapshot"])
        return cls(**{**document, "snapshot": snapshot, "latencies": tuple(document["latencies"])})

    @property
    def nodes(self) -> "tuple[NodeStats, ...]":
        """What its nodes have counted."""
        return tuple(self.snapshot.stats.values())

    @property
    def answered(self) -> int:
        """How many requests were answered."""
        return self.outcomes.get("OK", 0)

    @property
    def batches(self) -> dict[int, tuple[int, float]]:
        """Size of batch -> how many calls of the model had it, and their seconds."""
        node = model_node(self.nodes)
        sizes = node.batch_sizes.items()
        return {size: (count, node.batch_seconds[size]) for size, count in sizes if size}

    @property
    def executions(self) -> int:
        """How many calls of the model there were."""
        return sum(count for count, _ in self.batches.values())

    def split_seconds(self) -> tuple[float, float]:
        """Returns how long the answered requests waited, and how long their items were in units.

        The rest of ``seconds`` is ``answer_seconds``. What items cost is a mean over all of them: a
        call of a unit with 8 items in 4 ms is 4 ms for each.
        """
        items = self.rows + self.failed_rows
        cost = sum(node.row_seconds for node in self.nodes) / items if items else 0.0
        graph = self.seconds - self.answer_seconds
        compute = min(cost * self.answered, graph)
        return graph - compute, compute

    def document(self) -> dict[str, Any]:
        """Returns it as what JSON can hold."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**found, "snapshot": self.snapshot.document()}

    def past(self) -> "ModelSnapshot":
        """Returns it without what is true of its moment alone."""
        return replace(self, under_way=0, snapshot=self.snapshot.past)

    def __add__(self, other: "ModelSnapshot") -> "ModelSnapshot":
        summed = (field.name for field in fields(self) if field.name not in _NOT_SUMMED)
        return replace(
            self,
            outcomes=_sum(self.outcomes, other.outcomes),
            refused=_sum(self.refused, other.refused),
            last=max(self.last, other.last),
            latencies=tuple(map(sum, zip(self.latencies, other.latencies, strict=True))),
            **{name: getattr(self, name) + getattr(other, name) for name in summed},
        )


def add_snapshots(snapshots: Iterable[ModelSnapshot]) -> list[ModelSnapshot]:
    """Adds up those of one name and version."""
    found: dict[tuple[str, int], ModelSnapshot] = {}
    for snapshot in snapshots:
        key = snapshot.name, snapshot.version
        found[key] = found[key] + snapshot if key in found else snapshot
    return list(found.values())


def model_node(nodes: "Iterable[NodeStats]") -> "NodeStats":
    """Returns the node whose calls count as the model's: the last that runs one, else the last."""
    return max(enumerate(nodes), key=lambda each: ("engine_calls" in each[1].figures, each[0]))[1]


def _sum(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(some) + Counter(more))
