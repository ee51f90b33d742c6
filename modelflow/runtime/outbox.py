"""Behind a stage: order restored stream by stream, and buffers sent to every inbox they feed."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from modelflow.runtime.segment import Batch, Columns, Segment, Stream

__all__ = ["Outbox", "Receiver", "Route"]


class Receiver(Protocol):
    """What an outbox can feed: an inbox, or the results of the sessions."""

    def append(self, port: int, segments: Sequence[Segment]) -> None:
        """Takes segments in, without waiting."""

    def wait_for_room(self, port: int, timeout: float | None = None) -> bool:
        """Waits while it is full; False after ``timeout`` seconds."""


# For one output port: the receivers that it feeds, with their port numbers.
Route = tuple[tuple[Receiver, int], ...]


class Outbox:
    """Sends what the workers of one stage give on its way.

    With one worker, whatever comes is in order. With several, a slice waits here until those with
    the lower tickets of its stream have passed; ``limit`` rows may wait so, then the workers take
    nothing new (the worker that holds the lowest ticket is running, so it goes on).
    """

    def __init__(self, routes: Sequence[Route], *, is_ordered: bool, limit: int) -> None:
        self._routes = tuple(routes)
        self._is_ordered = is_ordered
        self._limit = limit
        self._lock = threading.Lock()
        self._is_short = threading.Condition(self._lock)
        self._next: dict[Stream, int] = {}
        self._held: dict[Stream, dict[int, list[Segment]]] = {}
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
            due: list[list[Segment]] = []
            for part, piece in zip(batch.slices, pieces, strict=True):
                if part.stream.session.is_cancelled:
                    self._forget(part.stream)
                elif part.ticket is None:
                    due.append(piece)
                else:
                    self._release(part.stream, part.ticket, piece, due)
            # Under the lock: two workers that release one after the other must append in turn.
            self._send(due)
            if self._held_rows <= self._limit:
                self._is_short.notify_all()

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

    def discard(self, is_unwanted: Callable[[Stream], bool]) -> None:
        """Drops what is held of the streams for which ``is_unwanted`` is true."""
        with self._lock:
            for stream in [stream for stream in self._next if is_unwanted(stream)]:
                self._forget(stream)
            self._is_short.notify_all()

    def close(self) -> None:
        """Wakes the workers that wait here; what is held is dropped."""
        with self._lock:
            self._is_closed = True
            self._held.clear()
            self._next.clear()
            self._held_rows = 0
            self._is_short.notify_all()

    def _release(
        self, stream: Stream, ticket: int, piece: list[Segment], due: list[list[Segment]]
    ) -> None:
        expected = self._next.setdefault(stream, 0)
        if ticket != expected:
            self._held.setdefault(stream, {})[ticket] = piece
            self._held_rows += len(piece[0].positions)
            return
        held = self._held.get(stream, {})
        while True:
            due.append(piece)
            expected += 1
            if piece[0].is_last:
                del self._next[stream]
                self._held.pop(stream, None)
                return
            if expected not in held:
                self._next[stream] = expected
                return
            piece = held.pop(expected)
            self._held_rows -= len(piece[0].positions)

    def _forget(self, stream: Stream) -> None:
        self._next.pop(stream, None)
        for piece in self._held.pop(stream, {}).values():
            self._held_rows -= len(piece[0].positions)

    def _pieces(self, batch: Batch, results: Columns, has_errors: bool) -> list[list[Segment]]:
        """Cuts the results by stream: for each slice, a segment an output port."""
        if len(batch.slices) == 1:
            part = batch.slices[0]
            return [
                [
                    Segment(part.stream, part.positions, [column], part.is_last, has_errors)
                    for column in results
                ]
            ]
        pieces, start = [], 0
        for part in batch.slices:
            end = start + len(part.positions)
            pieces.append(
                [
                    Segment(
                        part.stream, part.positions, [column[start:end]], part.is_last, has_errors
                    )
                    for column in results
                ]
            )
            start = end
        return pieces

    def _send(self, pieces: list[list[Segment]]) -> None:
        if not pieces:
            return
        for port, route in enumerate(self._routes):
            segments = [piece[port] for piece in pieces]
            for number, (receiver, target) in enumerate(route):
                receiver.append(target, segments if number == 0 else _copied(segments))


def _copied(segments: list[Segment]) -> list[Segment]:
    """Gives segments with lists of their own: a unit may change the list that it is given."""
    return [
        Segment(s.stream, s.positions, [list(s.columns[0])], s.is_last, s.has_errors)
        for s in segments
    ]
