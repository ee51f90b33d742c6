"""The figures of a stage: the counters of its workers, of those too that have left it.

A stage of "decode" and "resize" with two workers: for each unit two counters, and two for both
together. One worker leaves: what it has counted is kept as one sum.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from modelflow.plan import StagePlan
from modelflow.runtime.clock import Clock
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.stages.instances import UnitInstances
from modelflow.runtime.stats import NodeStats, WorkerStats


class StageStats:
    """What the workers of a stage count, and what is made of it."""

    workers: list[WorkerStats]
    """The counters of its workers."""
    units: tuple[list[WorkerStats], ...]
    """The same by unit; of a stage with one unit these are its own."""

    def __init__(
        self, plan: StagePlan, inbox: Inbox, instances: Sequence[UnitInstances], clock: Clock
    ) -> None:
        """Begins with nothing counted.

        Args:
            plan: What was planned for the stage.
            inbox: Its queue.
            instances: Of each of its units, whose own figures belong to them.
            clock: What the times go by.
        """
        self._plan = plan
        self._inbox = inbox
        self._instances = instances
        self._clock = clock
        self.workers = []
        self.units = (self.workers,)
        if len(plan.units) > 1:
            self.units = tuple([] for _ in plan.units)
        # Held while workers leave or the rules change: no call may be counted twice, or not.
        self.lock = threading.RLock()
        # What workers that have left had counted: of the stage, and of each of its units.
        self._left: list[NodeStats | None] = [None] * (1 + len(plan.units))
        # Why batches closed, as counted by rules that held before; see `go_by`.
        self._closed_before: Counter[str] = Counter()
        self.add_workers(plan.threads)

    def add_workers(self, count: int) -> None:
        """Adds the counters of more workers, until there are so many."""
        for counters in {id(one): one for one in (self.workers, *self.units)}.values():
            counters.extend(WorkerStats() for _ in range(count - len(counters)))

    def drop_workers(self, count: int) -> None:
        """Keeps the counters of so many; those of the others, which have ended, as a sum."""
        with self.lock:
            self._drop(count)

    def _drop(self, count: int) -> None:
        now = self._clock.now()
        if not self._inbox.is_noting:
            self._closed_before.update(_reasons(self.workers[count:], self._plan.batch_size))
        for place, counters in enumerate((self.workers, *self.units)):
            gone = counters[count:]
            if gone:
                sums = NodeStats.of("", "", "", gone, now).past
                earlier = self._left[place]
                self._left[place] = sums if earlier is None else earlier + sums
        for counters in (self.workers, *self.units):
            del counters[count:]

    def go_by(self, plan: StagePlan, *, was_noting: bool) -> None:
        """Goes by another plan; the queue goes by it already.

        Args:
            plan: The new one.
            was_noting: Whether the queue noted before why batches close. Where that changes nobody
                may be at work.
        """
        with self.lock:
            # What was said of closed batches stays said: the rules are others from now on.
            copied = [_copy(worker) for worker in self.workers]
            noted = self._inbox.stats.closed
            before = noted if was_noting else _reasons(copied, self._plan.batch_size)
            after = noted if self._inbox.is_noting else _reasons(copied, plan.batch_size)
            self._closed_before.update(dict(before))
            self._closed_before.subtract(dict(after))
            self._plan = plan

    def count_calls(self) -> int:
        """Returns how many calls have been made: a figure that grows while something moves."""
        left = self._left[0]
        return sum(stats.batches for stats in self.workers) + (0 if left is None else left.batches)

    def estimate_wait(self) -> float | None:
        """Returns the seconds until what is queued now is done, from the rate so far."""
        done = [stats.done for stats in self.workers]
        rows = sum(count for count, _ in done)
        if not rows:
            return None
        spent = sum(seconds for _, seconds in done)
        return self._inbox.ready * spent / rows / self._plan.threads

    def nodes(self) -> list[NodeStats]:
        """Returns the figures of each of its nodes at this moment."""
        owns = [
            {"figures": instances.figures(), "replicas": instances.replicas()}
            for instances in self._instances
        ]
        with self.lock:
            now = self._clock.now()
            return [self._node(place, own, now) for place, own in enumerate(owns)]

    def _node(self, place: int, own: Mapping[str, Any], now: float) -> NodeStats:
        plan, unit = self._plan, self._instances[place].plan
        stats = NodeStats.of(unit.node, unit.spec.name, plan.name, self.units[place], now)
        stats = self._whole(1 + place, stats)
        stats = replace(stats, threads=plan.threads, batch_size=plan.batch_size, **own)
        return stats if place else self._with_queue(stats, now)

    def _whole(self, place: int, stats: NodeStats) -> NodeStats:
        left = self._left[place]
        return stats if left is None else stats + left

    def _with_queue(self, first: NodeStats, now: float) -> NodeStats:
        """Returns the figures of the first node with those of the whole stage."""
        plan, whole = self._plan, first
        if len(plan.units) > 1:
            whole = self._whole(0, NodeStats.of(plan.name, "", plan.name, self.workers, now))
        return replace(
            first,
            dropped=self._inbox.dropped,
            seconds=whole.seconds,
            starved=whole.starved,
            blocked=whole.blocked,
            order=whole.order,
            lent=whole.lent,
            on_core=whole.on_core,
            runnable=whole.runnable,
            queue=self._inbox.ready,
            capacity=min(plan.bounds, default=0),
            batch_timeout=self._inbox.policy.batch_timeout,
            closed={reason: count for reason, count in self._describe_closing().items() if count},
            wait=whole.wait,
        )

    def _describe_closing(self) -> Counter[str]:
        """Tells why batches closed."""
        found = Counter(self._closed_before)
        if self._inbox.is_noting:
            found.update(dict(self._inbox.stats.closed))
        else:
            found.update(_reasons(self.workers, self._plan.batch_size))
        return found


def _reasons(workers: Sequence[WorkerStats], batch_size: int) -> Counter[str]:
    """Tells why batches closed where nobody waits for fuller ones, and nobody noted it.

    What was not full had nothing more to take, or left it to others.
    """
    found: Counter[str] = Counter()
    for worker in list(workers):
        for size, (count, _) in list(worker.by_size.items()):
            if size:
                found["full" if size >= batch_size else "nothing_waiting"] += int(count)
        found["shared"] += int(sum(count for count, _ in list(worker.parts.values())))
    return found


def _copy(worker: WorkerStats) -> WorkerStats:
    """Returns counters of calls that nobody changes any more."""
    copied = WorkerStats()
    copied.by_size = {size: list(found) for size, found in list(worker.by_size.items())}
    copied.parts = {size: list(found) for size, found in list(worker.parts.items())}
    return copied
