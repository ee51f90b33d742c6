"""What a stage counts: each worker for itself, without locks; added up when asked."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["NodeStats", "QueueStats", "WorkerStats"]

# Waits of less than 2**-3 ms are not told apart.
_LEAST = -3
# How fast what a call has cost is forgotten where later ones cost less.
_FORGETTING = 0.125


class WorkerStats:
    """The counters of one worker, written by it alone.

    Attributes:
        batches: Calls of the unit.
        buffers: Rows that were given to it.
        errors: Rows that failed in it.
        busy: Seconds spent in the unit.
        cost: Seconds that a call takes now: dear at once, and cheap again slowly; infinite before
            the first.
        sizes: Batch size -> how many calls had it.
        seconds: Batch size -> seconds spent in those calls.
        moved: Buffers that were copied from or to a device.
        moved_bytes: Their bytes.
    """

    __slots__ = (
        "batches",
        "buffers",
        "busy",
        "cost",
        "errors",
        "moved",
        "moved_bytes",
        "seconds",
        "sizes",
    )

    def __init__(self) -> None:
        self.batches = 0
        self.buffers = 0
        self.errors = 0
        self.busy = 0.0
        self.cost = math.inf
        self.sizes: Counter[int] = Counter()
        self.seconds: defaultdict[int, float] = defaultdict(float)
        self.moved = 0
        self.moved_bytes = 0

    def count(self, size: int, errors: int, seconds: float) -> None:
        """Adds one call."""
        self.batches += 1
        self.buffers += size
        self.errors += errors
        self.busy += seconds
        self.sizes[size] += 1
        self.seconds[size] += seconds
        cost = self.cost
        if cost > seconds and self.batches > 1:
            self.cost = cost + (seconds - cost) * _FORGETTING
        else:
            self.cost = seconds

    def count_transfer(self, buffers: int, size: int) -> None:
        """Adds buffers that were copied between devices, ``size`` bytes together."""
        self.moved += buffers
        self.moved_bytes += size


class QueueStats:
    """Why the batches of a queue closed, and how long they had waited; written under its lock.

    Attributes:
        closed: Reason (``full``, ``timeout``, ``nothing_waiting``, ``end_of_stream``) -> batches.
        waits: Upper bound in milliseconds (powers of two; 0.125 the least) -> batches whose oldest
            row had waited at most that long.
    """

    __slots__ = ("closed", "waits")

    def __init__(self) -> None:
        self.closed: Counter[str] = Counter()
        self.waits: Counter[float] = Counter()

    def count(self, reason: str, waited: float) -> None:
        """Adds a batch that closed for ``reason``, its oldest row after ``waited`` seconds."""
        self.closed[reason] += 1
        exponent = math.ceil(math.log2(waited * 1e3)) if waited > 0 else _LEAST
        self.waits[2.0 ** max(exponent, _LEAST)] += 1


@dataclass(frozen=True)
class NodeStats:
    """What a node has done so far; a moment's picture, not locked against the workers.

    Attributes:
        node, unit: Whose figures these are.
        threads: Its workers.
        batches, buffers, errors: Calls of the unit, rows given to it, rows that failed in it.
        busy: Seconds spent in the unit, over all workers.
        queue: Ready rows that wait now.
        moved, moved_bytes: Buffers that were copied between devices here, and their bytes.
        batch_sizes: Batch size -> number of calls. Sizes near 1 under load: the node keeps up, and
            batching is not needed. Sizes near ``batch_size``: the node is the bottleneck.
        batch_seconds: Batch size -> seconds spent in those calls, over all workers.
        closed: Why batches closed -> number of batches: ``full``, ``timeout``, ``nothing_waiting``,
            ``end_of_stream``; for inference nodes.
        waits: Milliseconds -> batches whose oldest row had waited at most that long; likewise.
        figures: Counters of the unit's own. An inference unit has ``engine_calls`` (rows ->
            calls of the engine) and ``batching`` (``padding``: rows filled up, ``another_shape``:
            batches cut because of it).
    """

    node: str
    unit: str
    threads: int
    batches: int = 0
    buffers: int = 0
    errors: int = 0
    busy: float = 0.0
    queue: int = 0
    moved: int = 0
    moved_bytes: int = 0
    batch_sizes: dict[int, int] = field(default_factory=dict)
    batch_seconds: dict[int, float] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)
    waits: dict[float, int] = field(default_factory=dict)
    figures: dict[str, dict[Any, int]] = field(default_factory=dict)

    @property
    def row_seconds(self) -> float:
        """Seconds that rows have spent in calls, added up over the rows: a call counts for each."""
        return sum(size * seconds for size, seconds in self.batch_seconds.items())

    @property
    def mean_batch_size(self) -> float:
        """Rows a call, on average, without the calls for events; 0 before the first."""
        calls = sum(count for size, count in self.batch_sizes.items() if size)
        return self.buffers / calls if calls else 0.0

    def with_queue(self, queue: QueueStats) -> "NodeStats":
        """Returns these figures with those of the queue."""
        return replace(self, closed=dict(queue.closed), waits=dict(sorted(queue.waits.items())))

    @classmethod
    def of(cls, node: str, unit: str, workers: Iterable[WorkerStats], queue: int) -> "NodeStats":
        """Adds up the counters of the workers of a node."""
        counters = list(workers)
        sizes: Counter[int] = Counter()
        seconds: defaultdict[int, float] = defaultdict(float)
        for counter in counters:
            sizes.update(dict(counter.sizes))
            for size, spent in dict(counter.seconds).items():
                seconds[size] += spent
        return cls(
            node=node,
            unit=unit,
            threads=len(counters),
            batches=sum(counter.batches for counter in counters),
            buffers=sum(counter.buffers for counter in counters),
            errors=sum(counter.errors for counter in counters),
            busy=sum(counter.busy for counter in counters),
            queue=queue,
            moved=sum(counter.moved for counter in counters),
            moved_bytes=sum(counter.moved_bytes for counter in counters),
            batch_sizes=dict(sorted(sizes.items())),
            batch_seconds=dict(sorted(seconds.items())),
        )
