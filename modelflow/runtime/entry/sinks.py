"""Where data leaves the graph: graph outputs, nodes that nothing follows, and probes of edges.

Whoever debugs a graph looks at what passes an edge. Where a flow has a probe, the first receiver of
every output is wrapped when the flow is wired; one without pays nothing.

The last segment of session 7 arrives at output ``"scores"``, the only one: `append` puts its
buffers into the session's results, and the session is over; both may be under the lock of the
outbox before it. `call_due`, which follows with no lock held, calls whoever waited for the
results, and tells the scheduler.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from modelflow.buffer import Buffer
from modelflow.runtime.session.request_batch import RequestBatch
from modelflow.runtime.session.results import Results
from modelflow.runtime.session.segment import Segment
from modelflow.runtime.session.session import Session
from modelflow.runtime.stages.outbox import Receiver, Route
from modelflow.runtime.worker_slot import Handoff

Tap = Callable[[str, str, Sequence[Buffer]], None]
"""Called with a node, its output (of a graph input its name, twice) and the buffers that come from
there, some of them perhaps in error; on the thread that brings them, perhaps under a lock of the
runtime: it must not wait, use the flow, raise, or change a buffer. A `Buffer.twin` may be kept."""


def add_probe(tap: Tap | None, node: str, output: str, route: Route) -> Route:
    """Returns the route of an output, past the tap if there is one."""
    if tap is None or not route:
        return route
    (receiver, port), *others = route  # all of them are given the same
    return ((_Probe(receiver, tap, node, output), port), *others)


class _Probe:
    """A receiver that shows what it is given, and passes it on."""

    append_whole = None

    def __init__(self, receiver: Receiver, tap: Tap, node: str, output: str) -> None:
        self._receiver = receiver
        self._tap = tap
        self._names = node, output

    def append(
        self, port: int, segments: Sequence[Segment], handoff: Handoff | None = None
    ) -> bool:
        """See `Receiver.append`."""
        for segment in segments:
            if segment.positions:
                self._tap(*self._names, segment.columns[0])
        return self._receiver.append(port, segments, handoff)

    def call_due(self) -> None:
        """See `Receiver.call_due`."""
        self._receiver.call_due()

    def wait_for_room(self, port: int) -> object:
        """See `Receiver.wait_for_room`."""
        return self._receiver.wait_for_room(port)

    def find_backpressure(self, port: int) -> str | None:
        """See `Receiver.find_backpressure`."""
        return self._receiver.find_backpressure(port)


class Terminal:
    """Counts rows out, and notes the ends of sessions; never full (see `Entrance`)."""

    append_whole = None

    def __init__(self, exits: Mapping[str, int]) -> None:
        """Takes, by origin, the terminal's place among the exits of a session."""
        self._exits = exits
        self._touched: deque[tuple[Session, Results | RequestBatch | None, bool, bool]] = deque()

    def find_backpressure(self, port: int) -> None:
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
        handoff: Handoff | None = None,  # noqa: ARG002 - nobody works here
    ) -> bool:
        """Gives each segment to its session; True: `call_due` must follow."""
        is_due = False
        for segment in segments:
            session = segment.stream.session
            if session.is_cancelled:
                continue
            column, request_batch = segment.columns[0], session.request_batch
            if segment.has_errors:
                session.spoil(segment.positions, column)
            if request_batch is not None:
                is_end = request_batch.put(self._output, segment.positions, column, is_output=True)
                self._count(session, segment, is_end, request_batch)
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
        handoff: Handoff | None = None,  # noqa: ARG002 - nobody works here
    ) -> bool:
        """Notes each segment at its session; True: `call_due` must follow."""
        is_due = False
        for segment in segments:
            session = segment.stream.session
            column, request_batch = segment.columns[0], session.request_batch
            if segment.has_errors:
                session.progress.record_errors(column)
                session.spoil(segment.positions, column)
                self._failed.append((session, column))
                is_due = True
            if request_batch is None:
                is_end = segment.is_last and segment.stream.depth == 0
            else:
                is_end = request_batch.put(self._node, segment.positions, column, is_output=False)
            is_due = self._count(session, segment, is_end, request_batch) or is_due
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
