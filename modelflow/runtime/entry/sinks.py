"""Where data leaves the graph: a graph output, or a node that nothing follows.

The last segment of session 7 arrives at output ``"scores"``, the only one: `append` puts its
buffers into the session's results, and the session is over; both may be under the lock of the
outbox before it. `call_due`, which follows with no lock held, calls whoever waited for the
results, and tells the scheduler.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from modelflow.runtime.session.request_batch import RequestBatch
from modelflow.runtime.session.results import Results
from modelflow.runtime.session.segment import Segment
from modelflow.runtime.session.session import Session
from modelflow.runtime.worker_slot import Handoff

if TYPE_CHECKING:
    from modelflow.buffer import Buffer


class Terminal:
    """Counts rows out, and notes the ends of sessions; never full (see `Entrance`)."""

    append_whole = None

    def __init__(self, exits: Mapping[str, int]) -> None:
        """Takes, by origin, the terminal's place among the exits of a session."""
        self._exits = exits
        self._touched: deque[tuple[Session, Results | RequestBatch | None, bool, bool]] = deque()

    def find_blocker(self, port: int) -> None:
        """Returns None: nobody waits here."""

    def wait_for_room(self, port: int) -> None:
        """Returns at once."""

    def call_due(self) -> None:
        """Calls those who waited for what has arrived, and ends the sessions that are over."""
        while self._touched:
            try:
                session, results, is_counted, is_over = self._touched.popleft()
            except IndexError:  # another thread has just taken the last one
                return
            if results is not None:
                results.call_due()
            if is_counted:
                session.progress.call_due()
            if is_over:
                session.finish()

    def _count(
        self,
        session: Session,
        segment: Segment,
        is_end: bool,
        results: Results | RequestBatch | None = None,
    ) -> bool:
        """Notes a segment that has passed; True: `call_due` has something to do.

        Args:
            session: Whose it is.
            segment: What has passed.
            is_end: Nothing of the session comes here any more.
            results: Where somebody waited for what has come.
        """
        progress = session.progress
        is_counted = False
        if progress.is_counting:
            place = self._exits.get(session.origin)
            if place is not None:
                progress.leave(place, len(segment.positions))
                is_counted = True
        is_over = is_end and progress.end_passed()
        if is_over or is_counted or results is not None:
            self._touched.append((session, results, is_counted, is_over))
            return True
        return False


class OutputTerminal(Terminal):
    """Hands what arrives at a graph output to its session."""

    def __init__(self, output: str, exits: Mapping[str, int]) -> None:
        """Takes the output's name and, by origin, its place among the session's exits."""
        super().__init__(exits)
        self._output = output

    def append(
        self,
        port: int,  # noqa: ARG002 - there is one
        segments: Sequence[Segment],
        relay: Handoff | None = None,  # noqa: ARG002 - nobody works here
    ) -> bool:
        """Gives each segment to its session; True: `call_due` must follow."""
        is_due = False
        for segment in segments:
            session = segment.stream.session
            if session.is_cancelled:
                continue
            column, bundle = segment.columns[0], session.bundle
            if segment.has_errors:
                session.spoil(segment.positions, column)
            if bundle is not None:
                is_end = bundle.put(self._output, segment.positions, column, is_output=True)
                self._count(session, segment, is_end, bundle)
                is_due = True
                continue
            results = session.results[self._output]
            is_end = segment.is_last and segment.stream.depth == 0
            has_waiting = results.put(column, is_end)
            if self._count(session, segment, is_end, results if has_waiting else None):
                is_due = True
        return is_due


class SinkTerminal(Terminal):
    """Notes what has passed a node that nothing follows, and the errors that end there."""

    def __init__(self, node: str, exits: Mapping[str, int]) -> None:
        """Takes the node's name and, by origin, its place among the session's exits."""
        super().__init__(exits)
        self._node = node
        self._failed: deque[tuple[Session, Sequence[Buffer]]] = deque()

    def append(
        self,
        port: int,  # noqa: ARG002 - there is one
        segments: Sequence[Segment],
        relay: Handoff | None = None,  # noqa: ARG002 - nobody works here
    ) -> bool:
        """Notes each segment at its session; True: `call_due` must follow."""
        is_due = False
        for segment in segments:
            session = segment.stream.session
            column, bundle = segment.columns[0], session.bundle
            if segment.has_errors:
                session.progress.record_errors(column)
                session.spoil(segment.positions, column)
                self._failed.append((session, column))
                is_due = True
            if bundle is None:
                is_end = segment.is_last and segment.stream.depth == 0
            else:
                is_end = bundle.put(self._node, segment.positions, column, is_output=False)
            is_due = self._count(session, segment, is_end, bundle) or is_due
        return is_due

    def call_due(self) -> None:
        """Tells of the errors that ended here, and does the rest."""
        while self._failed:
            try:
                session, column = self._failed.popleft()
            except IndexError:  # another thread has just taken the last one
                break
            session.tell_errors(column)
        super().call_due()
