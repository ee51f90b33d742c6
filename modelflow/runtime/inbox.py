"""The bounded queue in front of a stage: it pairs several inputs, and gives out batches.

``append`` -> (`Matcher`, where there are several ports) -> `Order` -> ``take``. Three rows of one
session and two of another are appended; a worker whose batches have at most four takes the three
and one, and the next call of ``take`` gives the last.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from modelflow.runtime.bounded import Bounded
from modelflow.runtime.clock import SYSTEM_CLOCK, Clock
from modelflow.runtime.joining.match import Matcher
from modelflow.runtime.orders.order import InboxPolicy, Order
from modelflow.runtime.segment import Batch, Segment
from modelflow.runtime.session import Session
from modelflow.runtime.stats import QueueStats
from modelflow.runtime.waiting import Waiting

__all__ = ["Inbox"]

Result = TypeVar("Result")


class Inbox(Bounded):
    """The queue of one stage: lock, bounds, waiting, closing; what comes next its order says.

    Producers `append` and then `wait_for_room`; workers `take`. Every method may be called from any
    thread.
    """

    def __init__(
        self,
        node: str,
        ports: Sequence[str],
        policy: InboxPolicy,
        order: Order,
        clock: Clock = SYSTEM_CLOCK,
        *,
        is_matching: bool = True,
    ) -> None:
        """Makes an empty queue.

        Args:
            node: For messages.
            ports: The connected inputs.
            policy: The bounds.
            order: What it hands out next; empty, and nobody else's.
            clock: What every wait goes by.
            is_matching: Several ports are paired, row by row.
        """
        matcher = Matcher(node, ports) if len(ports) > 1 and is_matching else None
        super().__init__(node, policy, order, matcher, clock)
        self.ports = tuple(ports)
        self.stats = QueueStats() if policy.is_measured else None
        self._waiting = order.waiting
        # Producers stop at the bound: a batch of that many rows cannot become fuller.
        self._full = min(policy.batch_size, *policy.bounds)
        self._work = Waiting(self._lock)
        # Nothing is to be noted of what arrives.
        self._is_plain = self.stats is None and not policy.batch_timeout
        self._is_collecting = False
        self._oldest: float | None = None

    @property
    def ready(self) -> int:
        """Rows that a worker could be given now."""
        return self._order.ready

    # -- producers ------------------------------------------------------------------------------

    def append(self, port: int, segments: Sequence[Segment]) -> bool:
        """Puts segments at the end of a port's queue, whatever its bound; never waits.

        Returns:
            True: `call_due` must follow once the caller holds no lock.
        """
        with self._lock:
            if self._is_closed:
                return False
            if self._matcher is not None:
                self._match(self._matcher, port, segments)
            elif self._is_plain:
                self._order.add(port, segments)  # a cancelled session's are dropped when taken
            else:
                self._add(port, segments)
            if self._waiting:  # as in `_wake_worker`, without a call for every row
                if self._is_collecting:
                    self._wake_worker()
                elif self._work.count:
                    self._work.wake_one()
            return bool(self._room.due)

    def _match(self, matcher: Matcher, port: int, segments: Sequence[Segment]) -> None:
        for segment in segments:
            session = segment.stream.session
            if session.is_cancelled:
                self._drop(session)
            else:
                self._add(port, matcher.add(port, segment))
        if self._room.count and self._order.is_roomy():
            self._room.wake()

    def _add(self, port: int, segments: Sequence[Segment]) -> None:
        if self.policy.batch_timeout and not self._waiting:
            self._oldest = self._clock.now()
        if self.stats is not None:
            now = self._clock.now()
            for segment in segments:
                segment.arrived = now
        self._order.add(port, segments)

    # -- workers --------------------------------------------------------------------------------

    def take(self) -> Batch | None:
        """Waits for a batch; None once the inbox is closed."""
        order, waiting = self._order, self._waiting
        batch = None
        with self._lock:
            while batch is None and not self._is_closed:
                # Looked at once: what it brings in is seen in the next line.
                remaining = order.next_due() if order.has_delays else None
                if waiting and not self._is_collecting:
                    if not self.policy.batch_timeout or self._is_due():
                        batch = self._cut()
                        if self._work.count and waiting:
                            self._wake_worker()
                    continue  # it may have waited: look again at everything
                self._work.wait(self._clock, remaining)
        if self._room.due:
            self._room.call_due()
        return batch

    def take_nowait(self) -> Batch | None:
        """Returns a batch of what is ready, or None; waits where only delayed events are left."""
        batch, order, waiting = None, self._order, self._waiting
        if not waiting and not order.has_delays:
            return None
        with self._lock:
            while order.has_delays and (left := order.next_due()) is not None and not waiting:
                self._work.wait(self._clock, left)
            while waiting and batch is None:
                batch = self._cut()
        if self._room.due:
            self._room.call_due()
        return batch

    def _is_due(self) -> bool:
        """Waits for a fuller batch; True when one is to be cut."""
        policy, order, waiting = self.policy, self._order, self._waiting
        if order.ready == 0:
            return True
        self._is_collecting = True
        try:
            while waiting and order.ready < self._full and not self._is_closed:
                if self._oldest is None:  # what was paused has come back
                    self._oldest = self._clock.now()
                left = self._oldest + policy.batch_timeout - self._clock.now()
                if left <= 0:
                    break
                self._work.wait(self._clock, left)
        finally:
            self._is_collecting = False
        return bool(waiting)  # nothing waits in a closed one

    def _wake_worker(self) -> None:
        # While one worker fills its batch, the others sleep: only a broadcast surely reaches it.
        if not self._is_collecting:
            self._work.wake_one()
        elif self._order.ready >= self._full:
            self._work.wake()

    def _cut(self) -> Batch | None:
        batch = self._order.cut(self.policy.batch_size)
        if not self._is_plain:
            if self.stats is not None and batch is not None:
                self._measure(self.stats, batch)
            if self.policy.batch_timeout:
                self._oldest = self._clock.now() if self._waiting else None
        if self._room.count and self._order.is_roomy():
            self._room.wake()
        return batch

    def _measure(self, stats: QueueStats, batch: Batch) -> None:
        size = batch.size
        if not size:
            return
        waited = self._clock.now() - batch.arrived
        if size >= self.policy.batch_size:
            reason = "full"
        elif self.policy.batch_timeout and waited >= self.policy.batch_timeout:
            reason = "timeout"
        elif batch.spans[-1].is_last:
            reason = "end_of_stream"
        else:
            reason = "nothing_waiting"
        stats.count(reason, waited)

    # -- control --------------------------------------------------------------------------------

    def pause(self, session: Session) -> None:
        """Hands out nothing of a session until `resume`; called under the outbox's lock."""
        with self._lock:
            self._order.pause(session)

    def resume(self, session: Session) -> None:
        """Ends a `pause`; called under the outbox's lock, `call_due` belongs behind it."""
        with self._lock:
            self._order.resume(session)
            self._room.wake()  # the session's senders, whatever is free
            if self._waiting and self._work.count:
                self._wake_worker()

    def change(self, change: Callable[[], Result]) -> Result:
        """Calls what changes the order, under the lock; wakes those who have something to do then.

        `call_due` belongs behind it. For the workers of a kind whose order knows more than rows:
        events, what goes round.
        """
        with self._lock:
            result = change()
            if self._work.count and (self._waiting or self._order.has_delays):
                self._wake_worker()
            if self._room.count and self._order.is_roomy():
                self._room.wake()
        return result

    def drain(self) -> None:
        """Delays nothing any more: what was to come later comes now."""
        with self._lock:
            self._order.drain()
            self._work.wake()

    def end_cycles(self) -> None:
        """Lets nothing go on by itself any more: events that bring events, rows that go round."""
        with self._lock:
            self._order.end_cycles()
            self._work.wake()

    def discard(self, session: Session) -> None:
        """Drops everything that is queued of a session, and its state."""
        with self._lock:
            self._drop(session)
            self._room.wake()
            if self._waiting:
                self._work.wake()
        self._room.call_due()

    def _drop(self, session: Session) -> None:
        self._order.drop(session)
        if self._matcher is not None:
            self._matcher.discard(session)

    def held(self) -> int:
        """Counts the rows and the states of sessions that are kept: 0 when no session is open."""
        with self._lock:
            return self._order.held() + (0 if self._matcher is None else self._matcher.held())

    def close(self) -> None:
        """Wakes everyone: workers get None, producers go on, what is queued is dropped."""
        with self._lock:
            self._is_closed = True
            self._order.clear()
            if self._matcher is not None:
                self._matcher.clear()
            self._work.wake()
            self._room.wake()
        self._room.call_due()
