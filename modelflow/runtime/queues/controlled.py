"""The control operations of a queue: hold, change, discard, close.

If a session is cancelled, `discard` drops its rows. If a stage gets more threads, `hold` stops
giving out batches and waits until all workers are idle. Then `set_bounds` sets the new bounds, and
`release` lets the workers go on.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from modelflow.runtime.clock import Clock
from modelflow.runtime.orders.order import InboxPolicy, Order
from modelflow.runtime.queues.bounded import BoundedQueue
from modelflow.runtime.queues.dynamic_batching import DynamicBatching
from modelflow.runtime.queues.idle_workers import IdleWorkers
from modelflow.runtime.queues.match import Matcher
from modelflow.runtime.session.session import Session
from modelflow.runtime.stats import QueueStats
from modelflow.runtime.worker_slot import WorkerSlot

Result = TypeVar("Result")


class ControlledQueue(BoundedQueue):
    """The part of a queue that the scheduler uses: neither a producer nor a worker."""

    stats: QueueStats
    """Counts dropped rows, and why batches closed."""

    def __init__(
        self, node: str, policy: InboxPolicy, order: Order, matcher: Matcher | None, clock: Clock
    ) -> None:
        """Creates an empty queue without idle workers; see `BoundedQueue`."""
        super().__init__(node, policy, order, matcher, clock)
        self.stats = QueueStats()
        self._waiting = order.waiting
        self._idle_workers = IdleWorkers(self._lock, clock)
        # Returns the most rows that the unit wants now. None if the unit takes any number.
        self._most_rows: Callable[[], int] | None = None
        # None if no batch waits for more rows, and nothing is counted.
        self._batching: DynamicBatching | None = None
        if policy.batch_timeout or policy.is_measured:
            self._batching = DynamicBatching(policy, order, self.stats, clock)

    def _go_by(self, policy: InboxPolicy) -> None:
        """Applies other bounds; the caller holds the lock."""
        raise NotImplementedError

    @property
    def waiting(self) -> object:
        """An object that is true while rows can be taken; always the same object."""
        return self._waiting

    @property
    def is_noting(self) -> bool:
        """Returns whether the queue counts why batches close."""
        return self._batching is not None

    @property
    def ready(self) -> int:
        """The number of rows that a worker could take now."""
        return self._order.ready

    @property
    def dropped(self) -> int:
        """The number of rows of cancelled sessions that no worker got."""
        return self.stats.dropped + self._order.dropped

    def pause(self, session: Session) -> None:
        """Gives out no rows of a session until `resume`; the caller holds the outbox's lock."""
        with self._lock:
            self._order.pause(session)

    def resume(self, session: Session) -> None:
        """Ends a `pause`; the caller holds the outbox's lock, and calls `call_due` afterwards."""
        with self._lock:
            self._order.resume(session)
            self._room.wake()  # the session's senders, even if less than half is free
            if self._waiting:
                self._wake_worker()

    def change(self, change: Callable[[], Result]) -> Result:
        """Calls ``change`` under the lock, then wakes the threads that may go on.

        The caller calls `call_due` afterwards. The workers of stream units and loops use it. Their
        orders contain more than rows: events, or the rows inside the loop.
        """
        with self._lock:
            result = change()
            if self._waiting or self._order.has_delays:
                self._wake_worker()
            if self._room.is_awaited and self._order.is_roomy():
                self._room.wake()
        return result

    def drain(self) -> None:
        """Makes delayed events due now, and delays no event from now on."""
        with self._lock:
            self._order.drain()
            self._wake_all()

    def end_cycles(self) -> None:
        """Stops cycles: events that cause further events, and rows that go round a loop."""
        with self._lock:
            self._order.end_cycles()
            self._wake_all()

    def discard(self, session: Session) -> None:
        """Drops the queued rows and the state of a session."""
        with self._lock:
            self._drop(session)
            self._room.wake()
            if self._waiting:
                self._wake_all()
        self._room.call_due()

    def _drop(self, session: Session) -> None:
        before = self._order.ready
        self._order.drop(session)
        self.stats.dropped += max(0, before - self._order.ready)
        if self._matcher is not None:
            self._matcher.discard(session)

    def hold(self, workers: int) -> bool:
        """Gives out no batch until `release`, and waits until all workers are idle.

        By then the workers have finished their batches and sent the results on. If a worker waits
        for room in the next queue, `hold` waits for that as well.

        Args:
            workers: The number of workers that take from this queue.

        Returns:
            False if the inbox was closed meanwhile.
        """
        with self._lock:
            self._hold(is_held=True)
            while not self._is_closed and not self._idle_workers.is_quiet(workers):
                self._idle_workers.wait()
            return not self._is_closed

    def _hold(self, *, is_held: bool) -> None:
        self._idle_workers.is_held = is_held
        if self._batching is not None:
            self._batching.is_held = is_held
        self._wake_all()

    def dismiss(self, slots: Sequence[WorkerSlot]) -> None:
        """Ends the workers of the given slots, which are idle because of a `hold`."""
        with self._lock:
            self._idle_workers.dismiss(slots)

    def release(self) -> None:
        """Ends a `hold`."""
        with self._lock:
            self._hold(is_held=False)

    def set_bounds(self, policy: InboxPolicy) -> None:
        """Applies other bounds from now on; the caller calls `call_due` afterwards.

        Args:
            policy: The new bounds. If they make batches wait for more rows, the queue also counts
                from now on why batches close.
        """
        with self._lock:
            self._order.set_bounds(policy)
            if self._batching is not None:
                self._batching.set_bounds(policy)
            elif policy.batch_timeout:
                self._batching = DynamicBatching(policy, self._order, self.stats, self._clock)
                self._batching.is_held = self._idle_workers.is_held
                self._batching.most_rows = self._most_rows
            self._go_by(policy)
            self._room.wake()
            self._wake_all()

    def count_held(self) -> int:
        """Returns how many rows and session states are stored; 0 if no session is open."""
        with self._lock:
            return self._order.count_held() + (
                0 if self._matcher is None else self._matcher.count_held()
            )

    def close(self) -> None:
        """Closes the queue: drops all rows, and wakes every worker and producer.

        A waiting worker gets None; a waiting producer goes on.
        """
        with self._lock:
            self._is_closed = True
            self._order.clear()
            if self._matcher is not None:
                self._matcher.clear()
            self._wake_all()
            self._room.wake()
        self._room.call_due()

    # -- waking workers -------------------------------------------------------------------------

    def _wake_worker(self) -> None:
        """Wakes the worker that collects a batch if its batch is full, else an idle worker."""
        if self._batching is not None and self._batching.collector is not None:
            self._batching.wake()
        else:
            self._idle_workers.offer(None)

    def _wake_all(self) -> None:
        self._idle_workers.wake_all()
        if self._batching is not None and self._batching.collector is not None:
            self._batching.collector.wake()
