"""The queue of a node with ``split_size``: sessions take turns, and none fills it."""

from collections import deque
from collections.abc import Sequence

from modelflow.runtime.clock import SYSTEM_CLOCK, Clock
from modelflow.runtime.inbox import Inbox, InboxPolicy
from modelflow.runtime.segment import Segment
from modelflow.runtime.session import Session

__all__ = ["FairInbox"]

# How many sessions may have their share of the queue full before everyone waits.
_SESSIONS = 16


class FairInbox(Inbox):
    """Hands out at most ``split_size`` rows of a session at a time while others wait.

    A batch is filled in rounds: each session gives a share, then each one another, until the batch
    is full or nothing waits; the next batch begins with the session whose turn it is then. So a
    session of a thousand buffers and one of a single buffer advance by the same number of rows, and
    the order within each is as ever.

    The bound of the queue holds for each session alone; all together may have 16 times that.
    """

    # The base's queue: the sessions that have rows here, in the order of their turns.
    _queue: deque[Session]

    def __init__(
        self, node: str, ports: Sequence[str], policy: InboxPolicy, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(node, ports, policy, clock)
        self._segments: dict[Session, deque[Segment]] = {}
        self._rows: dict[Session, int] = {}
        self._bound = min(policy.bounds)
        # Rows that count towards the common bound: of a session at most its own bound.
        self._load = 0

    def has_room(self, port: int, session: Session | None = None) -> bool:
        """Tells whether a producer may go on now (with buffers of ``session``)."""
        if self._is_closed:
            return True
        if session is not None and self._rows.get(session, 0) >= self._bound:
            return False
        byte_bound = self.policy.byte_bound
        return (
            self._load < self._bound * _SESSIONS
            and (byte_bound is None or self.ready_bytes < byte_bound)
            and not self.is_unmatched(port)
        )

    def _enqueue(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            session = segment.stream.session
            waiting = self._segments.get(session)
            if waiting is None:
                waiting = self._segments[session] = deque()
                self._queue.append(session)
            waiting.append(segment)
            self._add_rows(session, len(segment.positions))

    def _pick(self, size: int) -> tuple[list[Segment], int]:
        left, picked = size, list[Segment]()
        is_alone = len(self._queue) == 1
        while self._queue:
            session = self._queue[0]
            if session.is_cancelled:
                self._discard(session)
                continue
            share = left if is_alone else min(left, self.policy.split_size)
            taken = share - self._take_rows(self._segments[session], share, picked)
            self._add_rows(session, -taken)
            left -= taken
            if not self._segments[session]:
                self._forget_turn(session)
            elif left or taken == share:
                self._queue.rotate(-1)
            if not left:
                break
        return picked, left

    def _drop(self, session: Session) -> None:
        if session in self._segments:
            self._discard(session)
        self._forget(session)

    def _discard(self, session: Session) -> None:
        for segment in self._segments[session]:
            self._discount((segment,), len(segment.positions))
        self._forget_turn(session)
        self._forget(session)

    def _forget_turn(self, session: Session) -> None:
        self._add_rows(session, -self._rows.get(session, 0))
        self._queue.remove(session)
        del self._segments[session]
        self._rows.pop(session, None)

    def _add_rows(self, session: Session, rows: int) -> None:
        before = self._rows.get(session, 0)
        after = self._rows[session] = before + rows
        self._load += min(after, self._bound) - min(before, self._bound)

    def _signal_room(self) -> None:
        # Each waits for its own session: whoever it is, what was taken may have been its rows.
        self._room.notify_all()
        callbacks, self._room_callbacks = self._room_callbacks, []
        for callback in callbacks:
            callback()

    def _clear(self) -> None:
        super()._clear()
        self._segments.clear()
        self._rows.clear()
        self._load = 0
