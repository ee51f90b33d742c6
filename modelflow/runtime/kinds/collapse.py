"""Collapse units: a whole stream that an expand began becomes one buffer again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer
from modelflow.runtime.clock import Clock
from modelflow.runtime.inbox import Inbox, InboxPolicy
from modelflow.runtime.kinds.row_call import RowCall
from modelflow.runtime.segment import Columns, Segment

if TYPE_CHECKING:
    from modelflow.runtime.session import Session

__all__ = ["CollapseCall", "CollapseInbox"]


class CollapseCall(RowCall):
    """Calls a collapse; a cell that goes in is the list of the stream's buffers.

    A stream with an error in it becomes its first one.
    """

    def _first_error(self, cells: Sequence[Any]) -> Buffer | None:
        found = (buffer for cell in cells for buffer in cell if buffer.error is not None)
        return next(found, None)

    def _inputs_of(self, cell: Any) -> list[Buffer]:
        return list(cell)

    def _settled(self, values: list[list[Any]], sources: Columns) -> list[Any]:  # noqa: ARG002
        for name, given in zip(self._outputs, values, strict=True):
            if len(given) != 1:
                message = (
                    f"gave {len(given)} values on output {name!r}; a collapse gives exactly one "
                    "for the whole of its stream"
                )
                raise ValueError(message)
        return [self._frozen(self._wrapped(value)) for (value,) in values]

    def _failed(self, bad: Buffer) -> list[Any]:
        return [bad for _ in self._outputs]


class CollapseInbox(Inbox):
    """Gathers the buffers of one stream until it ends: then it is one row of its parent's stream.

    What is not complete is not ready, and never makes a producer wait.
    """

    def __init__(
        self, node: str, ports: Sequence[str], policy: InboxPolicy, clock: Clock, depth: int
    ) -> None:
        """Takes, beside what every inbox does, the ``depth`` of the streams that are collapsed."""
        super().__init__(node, ports, policy, clock)
        self._depth = depth
        # A session's streams come one after the other: it has one unfinished at most.
        self._unfinished: dict[Session, list[Segment]] = {}

    def _add(self, segments: Sequence[Segment]) -> None:
        found = []
        for segment in segments:
            session = segment.stream.session
            if session.is_cancelled:
                self._forget(session)
            elif segment.stream.depth < self._depth:
                found.append(segment)
            elif segment.is_last:
                gathered = self._unfinished.pop(session, [])
                found.append(self._row([*gathered, segment]))
            else:
                self._unfinished.setdefault(session, []).append(segment)
        super()._add(found)

    def _row(self, segments: Sequence[Segment]) -> Segment:
        stream = segments[-1].stream
        assert stream.parent is not None  # the graph's check: it is inside an expand
        cells: Columns = []
        for port in range(self._width):
            whole: Any = [buffer for segment in segments for buffer in segment.columns[port]]
            cells.append([whole])
        has_errors = any(segment.has_errors for segment in segments)
        return Segment(stream.parent, (stream.position,), cells, False, has_errors)

    def _forget(self, session: "Session") -> None:
        super()._forget(session)
        self._unfinished.pop(session, None)
