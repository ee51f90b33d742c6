"""Dynamic batching: how long a batch waits for more rows, and why a batch closes.

A node with ``batch_size=8`` and ``batch_timeout_ms=5`` has three rows. One worker, the collector,
waits until eight rows are ready or the oldest row has waited for 5 ms. The other workers stay idle.
"""

from collections.abc import Callable

from modelflow.runtime.clock import Clock
from modelflow.runtime.orders.order import InboxPolicy, Order
from modelflow.runtime.session.segment import Batch
from modelflow.runtime.stats import QueueStats
from modelflow.runtime.worker_slot import WorkerSlot


class DynamicBatching:
    """The wait of rows for a fuller batch, guarded by the inbox's lock.

    Only queues with a ``batch_timeout``, or whose batches are measured, have such an object. In
    other queues a batch closes as soon as a worker takes rows.
    """

    collector: WorkerSlot | None
    """The slot of the worker that waits for a fuller batch, if any."""
    is_held: bool
    """True while no batch may be cut; see `Inbox.hold`."""
    most_rows: Callable[[], int] | None
    """Returns the most rows that the unit wants now. None if the unit takes any number."""

    def __init__(self, policy: InboxPolicy, order: Order, stats: QueueStats, clock: Clock) -> None:
        """Creates the batching of an empty queue.

        Args:
            policy: The size of a batch, and how long a batch may wait.
            order: The waiting rows.
            stats: The counters of the reasons why batches close.
            clock: The clock of the waits.
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
        """Applies another policy from now on."""
        self._timeout = policy.batch_timeout
        self._size = policy.batch_size
        # Producers stop at the bound: a batch of that many rows cannot become fuller.
        self._full = min(policy.batch_size, *policy.bounds)
        if self.collector is not None:
            self.collector.wake()

    def arrive(self, now: float) -> None:
        """Stores the arrival time of the oldest row, just before rows are added to the order."""
        if not self._waiting:
            self._oldest = now

    def is_over(self, slot: WorkerSlot) -> bool:
        """Waits in ``slot`` for a fuller batch.

        Returns:
            True if a batch can be cut now, False if the worker must check the queue again.
        """
        order, waiting = self._order, self._waiting
        if not self._timeout or order.ready == 0:
            return True
        self.collector = slot
        try:
            while waiting and not self._is_full() and not self.is_held:
                if self._oldest is None:  # rows of a resumed session are back
                    self._oldest = self._clock.now()
                left = self._oldest + self._timeout - self._clock.now()
                if left <= 0:
                    break
                slot.rest(self._clock, left)
        finally:
            self.collector = None
        return bool(waiting) and not self.is_held  # a closed queue has no rows

    def wake(self) -> None:
        """Wakes the collector if its batch is full now."""
        if self.collector is not None and self._is_full():
            self.collector.wake()

    def note_cut(self, batch: Batch | None) -> None:
        """Counts why a batch closed, and restarts the wait for the remaining rows.

        Args:
            batch: The batch, or None if all waiting rows were dropped.
        """
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
