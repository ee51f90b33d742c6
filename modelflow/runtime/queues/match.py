"""Pairing the inputs of a node: the heads of its ports' queues, stream by stream.

An image is at position 4 of its stream on port "image", and waits; the boxes found in it come to
port "boxes" with position 4 too: now row 4 is complete, and the inbox may hand it out. Where
"boxes" ends after three buffers, image 4 is paired with an error that says so.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.runtime.session.segment import Segment, Stream

if TYPE_CHECKING:
    from modelflow.runtime.session.session import Session


class _Pending:
    """What one stream has on each port that waits for a partner."""

    __slots__ = ("buffers", "counts", "has_errors", "is_ended", "positions")

    def __init__(self, ports: int) -> None:
        self.buffers: list[list[Buffer]] = [[] for _ in range(ports)]
        self.positions: list[list[int]] = [[] for _ in range(ports)]
        self.counts = [0] * ports
        self.is_ended = [False] * ports
        self.has_errors = False


class Matcher:
    """Pairs the ports of one node. Not locked: its inbox's lock is held around every call.

    All inputs of a node carry the same streams in order (the graph's check proves it), so the heads
    belong together; that their positions agree is checked all the same.
    """

    def __init__(self, node: str, ports: Sequence[str]) -> None:
        self._node = node
        self._ports = tuple(ports)
        self._pending: dict[Stream, _Pending] = {}
        self._waiting = [0] * len(self._ports)

    def waiting(self, port: int) -> int:
        """Returns how many buffers of ``port`` wait, over all streams."""
        return self._waiting[port]

    def count_held(self) -> int:
        """Returns how many streams have something that waits."""
        return len(self._pending)

    def add(self, port: int, segment: Segment) -> list[Segment]:
        """Takes in a segment of one port; returns the rows that are now complete."""
        stream = segment.stream
        pending = self._pending.get(stream)
        if pending is None:
            pending = self._pending[stream] = _Pending(len(self._ports))
        pending.buffers[port].extend(segment.columns[0])
        pending.positions[port].extend(segment.positions)
        pending.counts[port] += len(segment.positions)
        pending.is_ended[port] = pending.is_ended[port] or segment.is_last
        pending.has_errors = pending.has_errors or segment.has_errors
        self._waiting[port] += len(segment.positions)
        found = []
        while (row := self._pair(stream, pending)) is not None:
            found.append(row)
        if all(pending.is_ended) and not any(pending.buffers):
            del self._pending[stream]
            found.append(Segment(stream, (), [[] for _ in self._ports], True, False))
        return found

    def discard(self, session: "Session") -> None:
        """Drops everything of a session."""
        kept = {s: pending for s, pending in self._pending.items() if s.session is not session}
        self._pending = kept
        # Counted anew: a Ctrl-C may have come between a row and its count.
        self._waiting = [
            sum(len(pending.buffers[port]) for pending in kept.values())
            for port in range(len(self._ports))
        ]

    def clear(self) -> None:
        """Drops everything."""
        self._pending.clear()
        self._waiting = [0] * len(self._ports)

    def _pair(self, stream: Stream, pending: _Pending) -> Segment | None:
        here = [
            port
            for port, buffers in enumerate(pending.buffers)
            if buffers or not pending.is_ended[port]
        ]
        count = min((len(pending.buffers[port]) for port in here), default=0)
        if count == 0:
            return None
        positions = pending.positions[here[0]][:count]
        for port in here[1:]:
            if pending.positions[port][:count] != positions:
                raise AssertionError(
                    f"internal error: the inputs of node {self._node!r} are out of step: "
                    f"{self._ports[here[0]]!r} is at {positions[0]}, "
                    f"{self._ports[port]!r} at {pending.positions[port][0]}"
                )
        columns = []
        for port in range(len(self._ports)):
            if port in here:
                columns.append(pending.buffers[port][:count])
                del pending.buffers[port][:count], pending.positions[port][:count]
                self._waiting[port] -= count
            else:
                columns.append([self._missing(stream, pending, port)] * count)
                pending.has_errors = True
        return Segment(stream, positions, columns, False, pending.has_errors)

    def _missing(self, stream: Stream, pending: _Pending, port: int) -> Buffer:
        message = (
            f"input {self._ports[port]!r} ended after {pending.counts[port]} buffers, "
            "and another input has more; send the same number to every input"
        )
        return Buffer.from_error(
            FlowUnitError(message, node=self._node, session=stream.session.name)
        )
