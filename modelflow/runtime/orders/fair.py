"""The order of a node with ``split_size``: sessions take turns, and no session fills the queue.

Example: session A has 700 rows, and the sessions B and C have one row each. With ``split_size=2``
and ``batch_size=8`` the first batch is ``A0 A1 B0 C0 A2 A3 A4 A5``. While other sessions have rows,
A gets shares of two rows. Then A fills the batch.
"""

from collections import deque
from collections.abc import Sequence

from modelflow.runtime.clock import SYSTEM_CLOCK, Clock
from modelflow.runtime.orders.fifo import Fifo
from modelflow.runtime.orders.order import InboxPolicy, bytes_of
from modelflow.runtime.orders.turns import Turns
from modelflow.runtime.session.segment import Batch, Segment
from modelflow.runtime.session.session import Session

# The number of sessions that may fill their bounds before all producers must wait.
_SESSIONS = 16


class Fair(Fifo):
    """The order that gives out at most ``split_size`` rows of a session while others wait.

    A batch is filled in rounds. In each round, each session gives a share of at most ``split_size``
    rows. Rounds end when the batch is full or no rows wait. The next batch begins with the next
    session. So all waiting sessions advance at the same rate, and each session keeps its own order.

    The bound of the queue applies to each session. All sessions together may have 16 times as many
    rows.
    """

    def __init__(
        self, policy: InboxPolicy, width: int, split_size: int, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Creates an empty order.

        Args:
            policy: The bounds.
            width: The number of ports of a row.
            split_size: The most rows that a session gives at a time while others wait.
            clock: The clock of the turns of both classes.
        """
        super().__init__(policy, width)
        self._split_size = split_size
        self._now = clock.now
        # The sessions that have rows here, in the order of their turns.
        self._turns: Turns[Session] = Turns()
        self.waiting = self._turns
        self._segments: dict[Session, deque[Segment]] = {}
        self._rows: dict[Session, int] = {}
        # Rows that count towards the common bound. A session counts at most its own bound.
        self._load = 0

    def has_room(self, port: int, session: Session | None) -> bool:  # noqa: ARG002 - one bound
        """See `Order.has_room`; with ``session``, its own bound applies as well."""
        if session is not None and self._rows.get(session, 0) >= self._bound:
            return False
        byte_bound = self._policy.byte_bound
        return self._load < self._bound * _SESSIONS and (
            byte_bound is None or self.ready_bytes < byte_bound
        )

    def room(self, port: int) -> int:
        """See `Order.room`; the common bound of all sessions applies."""
        return self._bound * _SESSIONS - self._load if self.has_room(port, None) else 0

    def is_roomy(self) -> bool:
        """Returns True, because any taken rows may have made room for a waiting session."""
        return True

    def add(self, port: int, segments: Sequence[Segment]) -> None:  # noqa: ARG002 - one way in
        """Appends rows to the rows of their sessions."""
        for segment in segments:
            session, count = segment.stream.session, len(segment.positions)
            waiting = self._segments.get(session)
            if waiting is None:
                waiting = self._segments[session] = deque()
                if session not in self._paused:
                    if session.is_first:
                        self._turns.add(session, is_first=True)
                    else:
                        self._turns.append(session)
            waiting.append(segment)
            self._add_rows(session, count)
            self.ready += count
            if self._policy.byte_bound is not None:
                self.ready_bytes += bytes_of(segment)

    def cut(self, size: int) -> Batch | None:
        """See `Order.cut`."""
        lacking, picked = size, list[Segment]()
        is_alone = len(self._turns) == 1
        while self._turns and lacking:
            turns = self._turns
            if turns.first:
                session = turns.take(self._now)
            else:
                session, turns.since = turns.popleft(), None
            if session.is_cancelled:
                self.dropped += sum(len(one.positions) for one in self._segments[session])
                self.drop(session)
                continue
            share = lacking if is_alone else min(lacking, self._split_size)
            taken = share - self._take_rows(self._segments[session], share, picked)
            self._add_rows(session, -taken)
            lacking -= taken
            if not self._segments[session]:
                self._leave(session)
            elif session not in self._paused:
                is_next = not lacking and taken < share
                (turns.put_back if is_next else turns.add)(session, is_first=session.is_first)
        return self._batch(picked) if picked else None

    def pause(self, session: Session) -> None:
        """See `Order.pause`: the session loses its turn."""
        if session not in self._paused:
            self._paused[session] = deque()
            if session in self._segments:
                self._turns.leave(session, is_first=session.is_first)

    def resume(self, session: Session) -> None:
        """See `Order.resume`."""
        if self._paused.pop(session, None) is not None and session in self._segments:
            self._turns.add(session, is_first=session.is_first)

    def drop(self, session: Session) -> None:
        """See `Order.drop`."""
        self._segments.pop(session, None)
        self._rows.pop(session, None)
        if session in self._turns:
            self._turns.leave(session, is_first=session.is_first)
        self._count_anew([segment for each in self._segments.values() for segment in each])
        self._load = sum(min(rows, self._bound) for rows in self._rows.values())
        self._forget(session)

    def clear(self) -> None:
        """See `Order.clear`."""
        super().clear()
        self._turns.clear()
        self._segments.clear()
        self._rows.clear()
        self._load = 0

    def count_held(self) -> int:
        """See `Order.count_held`."""
        return super().count_held() + len(self._segments) + len(self._rows) + self._load

    def _leave(self, session: Session) -> None:
        self._add_rows(session, -self._rows.get(session, 0))
        self._segments.pop(session, None)
        del self._rows[session]

    def _add_rows(self, session: Session, rows: int) -> None:
        before = self._rows.get(session, 0)
        after = self._rows[session] = before + rows
        self._load += min(after, self._bound) - min(before, self._bound)
