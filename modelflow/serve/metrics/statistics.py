"""What a model's requests have cost: what ``/stats``, ``ModelStatistics`` and ``/metrics`` say.

A request's time is split in three: it waited, its items were in units, its answer was made. What
its items cost is a mean over all items: a call of a unit with 8 items in 4 ms is 4 ms for each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from modelflow.runtime.stats import NodeStats
from modelflow.serve.metrics.snapshot import ModelSnapshot

_NANOSECONDS = 1e9
_NOTHING: Mapping[str, int] = {"count": 0, "ns": 0}


@dataclass(frozen=True, slots=True)
class Statistics:
    """A moment's picture.

    Attributes:
        name, version: Whose figures these are.
        last: When the last request came to its end, in milliseconds since 1970; 0: none has.
        answered: Requests that were answered.
        failed: Requests that were not, also those that were not taken.
        rows: Items of the answered requests.
        seconds: How long the answered requests took, added up.
        failed_seconds: The same of the failed ones.
        queue, compute, answer: The parts of `seconds`: waiting, in units, making the answer.
        batches: Size of batch -> how many calls of the model had it, and their seconds.
    """

    name: str
    version: str
    last: int
    answered: int
    failed: int
    rows: int
    seconds: float
    failed_seconds: float
    queue: float
    compute: float
    answer: float
    batches: Mapping[int, tuple[int, float]]

    @classmethod
    def of(cls, figures: ModelSnapshot) -> "Statistics":
        """Reads what a model has counted."""
        answered = figures.outcomes.get("OK", 0)
        failed = sum(figures.outcomes.values()) - answered
        items = figures.rows + figures.failed_rows
        cost = sum(node.row_seconds for node in figures.nodes) / items if items else 0.0
        graph = figures.seconds - figures.answer_seconds
        compute = min(cost * answered, graph)
        return cls(
            figures.name,
            str(figures.version),
            int(figures.last * 1e3),
            answered,
            failed + sum(figures.refused.values()),
            figures.rows,
            figures.seconds,
            figures.failed_seconds,
            graph - compute,
            compute,
            figures.answer_seconds,
            _batches(figures.nodes),
        )

    @property
    def executions(self) -> int:
        """How many calls of the model there were."""
        return sum(count for count, _ in self.batches.values())

    def fields(self) -> dict[str, Any]:
        """Returns it by the names of an ``inference.ModelStatistics``."""
        return {
            "name": self.name,
            "version": self.version,
            "last_inference": self.last,
            "inference_count": self.rows,
            "execution_count": self.executions,
            "inference_stats": {
                "success": _duration(self.answered, self.seconds),
                "fail": _duration(self.failed, self.failed_seconds),
                "queue": _duration(self.answered, self.queue),
                "compute_input": _duration(self.answered, 0.0),
                "compute_infer": _duration(self.answered, self.compute),
                "compute_output": _duration(self.answered, self.answer),
                "cache_hit": _NOTHING,
                "cache_miss": _NOTHING,
            },
            "batch_stats": [
                {
                    "batch_size": size,
                    "compute_input": _duration(count, 0.0),
                    "compute_infer": _duration(count, seconds),
                    "compute_output": _duration(count, 0.0),
                }
                for size, (count, seconds) in self.batches.items()
            ],
        }


def model_node(nodes: Iterable[NodeStats]) -> NodeStats:
    """Returns the node whose calls count as the model's: the last that runs one, else the last."""
    return max(enumerate(nodes), key=lambda each: ("engine_calls" in each[1].figures, each[0]))[1]


def _batches(nodes: Iterable[NodeStats]) -> dict[int, tuple[int, float]]:
    node = model_node(nodes)
    return {
        size: (count, node.batch_seconds[size]) for size, count in node.batch_sizes.items() if size
    }


def _duration(count: int, seconds: float) -> dict[str, int]:
    return {"count": count, "ns": int(seconds * _NANOSECONDS)}
