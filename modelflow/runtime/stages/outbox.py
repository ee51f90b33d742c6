"""Behind a stage: order restored session by session, and buffers sent to every inbox they feed.

Two workers have rows 0-7 (ticket 0) and 8-15 (ticket 1) of a session. The second is done first: its
results wait here. When the first is done, 0-15 go on as two segments, under one lock.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Protocol

from modelflow.runtime.locks import make_lock
from modelflow.runtime.session.segment import Batch, Columns, Segment, Span
from modelflow.runtime.session.session import Session
from modelflow.runtime.worker_slot import Handoff


class Receiver(Protocol):
    """What an outbox can feed: an inbox, a meeting of branches, the results of the sessions."""

    @property
    def append_whole(self) -> Callable[[Batch, Handoff | None], None] | None:
        """Does what `append` does for a batch as it is, at the only port; None: it is to be cut.

        Nobody is to be called for it.
        """

    def append(
        self, port: int, segments: Sequence[Segment], handoff: Handoff | None = None, /
    ) -> bool:
        """Takes segments in, without waiting; True: `call_due` must follow with no lock held.

        Args:
            port: The receiver's port.
            segments: What it is given.
            handoff: What the calling thread may go on with itself; None: others must be woken.
        """

    def call_due(self) -> None:
        """Calls those who waited for what has happened in `append`."""

    def wait_for_room(self, port: int) -> object:
        """Waits while it is full."""

    def find_backpressure(self, port: int) -> str | None:
        """Returns the node for whose queue a producer of ``port`` waits now, or None."""


class InboxView(Protocol):
    """The inbox before the stage, as far as the outbox behind it must know it."""

    def pause(self, session: Session) -> None:
        """Hands out nothing of a session until `resume`."""

    def resume(self, session: Session) -> None:
        """Ends a `pause`."""

    def call_due(self) -> None:
        """Calls those who waited for what has happened in `resume`; with no lock held."""


# For one output port: the receivers that it feeds, with their port numbers.
Route = tuple[tuple[Receiver, int], ...]
# What one span of a batch has become: for each route, the segments to send.
Routed = Sequence[Sequence[Segment]]


class _HeldResults:
    """What waits of one session: results by ticket, until those before them have gone on."""

    __slots__ = ("by_ticket", "expected", "is_paused", "rows")

    def __init__(self) -> None:
        self.expected = 0
        self.by_ticket: dict[int, tuple[Span, Routed]] = {}
        self.rows = 0
        self.is_paused = False


class Outbox:
    """Sends what the workers of one stage give on its way.

    With one worker, whatever comes is in order. With several, a span waits here until those with
    the lower tickets of its session have passed. When more than ``limit`` rows of a session wait
    so, the workers are given no more of that session until they have gone on; the worker that holds
    the lowest ticket is running, so they will. Other sessions pass.
    """

    is_row_for_row: ClassVar[bool] = True
    """What goes on of a span are its own rows, each of them; not with other `_pieces`."""

    def __init__(self, routes: Sequence[Route], gate: InboxView | None, limit: int) -> None:
        """Makes an empty one.

        Args:
            routes: For each output, the receivers that it feeds.
            gate: The stage's own inbox, which gives out tickets; None: what comes is in order.
            limit: Most rows of a session that may wait here before ``gate`` is told to pause it.
        """
        self._routes = tuple(routes)
        # Most nodes have one output, which feeds one receiver.
        is_one = self.is_row_for_row and len(self._routes) == 1 and len(self._routes[0]) == 1
        self._only = self._routes[0][0] if is_one else None
        self._append_whole = None if self._only is None else self._only[0].append_whole
        self._gate = gate
        self._limit = limit
        self._lock = make_lock("outbox")
        self._sessions: dict[Session, _HeldResults] = {}

    def go_by(self, gate: InboxView | None, limit: int) -> None:
        """Goes by another order and limit from now on; see the constructor."""
        with self._lock:
            self._gate = gate
            self._limit = limit

    def refresh(self) -> None:
        """Looks anew at how the only receiver takes a batch."""
        self._append_whole = None if self._only is None else self._only[0].append_whole

    def emit(
        self, batch: Batch, results: Columns, has_errors: bool, handoff: Handoff | None = None
    ) -> None:
        """Sends the results of a batch, a column an output port, to where they belong.

        Does not wait; `wait_for_room` does.

        Args:
            batch: What was worked on.
            results: What it became.
            has_errors: Some of it may be in error.
            handoff: What the calling thread may go on with itself.
        """
        gate, only = self._gate, self._only
        if only is not None and (gate is None or _is_alone(batch)):
            if self._forward(only, batch, results, has_errors, handoff):
                only[0].call_due()
            return
        if gate is None:
            told = self._send(self._pieces(batch, results, has_errors), handoff)
        else:
            # Under the lock: two workers that release one after the other append in turn.
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
        """Gives a batch to the only receiver, whole if that takes it so; True: `call_due`."""
        batch.columns = results if len(results) == 1 else [results[0]]
        batch.has_errors = has_errors
        if self._append_whole is not None:
            self._append_whole(batch, handoff)
            return False
        return to[0].append(to[1], batch.segments(), handoff)

    def _passes(self, batch: Batch) -> bool:
        """Lets a batch pass as a whole if all of it has its turn, and nothing waits behind it."""
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
        """Keeps what is ahead of its turn, and returns what has it."""
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
        """Sends what is in order already; does not wait."""
        for receiver in self._send([piece], None):
            receiver.call_due()

    def wait_for_room(self) -> None:
        """Waits until every inbox fed from here has room."""
        for route in self._routes:
            for receiver, port in route:
                receiver.wait_for_room(port)

    def is_blocked(self) -> bool:
        """Tells whether `wait_for_room` would wait."""
        if self._only is not None:
            receiver, port = self._only
            return receiver.find_backpressure(port) is not None
        return bool(self.find_backpressure())

    def find_backpressure(self) -> list[str]:
        """Returns the nodes whose queues are full, so that the workers wait."""
        found = [
            receiver.find_backpressure(port) for route in self._routes for receiver, port in route
        ]
        return [node for node in dict.fromkeys(found) if node is not None]

    def count_held(self) -> int:
        """Returns how many sessions have a place in an order here."""
        return len(self._sessions)

    def discard(self, session: Session) -> None:
        """Drops what is held of a session."""
        with self._lock:
            self._sessions.pop(session, None)

    def close(self) -> None:
        """Drops what is held."""
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
        """Appends to every receiver; returns those that `call_due` must be called of."""
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
                # Each has its own, made before the first is appended: who reads it may change the
                # list, and the buffers' meta, at once.
                others = [[segment.twin() for segment in segments] for _ in route[1:]]
                for (receiver, target), own in zip(route, (segments, *others), strict=True):
                    if receiver.append(target, own, handoff):
                        told.append(receiver)
        return told


def _is_alone(batch: Batch) -> bool:
    """Tells whether a batch is of one session that nothing can overtake."""
    return len(batch.spans) == 1 and batch.spans[0].ticket is None


def cut(batch: Batch, results: Columns) -> Iterator[tuple[Span, Columns]]:
    """Gives the spans of a batch, each with its rows of the results."""
    start = 0
    for span in batch.spans:
        end = start + len(span.positions)
        yield span, [column[start:end] for column in results]
        start = end
