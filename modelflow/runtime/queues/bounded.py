"""The bounds of a queue, and those who wait for room in it.

A queue with ``bounds=(4,)`` holds four ready rows: `wait_for_room` waits. A worker takes three of
them; one is left, which is less than half of the bound, and the producer goes on.
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
    """What producers see of a queue. They put in first, and wait then, with nothing held.

    Only *ready* rows (each port has its buffer) count towards the bound: waiting could not help
    those that lack a partner along, so they never block a producer.
    """

    node: str
    """Whose queue it is; for messages."""
    policy: InboxPolicy
    """The bounds."""

    def __init__(
        self, node: str, policy: InboxPolicy, order: Order, matcher: Matcher | None, clock: Clock
    ) -> None:
        """Makes the bounds of an empty queue.

        Args:
            node: For messages.
            policy: The bounds.
            order: What is ready.
            matcher: What lacks a partner; None: nothing ever does.
            clock: What every wait goes by.
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
        """Tells whether a producer of ``port`` may go on now (with buffers of ``session``)."""
        return self._is_closed or (
            self._order.has_room(port, session)
            and (self._matcher is None or not self.is_unmatched(port))
        )

    def room(self, port: int) -> float:
        """Returns how many rows of new sessions, matched ones, may be appended now."""
        return math.inf if self._is_closed else self._order.room(port)

    def is_unmatched(self, port: int) -> bool:
        """Tells whether so many buffers of ``port`` lack a partner that its producers must wait."""
        bounds = self.policy.unmatched_bounds
        return (
            bool(bounds)
            and self._matcher is not None
            and (self._matcher.waiting(port) >= bounds[port])
        )

    def find_backpressure(self, port: int) -> str | None:
        """Returns the node for whose queue a producer of ``port`` waits now, or None."""
        return None if self.has_room(port) else self.node

    def wait_for_room(
        self, port: int, timeout: float | None = None, session: Session | None = None
    ) -> bool:
        """Waits while this inbox holds ready rows of at least its bound.

        A producer that had to wait goes on when half of the queue is free, so that the two sides
        do not wake each other for every buffer. With ``session`` it goes on, too, when nothing can
        be sent to that one any more.

        Returns:
            False if ``timeout`` seconds passed and there is still no room.
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
        """Calls ``callback`` once, when a producer of ``port`` may go on (perhaps at once)."""
        with self._lock:
            if not (self.has_room(port, session) or _is_over(session)):
                self._room.add(callback)
                return
        callback()

    def forget(self, callback: Callable[[], None]) -> None:
        """Takes back an `on_room` whose caller waits no longer."""
        self._room.remove(callback)

    def wake_producers(self) -> None:
        """Has everyone who waits for room look again: some session is over."""
        with self._lock:
            self._room.wake()
        self._room.call_due()

    def call_due(self) -> None:
        """Calls those who waited for room; with no lock held."""
        self._room.call_due()


def _is_over(session: Session | None) -> bool:
    return session is not None and session.progress.is_closed
