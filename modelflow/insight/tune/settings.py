"""The settings that the tuner changes: threads, batch size and queue size of each stage."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from modelflow.plan import ExecutionPlan, StagePlan


@dataclass(frozen=True)
class StageSettings:
    """The settings of a stage.

    Attributes:
        threads: Number of worker threads.
        batch_size: The most rows of a call.
        queue_size: The bound of the queues, in rows.
        batch_timeout_ms: The longest time that a row waits for a fuller batch.
    """

    threads: int
    batch_size: int
    queue_size: int
    batch_timeout_ms: float = 0.0

    @classmethod
    def of(cls, stage: StagePlan) -> "StageSettings":
        """Returns the settings of a stage in a plan."""
        queue, wait = min(stage.bounds, default=0), stage.unit.settings.batch_timeout_ms
        return cls(stage.threads, stage.batch_size, queue, wait)

    def with_batch(self, batch_size: int, queue_size: int) -> "StageSettings":
        """Returns the settings with another batch size; the queue holds at least two batches."""
        return replace(self, batch_size=batch_size, queue_size=max(queue_size, 2 * batch_size))


@dataclass(frozen=True)
class Settings:
    """The settings of all stages, by the name of the stage's first node."""

    stages: Mapping[str, StageSettings] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(tuple(self.stages.items()))

    @classmethod
    def of(cls, plan: ExecutionPlan) -> "Settings":
        """Returns the settings of all stages in a plan."""
        return cls({name: StageSettings.of(stage) for name, stage in plan.stages.items()})

    def with_stage(self, name: str, stage: StageSettings) -> "Settings":
        """Returns the settings with other settings for one stage."""
        return Settings({**self.stages, name: stage})

    def with_all(
        self,
        free: Mapping[str, Collection[str]],
        threads: int | None = None,
        rows: Callable[[str], int] | None = None,
    ) -> "Settings":
        """Returns the settings with other threads and batch sizes, where stages may change.

        Args:
            free: Stage -> the attributes that may change.
            threads: Threads of each stage; None to keep them.
            rows: Returns the batch size of a stage; None to keep batch sizes.
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
        """Returns the changes from these settings to others, as for `Flow.reconfigure`."""
        found: dict[str, Any] = {}
        for name, stage in other.stages.items():
            before = self.stages[name]
            for key in ("threads", "batch_size", "queue_size", "batch_timeout_ms"):
                if getattr(stage, key) != getattr(before, key):
                    found[f"{name}.{key}"] = getattr(stage, key)
        return found

    def name_changes(self, other: "Settings") -> str:
        """Returns the changes to other settings as text; ``as it is`` if the settings are equal."""
        changes = self.changes_to(other)
        return ", ".join(f"{key}={value}" for key, value in changes.items()) or "as it is"

    @property
    def size(self) -> tuple[int, int]:
        """The total threads, and the total rows of batches, to compare equally good settings."""
        stages = self.stages.values()
        return sum(stage.threads for stage in stages), sum(stage.batch_size for stage in stages)
