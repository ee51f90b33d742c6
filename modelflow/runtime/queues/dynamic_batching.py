"""When the batches of a queue close: what was waited for, how long, and why it ended.

A node with ``batch_size=8`` and ``batch_timeout_ms=5`` has three rows. The worker that has come
for them waits, alone, until there are eight or the oldest has waited for 5 ms; the others rest.
"""

from collections.abc import Callable

from modelflow.runtime.clock import Clock
from modelflow.runtime.orders.order import InboxPolicy, Order
from modelflow.runtime.session.segment import Batch
from modelflow.runtime.stats import QueueStats
from modelflow.runtime.worker_slot import WorkerSlot


class DynamicBatching:
    """How long rows wait for others to fill their batch; the inbox's lock guards it.

    For queues with a ``batch_timeout``, or whose waits are measured; others close a batch as soon
    as a worker comes for it.
    """

    collector: WorkerSlot | None
    """Of the worker that waits for a fuller batch, if any."""
    is_held: bool
    """No batch is to be cut; see `Inbox.hold`."""
    most_rows: Callable[[], int] | None
    """The most rows that the unit wants now; None: it takes any number."""

    def __init__(self, policy: InboxPolicy, order: Order, stats: QueueStats, clock: Clock) -> None:
        """Makes that of an empty queue.

        Args:
            policy: The size of a batch, and how long it may wait.
            order: What waits.
            stats: What counts why batches close.
            clock: What the waits go by.
        """
        self.collector = None
        self.is_held = False
        self.most_rows = None
        self.set_bounds(policy)
        self._order = order
        self._waiting = order.waiting
        self._stats = stats
        self._clock = clock
        self._oldest: float | None = None

    def set_bounds(self, policy: InboxPolicy) -> None:
        """Goes by another policy from now on."""
        self._timeout = policy.batch_timeout
        self._size = policy.batch_size
        # Producers stop at the bound: a batch of that many rows cannot become fuller.
        self._full = min(policy.batch_size, *policy.bounds)
        if self.collector is not None:
            self.collector.wake()

    def arrive(self, now: float) -> None:
        """Notes that something is about to be added to the order."""
        if not self._waiting:
            self._oldest = now

    def is_over(self, slot: WorkerSlot) -> bool:
        """Waits in ``slot`` for a fuller batch; True when one is to be cut, False to look again."""
        order, waiting = self._order, self._waiting
        if not self._timeout or order.ready == 0:
            return True
        self.collector = slot
        try:
            while waiting and not self._is_full() and not self.is_held:
                if self._oldest is None:  # what was paused has come back
                    self._oldest = self._clock.now()
                left = self._oldest + self._timeout - self._clock.now()
                if left <= 0:
                    break
                slot.rest(self._clock, left)
        finally:
            self.collector = None
        return bool(waiting) and not self.is_held  # nothing waits in a closed queue

    def wake(self) -> None:
        """Wakes the collector, if its batch has become full."""
        if self.collector is not None and self._is_full():
            self.collector.wake()

    def note_cut(self, batch: Batch | None) -> None:
        """Notes that a batch was cut; None: nothing was left of what waited."""
        if batch is not None and batch.size:
            waited = self._clock.now() - batch.arrived
            self._stats.closed[self._reason(batch, waited)] += 1
        self._oldest = self._clock.now() if self._waiting else None

    def _is_full(self) -> bool:
        ready = self._order.ready
        return ready >= self._full or (self.most_rows is not None and ready >= self.most_rows())

    def _reason(self, batch: Batch, waited: float) -> str:
        if batch.size >= self._size or (
            self.most_rows is not None and batch.size >= self.most_rows()
        ):
            return "full"
        if self._timeout and waited >= self._timeout:
            return "timeout"
        return "end_of_stream" if batch.spans[-1].is_last else "nothing_waiting"
