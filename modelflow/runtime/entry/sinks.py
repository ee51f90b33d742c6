"""The exits of a graph (graph outputs and last nodes), and the probes of edges.

A probe shows the buffers on an edge, for debugging. If a flow has a probe, the first receiver of
every output is wrapped when the flow is wired. A flow without a probe has no extra cost.

Example: the last segment of session 7 arrives at ``"scores"``, the only output. `append` puts its
buffers into the session's results, and the session has ended. This may run under the lock of the
outbox before. So `append` calls no callbacks. `call_due` follows without a lock. It calls the
callbacks that wait for results, and finishes the session.
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
"""A function that is called with a node, its output, and the buffers of that output.

For a graph input, node and output are both the name of the input. Buffers may be in error. The call
is made on the thread of the producer, maybe under a lock of the runtime. So the function must not
wait, use the flow, raise, or change a buffer. It may keep a `Buffer.twin`.
"""


def add_probe(tap: Tap | None, node: str, output: str, route: Route) -> Route:
    """Returns the route of an output, with a probe around the first receiver if ``tap`` is set."""
    if tap is None or not route:
        return route
    (receiver, port), *others = route  # all receivers get the same buffers
    return ((_Probe(receiver, tap, node, output), port), *others)


class _Probe:
    """A receiver that calls a `Tap` with the buffers, and passes them on."""

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
    """An exit of the graph: counts rows that leave, and detects the ends of sessions.

    A terminal is never full, because the `Submitter` already limits unread results.
    """

    append_whole = None

    def __init__(self, exits: Mapping[str, int]) -> None:
        """Creates the terminal.

        Args:
            exits: The terminal's place among the exits of a session, by the session's origin.
        """
        self._exits = exits
        self._touched: deque[tuple[Session, Results | RequestBatch | None, bool, bool]] = deque()

    def find_backpressure(self, port: int) -> None:
        """Returns None, because a terminal is never full."""

    def wait_for_room(self, port: int) -> None:
        """Returns immediately."""

    def call_due(self) -> None:
        """Calls the callbacks that wait for results, and finishes the sessions that have ended."""
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
        """Counts a segment that leaves the graph; returns True if `call_due` must follow.

        Args:
            session: The session of the segment.
            segment: The segment.
            is_end: True if the segment is the last of the session at this exit.
            results: The results whose callbacks must be called, if any.
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
    """The exit of a graph output, which gives results to their session."""

    def __init__(self, output: str, exits: Mapping[str, int]) -> None:
        """Creates the terminal of an output.

        Args:
            output: The output's name.
            exits: See `Terminal`.
        """
        super().__init__(exits)
        self._output = output

    def append(
        self,
        port: int,  # noqa: ARG002 - a single port
        segments: Sequence[Segment],
        handoff: Handoff | None = None,  # noqa: ARG002 - no worker behind
    ) -> bool:
        """Gives each segment to its session; returns True if `call_due` must follow."""
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
            if has_waiting or is_end or session.progress.is_counting:  # else nothing to count
                told = results if has_waiting else None
                is_due = self._count(session, segment, is_end, told) or is_due
        return is_due


class SinkTerminal(Terminal):
    """The exit behind a last node, which counts rows and reports their errors."""

    def __init__(self, node: str, exits: Mapping[str, int]) -> None:
        """Creates the terminal of a last node.

        Args:
            node: The node's name.
            exits: See `Terminal`.
        """
        super().__init__(exits)
        self._node = node
        self._failed: deque[tuple[Session, Sequence[Buffer]]] = deque()

    def append(
        self,
        port: int,  # noqa: ARG002 - a single port
        segments: Sequence[Segment],
        handoff: Handoff | None = None,  # noqa: ARG002 - no worker behind
    ) -> bool:
        """Counts each segment for its session; returns True if `call_due` must follow."""
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
        """Reports the errors that arrived here, then does the same as `Terminal.call_due`."""
        while self._failed:
            try:
                session, column = self._failed.popleft()
            except IndexError:  # another thread has just taken the last one
                break
            session.tell_errors(column)
        super().call_due()
