"""The settings of a graph that are tuned: threads, batch and queue of each stage. Values."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from modelflow.plan import ExecutionPlan, StagePlan


@dataclass(frozen=True)
class StageSettings:
    """How one stage runs.

    Attributes:
        threads: Its workers.
        batch_size: The most rows of a call.
        queue_size: The bound of its queues, in rows.
        batch_timeout_ms: How long a row may wait for others to fill its batch.
    """

    threads: int
    batch_size: int
    queue_size: int
    batch_timeout_ms: float = 0.0

    @classmethod
    def of(cls, stage: StagePlan) -> "StageSettings":
        """Takes them of a plan."""
        queue, wait = min(stage.bounds, default=0), stage.unit.settings.batch_timeout_ms
        return cls(stage.threads, stage.batch_size, queue, wait)

    def with_batch(self, batch_size: int, queue_size: int) -> "StageSettings":
        """Returns the same with other batches, and a queue that holds two of them, or more."""
        return replace(self, batch_size=batch_size, queue_size=max(queue_size, 2 * batch_size))


@dataclass(frozen=True)
class Settings:
    """How all stages run: by the name of their first node."""

    stages: Mapping[str, StageSettings] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(tuple(self.stages.items()))

    @classmethod
    def of(cls, plan: ExecutionPlan) -> "Settings":
        """Takes them of a plan."""
        return cls({name: StageSettings.of(stage) for name, stage in plan.stages.items()})

    def with_stage(self, name: str, stage: StageSettings) -> "Settings":
        """Returns the same with another stage."""
        return Settings({**self.stages, name: stage})

    def with_all(
        self,
        free: Mapping[str, Collection[str]],
        threads: int | None = None,
        rows: Callable[[str], int] | None = None,
    ) -> "Settings":
        """Returns the same with other threads and batches, as far as stages may change.

        Args:
            free: Stage -> what of it may be changed.
            threads: Of each stage; None: as they are.
            rows: Gives the batch size of a stage; None: as they are.
        """
        found = {}
        for name, stage in self.stages.items():
            keys, one = free.get(name, ()), stage
            if rows is not None and "batch_size" in keys:
                one = one.with_batch(rows(name), stage.queue_size)
            if threads is not None and "threads" in keys:
                one = replace(one, threads=threads)
            found[name] = one
        return Settings(found)

    def changes_to(self, other: "Settings") -> dict[str, Any]:
        """Returns what makes the other ones of these, as `Flow.reconfigure` takes it."""
        found: dict[str, Any] = {}
        for name, stage in other.stages.items():
            before = self.stages[name]
            for key in ("threads", "batch_size", "queue_size", "batch_timeout_ms"):
                if getattr(stage, key) != getattr(before, key):
                    found[f"{name}.{key}"] = getattr(stage, key)
        return found

    def name_changes(self, other: "Settings") -> str:
        """Returns the same for people; ``as it is`` where they are equal."""
        changes = self.changes_to(other)
        return ", ".join(f"{key}={value}" for key, value in changes.items()) or "as it is"

    @property
    def size(self) -> tuple[int, int]:
        """Returns how much they take, to choose between equals: threads, and rows of batches."""
        stages = self.stages.values()
        return sum(stage.threads for stage in stages), sum(stage.batch_size for stage in stages)
