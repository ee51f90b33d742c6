"""The outbox of a stage: restores the order of each session, and sends results to the receivers.

If several workers take from an inbox, its order gives the spans of each session the tickets 0, 1,
2, ... (see ``orders/fifo.py``). The outbox sends the results on in the order of the tickets.

Example: three workers take rows 0-3 (ticket 0), 4-7 (ticket 1) and 8-11 (ticket 2) of a session.
The outbox has ``limit=4``. The workers finish in another order::

    call                sent on          rows that wait        session in the inbox
    emit(ticket 1)      none             4-7                   gives out rows
    emit(ticket 2)      none             4-7, 8-11: 8 > limit  paused
    emit(ticket 0)      0-3, 4-7, 8-11   none                  resumed

The last call sends three segments under one lock. Rows of other sessions do not wait meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Protocol

from modelflow.runtime.locks import make_lock
from modelflow.runtime.session.segment import Batch, Columns, Segment, Span
from modelflow.runtime.session.session import Session
from modelflow.runtime.worker_slot import Handoff


class Receiver(Protocol):
    """A receiver of results: an `Inbox`, a `Merge`, or the results of the sessions."""

    @property
    def append_whole(self) -> Callable[[Batch, Handoff | None], None] | None:
        """Appends a whole batch at the only port, or None if the receiver wants segments.

        The caller need not call `call_due` afterwards.
        """

    def append(
        self, port: int, segments: Sequence[Segment], handoff: Handoff | None = None, /
    ) -> bool:
        """Appends segments without waiting.

        Args:
            port: The receiver's port.
            segments: The segments to append.
            handoff: The slots that the calling thread has borrowed, and to which the receiver may
                add a slot. None if the receiver must wake a worker instead.

        Returns:
            True if the caller must call `call_due` once it holds no lock.
        """

    def call_due(self) -> None:
        """Calls the callbacks that became due in `append`."""

    def wait_for_room(self, port: int) -> object:
        """Waits while the receiver is full."""

    def find_backpressure(self, port: int) -> str | None:
        """Returns the node whose full queue makes a producer of ``port`` wait, or None."""


class InboxView(Protocol):
    """The methods of a stage's inbox that its outbox uses."""

    def pause(self, session: Session) -> None:
        """Gives out no rows of a session until `resume`."""

    def resume(self, session: Session) -> None:
        """Ends a `pause`."""

    def call_due(self) -> None:
        """Calls the callbacks that became due in `resume`; the caller holds no lock."""


# The receivers of one output port, with their port numbers.
Route = tuple[tuple[Receiver, int], ...]
# The results of one span of a batch: for each route, the segments to send.
Routed = Sequence[Sequence[Segment]]


class _HeldResults:
    """The results of one session that wait for results with lower tickets."""

    __slots__ = ("by_ticket", "expected", "is_paused", "rows")

    def __init__(self) -> None:
        self.expected = 0
        self.by_ticket: dict[int, tuple[Span, Routed]] = {}
        self.rows = 0
        self.is_paused = False


