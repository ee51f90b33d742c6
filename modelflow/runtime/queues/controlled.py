"""What others than producers and workers do with a queue: they hold, change, drop, end it.

A session is cancelled: `discard` drops its rows. A stage is to have more threads: `hold` gives out
nothing until all its workers rest, `set_bounds` sets the new bounds, `release` lets them go.
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
    """The side of a queue for those who neither put rows in nor take them out."""

    stats: QueueStats
    """What became of its rows."""

    def __init__(
        self, node: str, policy: InboxPolicy, order: Order, matcher: Matcher | None, clock: Clock
    ) -> None:
        """Makes an empty queue that nobody rests at; see `BoundedQueue`."""
        super().__init__(node, policy, order, matcher, clock)
        self.stats = QueueStats()
        self._waiting = order.waiting
        self._idle_workers = IdleWorkers(self._lock, clock)
        # The most rows that the unit wants now; None: it takes any number.
        self._most_rows: Callable[[], int] | None = None
        # None: nothing is to be noted of what arrives.
        self._batching: DynamicBatching | None = None
        if policy.batch_timeout or policy.is_measured:
            self._batching = DynamicBatching(policy, order, self.stats, clock)

    def _go_by(self, policy: InboxPolicy) -> None:
        """Goes by other bounds, with the lock held."""
        raise NotImplementedError

    @property
    def waiting(self) -> object:
        """True where there is something to take; always the same object."""
        return self._waiting

    @property
    def is_noting(self) -> bool:
        """Tells whether it is noted why each batch closes."""
        return self._batching is not None

    @property
    def ready(self) -> int:
        """Rows that a worker could be given now."""
        return self._order.ready

    @property
    def dropped(self) -> int:
        """Rows of cancelled sessions that no worker was given."""
        return self.stats.dropped + self._order.dropped

    def pause(self, session: Session) -> None:
        """Hands out nothing of a session until `resume`; called under the outbox's lock."""
        with self._lock:
            self._order.pause(session)

    def resume(self, session: Session) -> None:
        """Ends a `pause`; called under the outbox's lock, `call_due` belongs behind it."""
        with self._lock:
            self._order.resume(session)
            self._room.wake()  # the session's senders, whatever is free
            if self._waiting:
                self._wake_worker()

    def change(self, change: Callable[[], Result]) -> Result:
        """Calls what changes the order, under the lock; wakes those who have something to do then.

        `call_due` belongs behind it. For the workers of a kind whose order knows more than rows:
        events, what goes round.
        """
        with self._lock:
            result = change()
            if self._waiting or self._order.has_delays:
                self._wake_worker()
            if self._room.count and self._order.is_roomy():
                self._room.wake()
        return result

    def drain(self) -> None:
        """Delays nothing any more: what was to come later comes now."""
        with self._lock:
            self._order.drain()
            self._wake_all()

    def end_cycles(self) -> None:
        """Lets nothing go on by itself any more: events that bring events, rows that go round."""
        with self._lock:
            self._order.end_cycles()
            self._wake_all()

    def discard(self, session: Session) -> None:
        """Drops everything that is queued of a session, and its state."""
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
        """Gives out nothing until `release`, and waits until all workers rest.

        What they had is done then, and has gone on. Where one of them waits for room behind it,
        that is waited for as well.

        Args:
            workers: How many take from here.

        Returns:
            False: the inbox was closed meanwhile.
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
        """Has workers end who rest during a `hold`."""
        with self._lock:
            self._idle_workers.dismiss(slots)

    def release(self) -> None:
        """Ends a `hold`."""
        with self._lock:
            self._hold(is_held=False)

    def set_bounds(self, policy: InboxPolicy) -> None:
        """Goes by other bounds from now on; `call_due` belongs behind it.

        Args:
            policy: The new ones. Where batches are to wait from now on, why they close is noted
                from now on, too.
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
        """Counts the rows and the states of sessions that are kept: 0 when no session is open."""
        with self._lock:
            return self._order.count_held() + (
                0 if self._matcher is None else self._matcher.count_held()
            )

    def close(self) -> None:
        """Wakes everyone: workers get None, producers go on, what is queued is dropped."""
        with self._lock:
            self._is_closed = True
            self._order.clear()
            if self._matcher is not None:
                self._matcher.clear()
            self._wake_all()
            self._room.wake()
        self._room.call_due()

    # -- who is woken ---------------------------------------------------------------------------

    def _wake_worker(self) -> None:
        """Has one of those who rest do something about what waits."""
        if self._batching is not None and self._batching.collector is not None:
            self._batching.wake()
        else:
            self._idle_workers.offer(None)

    def _wake_all(self) -> None:
        self._idle_workers.wake_all()
        if self._batching is not None and self._batching.collector is not None:
            self._batching.collector.wake()
