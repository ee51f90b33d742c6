"""What a stage counts: each worker for itself, without locks; added up when asked."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["NodeStats", "WorkerStats"]


class WorkerStats:
    """The counters of one worker, written by it alone.

    Attributes:
        batches: Calls of the unit.
        buffers: Rows that were given to it.
        errors: Rows that failed in it.
        busy: Seconds spent in the unit.
        sizes: Batch size -> how many calls had it.
        moved: Buffers that were copied from or to a device.
        moved_bytes: Their bytes.
    """

    __slots__ = ("batches", "buffers", "busy", "errors", "moved", "moved_bytes", "sizes")

    def __init__(self) -> None:
        self.batches = 0
        self.buffers = 0
        self.errors = 0
        self.busy = 0.0
        self.sizes: Counter[int] = Counter()
        self.moved = 0
        self.moved_bytes = 0

    def count(self, size: int, errors: int, seconds: float) -> None:
        """Adds one call."""
        self.batches += 1
        self.buffers += size
        self.errors += errors
        self.busy += seconds
        self.sizes[size] += 1

    def count_transfer(self, buffers: int, size: int) -> None:
        """Adds buffers that were copied between devices, ``size`` bytes together."""
        self.moved += buffers
        self.moved_bytes += size


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

    @property
    def mean_batch_size(self) -> float:
        """Rows a call, on average, without the calls for events; 0 before the first."""
        calls = sum(count for size, count in self.batch_sizes.items() if size)
        return self.buffers / calls if calls else 0.0

    @classmethod
    def of(cls, node: str, unit: str, workers: Iterable[WorkerStats], queue: int) -> "NodeStats":
        """Adds up the counters of the workers of a node."""
        counters = list(workers)
        sizes: Counter[int] = Counter()
        for counter in counters:
            sizes.update(dict(counter.sizes))
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
        )
