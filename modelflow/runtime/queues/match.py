"""Pairs the inputs of a node: for each stream, the first waiting buffers of all ports.

Example: node "draw" has the ports "image" and "boxes". A `Matcher` gets these segments of one
stream (``i0`` is the image at position 0)::

    call                          rows returned                    waiting(image), waiting(boxes)
    add(image, i0 i1 i2)          none                             3, 0
    add(boxes, b0)                (i0, b0)                         2, 0
    add(boxes, b1, is_last)       (i1, b1), (i2, error)            0, 0
    add(image, i3, is_last)       (i3, error), end of the stream   0, 0

Images 2 and 3 are paired with an error: "input 'boxes' ended after 2 buffers, and another input has
more".
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.runtime.session.segment import Segment, Stream

if TYPE_CHECKING:
    from modelflow.runtime.session.session import Session


class _Pending:
    """The buffers of one stream that wait for a partner, by port."""

    __slots__ = ("buffers", "counts", "has_errors", "is_ended", "positions")

    def __init__(self, ports: int) -> None:
        self.buffers: list[list[Buffer]] = [[] for _ in range(ports)]
        self.positions: list[list[int]] = [[] for _ in range(ports)]
        self.counts = [0] * ports
        self.is_ended = [False] * ports
        self.has_errors = False


class Matcher:
    """The buffers of a node's ports that wait to be paired.

    The inbox holds its lock around every call. All inputs of a node carry the same streams in the
    same order, which the check of the graph proves. So the first buffers of all ports belong
    together. The matcher checks nevertheless that their positions are equal.
    """

    def __init__(self, node: str, ports: Sequence[str]) -> None:
        self._node = node
        self._ports = tuple(ports)
        self._pending: dict[Stream, _Pending] = {}
        self._waiting = [0] * len(self._ports)

    def waiting(self, port: int) -> int:
        """Returns how many buffers of ``port`` wait, summed over all streams."""
        return self._waiting[port]

    def count_held(self) -> int:
        """Returns how many streams have waiting buffers or an end that waits."""
        return len(self._pending)

    def add(self, port: int, segment: Segment) -> list[Segment]:
        """Adds a segment of one port; returns the rows that are complete now."""
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
        """Drops all buffers of a session."""
        kept = {s: pending for s, pending in self._pending.items() if s.session is not session}
        self._pending = kept
        # Counted again: a Ctrl-C may have come between adding a row and counting it.
        self._waiting = [
            sum(len(pending.buffers[port]) for pending in kept.values())
            for port in range(len(self._ports))
        ]

    def clear(self) -> None:
        """Drops all buffers."""
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