class Outbox:
    """The exit of a stage, which sends the workers' results to the next queues.

    With one worker, results arrive in order. With several workers, a span waits here until all
    spans of its session with lower tickets were sent.

    If more than ``limit`` rows of a session wait, the inbox gives out no more rows of that session.
    The pause always ends: a worker has the span with the lowest ticket, and will finish it. Other
    sessions do not wait.
    """

    is_row_for_row: ClassVar[bool] = True
    """True if each row of a span has one result, which `_pieces` of a subclass may change."""

    def __init__(self, routes: Sequence[Route], gate: InboxView | None, limit: int) -> None:
        """Creates an empty outbox.

        Args:
            routes: The receivers of each output.
            gate: The stage's own inbox, which gives out tickets. None if results arrive in order.
            limit: The most rows of a session that may wait here before the inbox pauses the
                session.
        """
        self._routes = tuple(routes)
        # Fast path: most nodes have one output with one receiver.
        is_one = self.is_row_for_row and len(self._routes) == 1 and len(self._routes[0]) == 1
        self._only = self._routes[0][0] if is_one else None
        self._append_whole = None if self._only is None else self._only[0].append_whole
        self._gate = gate
        self._limit = limit
        self._lock = make_lock("outbox")
        self._sessions: dict[Session, _HeldResults] = {}

    def go_by(self, gate: InboxView | None, limit: int) -> None:
        """Applies another gate and limit from now on; see the constructor."""
        with self._lock:
            self._gate = gate
            self._limit = limit

    def refresh(self) -> None:
        """Reads again whether the only receiver takes whole batches."""
        self._append_whole = None if self._only is None else self._only[0].append_whole

    def emit(
        self, batch: Batch, results: Columns, has_errors: bool, handoff: Handoff | None = None
    ) -> None:
        """Sends the results of a batch to the receivers, without waiting.

        Args:
            batch: The batch that was processed.
            results: The results, a column for each output port.
            has_errors: True if a result may be in error.
            handoff: The slots that the calling thread has borrowed, and to which receivers may add
                slots.
        """
        gate, only, append_whole = self._gate, self._only, self._append_whole
        if only is not None and (gate is None or _is_alone(batch)):
            if append_whole is not None and len(results) == 1:
                # The code of `_forward` without the cost of a call.
                batch.columns, batch.has_errors = results, has_errors
                append_whole(batch, handoff)
            elif self._forward(only, batch, results, has_errors, handoff):
                only[0].call_due()
            return
        if gate is None:
            told = self._send(self._pieces(batch, results, has_errors), handoff)
        else:
            # Under the lock: otherwise two workers could append their results in the wrong order.
            with self._lock:
                if only is not None and self._passes(batch):
                    is_due = self._forward(only, batch, results, has_errors, handoff)
                    told = [only[0]] if is_due else []
                else:
                    told = self._send(self._due(gate, batch, results, has_errors), handoff)
            gate.call_due()
        for receiver in told:
            receiver.call_due()

    def _forward(
        self,
        to: tuple[Receiver, int],
        batch: Batch,
        results: Columns,
        has_errors: bool,
        handoff: Handoff | None,
    ) -> bool:
        """Sends a batch to the only receiver, whole if possible; True if `call_due` must follow."""
        batch.columns = results if len(results) == 1 else [results[0]]
        batch.has_errors = has_errors
        append_whole = self._append_whole  # read once, because `refresh` may change it meanwhile
        if append_whole is not None:
            append_whole(batch, handoff)
            return False
        return to[0].append(to[1], batch.segments(), handoff)

    def _passes(self, batch: Batch) -> bool:
        """Returns whether the batch can go on whole, and if so advances the expected tickets.

        The batch can, if every span has the expected ticket and no later span waits.
        """
        held_of = self._sessions
        for span in batch.spans:
            if span.ticket is not None:
                session = span.stream.session
                held = held_of.get(session)
                expected = 0 if held is None else held.expected
                if session.is_cancelled or span.ticket != expected or (held and held.by_ticket):
                    return False
        for span in batch.spans:
            if span.ticket is not None:
                self._pass(span.stream.session, span.is_session_end)
        return True

    def _pass(self, session: Session, is_end: bool) -> None:
        held = self._sessions.get(session)
        if is_end:
            self._sessions.pop(session, None)
        elif held is None:
            self._sessions[session] = held = _HeldResults()
            held.expected = 1
        else:
            held.expected += 1

    def _due(
        self, gate: InboxView, batch: Batch, results: Columns, has_errors: bool
    ) -> Sequence[Routed]:
        """Returns the results whose turn has come, and stores the other results of the batch."""
        due: list[Routed] = []
        routed = self._pieces(batch, results, has_errors)
        for span, piece in zip(batch.spans, routed, strict=True):
            if span.stream.session.is_cancelled:
                self._sessions.pop(span.stream.session, None)
            elif span.ticket is None:
                due.append(piece)
            else:
                self._release(gate, span, span.ticket, piece, due)
        return due

    def send(self, piece: Routed) -> None:
        """Sends results that are in order already; does not wait."""
        for receiver in self._send([piece], None):
            receiver.call_due()

    def wait_for_room(self) -> None:
        """Waits until every receiver has room."""
        for route in self._routes:
            for receiver, port in route:
                receiver.wait_for_room(port)

    def is_blocked(self) -> bool:
        """Returns whether `wait_for_room` would wait."""
        if self._only is not None:
            receiver, port = self._only
            return receiver.find_backpressure(port) is not None
        return bool(self.find_backpressure())

    def find_backpressure(self) -> list[str]:
        """Returns the nodes whose full queues make the workers of this stage wait."""
        found = [
            receiver.find_backpressure(port) for route in self._routes for receiver, port in route
        ]
        return [node for node in dict.fromkeys(found) if node is not None]

    def count_held(self) -> int:
        """Returns how many sessions have an expected ticket here."""
        return len(self._sessions)

    def discard(self, session: Session) -> None:
        """Drops the waiting results of a session."""
        with self._lock:
            self._sessions.pop(session, None)

    def close(self) -> None:
        """Drops all waiting results."""
        with self._lock:
            self._sessions.clear()

    def _release(
        self, gate: InboxView, span: Span, ticket: int, piece: Routed, due: list[Routed]
    ) -> None:
        session = span.stream.session
        held = self._sessions.get(session)
        if held is None:
            held = self._sessions[session] = _HeldResults()
        if ticket != held.expected:
            held.by_ticket[ticket] = span, piece
            held.rows += len(span.positions)
            if held.rows > self._limit and not held.is_paused:
                held.is_paused = True
                gate.pause(session)
            return
        while True:
            due.append(piece)
            held.expected += 1
            if span.is_session_end:
                del self._sessions[session]
                break
            if held.expected not in held.by_ticket:
                break
            span, piece = held.by_ticket.pop(held.expected)
            held.rows -= len(span.positions)
        if held.is_paused and held.rows <= self._limit:
            held.is_paused = False
            gate.resume(session)

    def _pieces(self, batch: Batch, results: Columns, has_errors: bool) -> list[Routed]:
        pieces: list[Routed] = []
        for span, columns in cut(batch, results):
            stream, positions, is_last = span.stream, span.positions, span.is_last
            pieces.append(
                [(Segment(stream, positions, [col], is_last, has_errors),) for col in columns]
            )
        return pieces

    def _send(self, pieces: Sequence[Routed], handoff: Handoff | None) -> list[Receiver]:
        """Appends to every receiver; returns the receivers whose `call_due` must be called."""
        told: list[Receiver] = []
        for port, route in enumerate(self._routes):
            if len(pieces) == 1:
                segments = pieces[0][port]
            else:
                segments = [segment for piece in pieces for segment in piece[port]]
            if len(route) == 1:
                ((receiver, target),) = route
                if segments and receiver.append(target, segments, handoff):
                    told.append(receiver)
            elif segments and route:
                # Each receiver gets twins, made before the first append: a worker behind the first
                # receiver may change the list and the buffers' meta immediately.
                others = [[segment.twin() for segment in segments] for _ in route[1:]]
                for (receiver, target), own in zip(route, (segments, *others), strict=True):
                    if receiver.append(target, own, handoff):
                        told.append(receiver)
        return told


def _is_alone(batch: Batch) -> bool:
    """Returns whether a batch is one span without a ticket, which no other span can overtake."""
    return len(batch.spans) == 1 and batch.spans[0].ticket is None


def cut(batch: Batch, results: Columns) -> Iterator[tuple[Span, Columns]]:
    """Yields the spans of a batch, each with its rows of the results."""
    start = 0
    for span in batch.spans:
        end = start + len(span.positions)
        yield span, [column[start:end] for column in results]
        start = end
