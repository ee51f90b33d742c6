"""The statistics of a stage: the counters of its current and its former workers.

A stage of "decode" and "resize" with two workers has two counters for each unit, and two for the
whole stage. If a worker ends, its counts are added to a sum, which remains.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from modelflow.plan import StagePlan
from modelflow.runtime.clock import Clock
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.stages.instances import UnitInstances
from modelflow.runtime.stats import NodeStats, WorkerStats
from modelflow.signals import new_lock


class StageStats:
    """The counters of a stage's workers, and the statistics computed from the counters."""

    workers: list[WorkerStats]
    """The counters of the workers."""
    units: tuple[list[WorkerStats], ...]
    """The workers' counters by unit. A stage with one unit uses ``workers`` itself."""

    def __init__(
        self, plan: StagePlan, inbox: Inbox, instances: Sequence[UnitInstances], clock: Clock
    ) -> None:
        """Creates counters of zero.

        Args:
            plan: The plan of the stage.
            inbox: The queue of the stage.
            instances: The instances of each unit, which may have counters of their own.
            clock: The clock of the times.
        """
        self._plan = plan
        self._inbox = inbox
        self._instances = instances
        self._clock = clock
        self.workers = []
        self.units = (self.workers,)
        if len(plan.units) > 1:
            self.units = tuple([] for _ in plan.units)
        # Held while workers end or the plan changes. Otherwise a reader could count a call twice,
        # or miss it.
        self.lock = new_lock()
        # The counts of workers that have ended: of the stage, then of each unit.
        self._left: list[NodeStats | None] = [None] * (1 + len(plan.units))
        # Why batches closed, as counted under earlier plans; see `go_by`.
        self._closed_before: Counter[str] = Counter()
        self.add_workers(plan.threads)

    def add_workers(self, count: int) -> None:
        """Adds counters of new workers, up to ``count`` workers."""
        for counters in {id(one): one for one in (self.workers, *self.units)}.values():
            counters.extend(WorkerStats() for _ in range(count - len(counters)))

    def drop_workers(self, count: int) -> None:
        """Removes the counters of all but ``count`` workers, after adding them to the sums.

        The removed workers have ended.
        """
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
        """Applies another plan, which the queue has applied already.

        Args:
            plan: The new plan.
            was_noting: True if the queue counted before why batches close. If that changes, no
                worker may be in a call.
        """
        with self.lock:
            # Batches that have closed keep their reasons, although the new plan would count other
            # reasons for them.
            copied = [_copy(worker) for worker in self.workers]
            noted = dict(self._inbox.stats.closed)  # once: batches close meanwhile
            before = noted if was_noting else _reasons(copied, self._plan.batch_size)
            after = noted if self._inbox.is_noting else _reasons(copied, plan.batch_size)
            self._closed_before.update(before)
            self._closed_before.subtract(after)
            self._plan = plan

    def count_calls(self) -> int:
        """Returns the number of calls so far, which grows while the flow makes progress."""
        with self.lock:
            left = self._left[0]
            gone = 0 if left is None else left.batches
            return gone + sum(stats.batches for stats in self.workers)

    def estimate_wait(self) -> float | None:
        """Returns the seconds to process the queued rows, estimated from the rate so far.

        Returns None if no row has been processed yet.
        """
        done = [stats.done for stats in self.workers.copy()]
        rows = sum(count for count, _ in done)
        if not rows:
            return None
        spent = sum(seconds for _, seconds in done)
        return self._inbox.ready * spent / rows / self._plan.threads

    def nodes(self) -> list[NodeStats]:
        """Returns the current statistics of each node of the stage."""
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
        """Returns the first node's statistics, with the queue and the times of the whole stage."""
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
            figures=first.figures | self._inbox.figures(),
            wait=whole.wait,
        )

    def _describe_closing(self) -> Counter[str]:
        """Returns how many batches closed for each reason."""
        found = Counter(self._closed_before)
        if self._inbox.is_noting:
            found.update(dict(self._inbox.stats.closed))
        else:
            found.update(_reasons(self.workers, self._plan.batch_size))
        return found


def _reasons(workers: Sequence[WorkerStats], batch_size: int) -> Counter[str]:
    """Returns why batches closed in a queue that does not count the reasons.

    In such a queue no batch waits. A batch that is not full took all waiting rows, or left rows to
    other workers.
    """
    found: Counter[str] = Counter()
    for worker in list(workers):
        for size, (count, _, _) in list(worker.by_size.items()):
            if size:
                found["full" if size >= batch_size else "nothing_waiting"] += count
        found["shared"] += sum(count for count, _, _ in list(worker.parts.values()))
    return found


def _copy(worker: WorkerStats) -> WorkerStats:
    """Returns a copy of the counters of calls, which no thread changes."""
    copied = WorkerStats()
    copied.by_size, copied.parts = worker.by_size.copy(), worker.parts.copy()
    return copied
