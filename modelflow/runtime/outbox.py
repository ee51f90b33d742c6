"""Behind a stage: order restored stream by stream, and buffers sent to every inbox they feed."""

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from modelflow.runtime.segment import Batch, Columns, Segment, Slice

if TYPE_CHECKING:
    from modelflow.runtime.session import Session

__all__ = ["Outbox", "Piece", "Receiver", "Route", "cut"]


class Receiver(Protocol):
    """What an outbox can feed: an inbox, a meeting of branches, the results of the sessions."""

    def append(self, port: int, segments: Sequence[Segment]) -> None:
        """Takes segments in, without waiting."""

    def wait_for_room(self, port: int, timeout: float | None = None) -> bool:
        """Waits while it is full; False after ``timeout`` seconds."""


# For one output port: the receivers that it feeds, with their port numbers.
Route = tuple[tuple[Receiver, int], ...]
# What one slice of a batch has become: for each route, the segments to send.
Piece = Sequence[Sequence[Segment]]


class Outbox:
    """Sends what the workers of one stage give on its way.

    With one worker, whatever comes is in order. With several, a slice waits here until those with
    the lower tickets of its session have passed; ``limit`` rows may wait so, then the workers take
    nothing new (the worker that holds the lowest ticket is running, so it goes on).
    """

    def __init__(self, routes: Sequence[Route], *, is_ordered: bool, limit: int) -> None:
        self._routes = tuple(routes)
        self._is_ordered = is_ordered
        self._limit = limit
        self._lock = threading.Lock()
        self._is_short = threading.Condition(self._lock)
        self._next: dict[Session, int] = {}
        self._held: dict[Session, dict[int, tuple[Slice, Piece]]] = {}
        self._held_rows = 0
        self._is_closed = False

    def emit(self, batch: Batch, results: Columns, has_errors: bool) -> None:
        """Sends the results of a batch, a column an output port, to where they belong.

        Does not wait; `wait_for_room` does.
        """
        pieces = self._pieces(batch, results, has_errors)
        if not self._is_ordered:
            self._send(pieces)
            return
        with self._lock:
            due: list[Piece] = []
            for part, piece in zip(batch.slices, pieces, strict=True):
                session = part.stream.session
                if session.is_cancelled:
                    self._forget(session)
                elif part.ticket is None:
                    due.append(piece)
                else:
                    self._release(part, part.ticket, piece, due)
            # Under the lock: two workers that release one after the other must append in turn.
            self._send(due)
            if self._held_rows <= self._limit:
                self._is_short.notify_all()

    def send(self, piece: Piece) -> None:
        """Sends what is in order already; does not wait."""
        self._send([piece])

    def wait_for_room(self) -> None:
        """Waits until every inbox fed from here has room."""
        for route in self._routes:
            for receiver, port in route:
                receiver.wait_for_room(port)

    def wait_for_order(self) -> None:
        """Waits while too many rows are held back by a slower worker of the same stage."""
        if self._held_rows > self._limit:
            with self._lock:
                while self._held_rows > self._limit and not self._is_closed:
                    self._is_short.wait()

    def discard(self, session: "Session") -> None:
        """Drops what is held of a session."""
        with self._lock:
            self._forget(session)
            self._is_short.notify_all()

    def close(self) -> None:
        """Wakes the workers that wait here; what is held is dropped."""
        with self._lock:
            self._is_closed = True
            self._held.clear()
            self._next.clear()
            self._held_rows = 0
            self._is_short.notify_all()

    def _release(self, part: Slice, ticket: int, piece: Piece, due: list[Piece]) -> None:
        session = part.stream.session
        expected = self._next.setdefault(session, 0)
        if ticket != expected:
            self._held.setdefault(session, {})[ticket] = (part, piece)
            self._held_rows += len(part.positions)
            return
        held = self._held.get(session, {})
        while True:
            due.append(piece)
            expected += 1
            if part.is_lane_end:
                del self._next[session]
                self._held.pop(session, None)
                return
            if expected not in held:
                self._next[session] = expected
                return
            part, piece = held.pop(expected)
            self._held_rows -= len(part.positions)

    def _forget(self, session: "Session") -> None:
        self._next.pop(session, None)
        for part, _ in self._held.pop(session, {}).values():
            self._held_rows -= len(part.positions)

    def _pieces(self, batch: Batch, results: Columns, has_errors: bool) -> list[Piece]:
        """Cuts the results by slice: a segment an output port."""
        if len(batch.slices) == 1:
            part = batch.slices[0]
            stream, positions, is_last = part.stream, part.positions, part.is_last
            return [[(Segment(stream, positions, [col], is_last, has_errors),) for col in results]]
        pieces: list[Piece] = []
        for part, columns in cut(batch, results):
            stream, positions, is_last = part.stream, part.positions, part.is_last
            pieces.append(
                [(Segment(stream, positions, [col], is_last, has_errors),) for col in columns]
            )
        return pieces

    def _send(self, pieces: Sequence[Piece]) -> None:
        for port, route in enumerate(self._routes):
            if len(pieces) == 1:
                segments = pieces[0][port]
            else:
                segments = [segment for piece in pieces for segment in piece[port]]
            if segments:
                for number, (receiver, target) in enumerate(route):
                    receiver.append(target, segments if number == 0 else _copied(segments))


def cut(batch: Batch, results: Columns) -> Iterator[tuple[Slice, Columns]]:
    """Gives the slices of a batch, each with its rows of the results."""
    start = 0
    for part in batch.slices:
        end = start + len(part.positions)
        yield part, [column[start:end] for column in results]
        start = end


def _copied(segments: Sequence[Segment]) -> list[Segment]:
    """Gives segments with lists of their own: a unit may change the list that it is given."""
    return [
        Segment(s.stream, s.positions, [list(c) for c in s.columns], s.is_last, s.has_errors)
        for s in segments
    ]
