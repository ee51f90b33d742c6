"""The bounds of a queue, and the producers that wait for room in the queue.

A queue with ``bounds=(4,)`` holds four ready rows, so `wait_for_room` waits. A worker takes three
of them. One row is left, at most half of the bound, and the producer goes on.
"""

import math
from collections.abc import Callable

from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import make_lock
from modelflow.runtime.orders.order import InboxPolicy, Order
from modelflow.runtime.queues.match import Matcher
from modelflow.runtime.session.session import Session
from modelflow.runtime.waiting import Waiting


class BoundedQueue:
    """The part of a queue that producers use.

    A producer appends its rows first. Then it waits for room, while it holds no lock and no rows.

    Only *ready* rows (each port has its buffer) count towards the bound. Rows without a partner
    never make a producer wait. The wait would not bring the partner, and could keep it away.
    """

    node: str
    """The name of the node that the queue belongs to, for messages."""
    policy: InboxPolicy
    """The bounds."""

    def __init__(
        self, node: str, policy: InboxPolicy, order: Order, matcher: Matcher | None, clock: Clock
    ) -> None:
        """Creates the bounds of an empty queue.

        Args:
            node: The node's name, for messages.
            policy: The bounds.
            order: The ready rows.
            matcher: The rows that lack a partner, or None if the node has one port.
            clock: The clock of every wait.
        """
        self.node = node
        self.policy = policy
        self._order = order
        self._matcher = matcher
        self._clock = clock
        self._lock = make_lock("inbox")
        self._room = Waiting(self._lock)
        self._is_closed = False

    def has_room(self, port: int, session: Session | None = None) -> bool:
        """Returns whether a producer of ``port`` may go on now, with buffers of ``session``."""
        return self._is_closed or (
            self._order.has_room(port, session)
            and (self._matcher is None or not self.is_unmatched(port))
        )

    def room(self, port: int) -> float:
        """Returns how many matched rows of new sessions may be appended now."""
        return math.inf if self._is_closed else self._order.room(port)

    def is_unmatched(self, port: int) -> bool:
        """Returns whether the buffers of ``port`` without a partner have reached their bound."""
        bounds = self.policy.unmatched_bounds
        return (
            bool(bounds)
            and self._matcher is not None
            and (self._matcher.waiting(port) >= bounds[port])
        )

    def find_backpressure(self, port: int) -> str | None:
        """Returns the name of the node if a producer of ``port`` must wait now, else None."""
        # The code of `has_room` without the cost of a call, because every batch passes here.
        has_room = self._is_closed or (
            self._order.has_room(port, None)
            and (self._matcher is None or not self.is_unmatched(port))
        )
        return None if has_room else self.node

    def wait_for_room(
        self, port: int, timeout: float | None = None, session: Session | None = None
    ) -> bool:
        """Waits while the ready rows of this inbox reach its bound.

        A producer that had to wait goes on when half of the queue is free. Otherwise producer and
        worker would wake each other for every buffer. With ``session``, the producer also goes on
        when that session accepts no more buffers.

        Returns:
            False if ``timeout`` seconds passed and the queue is still full.
        """
        if self.has_room(port, session):
            return True
        deadline = None if timeout is None else self._clock.now() + timeout
        with self._lock:
            while not (self.has_room(port, session) or _is_over(session)):
                remaining = None if deadline is None else deadline - self._clock.now()
                if remaining is not None and remaining <= 0:
                    return False
                self._room.wait(self._clock, remaining)
        return True

    def on_room(
        self, port: int, callback: Callable[[], None], session: Session | None = None
    ) -> None:
        """Calls ``callback`` once, when a producer of ``port`` may go on (maybe immediately)."""
        with self._lock:
            if not (self.has_room(port, session) or _is_over(session)):
                self._room.add(callback)
                return
        callback()

    def forget(self, callback: Callable[[], None]) -> None:
        """Removes a callback of `on_room` whose owner waits no longer."""
        self._room.remove(callback)

    def wake_producers(self) -> None:
        """Wakes all waiting producers to check again, because some session has ended."""
        with self._lock:
            self._room.wake()
        self._room.call_due()

    def call_due(self) -> None:
        """Calls the callbacks that are due because of new room; the caller holds no lock."""
        self._room.call_due()


def _is_over(session: Session | None) -> bool:
    return session is not None and session.progress.is_closed
