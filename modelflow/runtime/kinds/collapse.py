"""Collapse units, which turn a whole stream of an expand into one buffer again.

Example: the three faces of row 2 arrive as two segments and the end of their stream. With the end,
they become one row at position 2 of the stream before the expand. The cell of that row is the list
of the three buffers.
"""

from collections.abc import Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.plan import StagePlan
from modelflow.runtime.clock import Clock
from modelflow.runtime.kinds.row_call import RowCall
from modelflow.runtime.orders.fifo import Fifo
from modelflow.runtime.orders.order import InboxPolicy, Order
from modelflow.runtime.session.segment import Columns, Segment, Stream
from modelflow.runtime.session.session import Session
from modelflow.runtime.stages.inheriting import inherit, inherit_whole
from modelflow.runtime.stages.kind import RunningKind


class Parts(list[Buffer]):
    """The buffers of a stream, with the row that was expanded into the stream."""

    origin: Sequence[Buffer] = ()


class CollapseCall(RowCall):
    """The call of a collapse, where an input cell is the list of the stream's buffers.

    The result has the meta of the row that was expanded. A stream with errors becomes its first
    error.
    """

    def _first_error(self, cells: Sequence[Any]) -> Buffer | None:
        found = (buffer for cell in cells for buffer in cell if buffer.error is not None)
        return next(found, None)

    _origin: Sequence[Buffer] = ()  # of the current row

    def _call_unit(self, cells: Sequence[Any], stream: Stream | None) -> list[Any]:
        self._origin = cells[0].origin
        return super()._call_unit(cells, stream)

    def _inputs_of(self, cell: Any) -> list[Buffer]:
        return list(cell)

    def _settle(self, values: list[list[Any]], sources: Columns) -> list[Any]:
        for name, given in zip(self._outputs, values, strict=True):
            if len(given) != 1:
                raise ValueError(
                    f"gave {len(given)} values on output {name!r}; a collapse gives exactly one "
                    "for the whole of its stream"
                )
        given = [buffer for column in values for buffer in self._wrap_output(column)]
        if self._inherits_meta:
            for buffer in given:
                if any(sources):
                    inherit_whole(buffer, sources, self._origin)
                else:
                    inherit(buffer, self._origin)
        # A sink emits nothing; an empty buffer stands for the finished stream.
        return given or [Buffer()]

    def _fail(self, bad: Buffer) -> list[Any]:
        return [buffer for (buffer,) in self._everywhere([bad])]


class CollapseOrder(Fifo):
    """The order of a collapse: collects each stream until its end, then makes one row.

    The row belongs to the parent stream. An incomplete stream is not ready, and so never makes a
    producer wait.
    """

    def __init__(self, policy: InboxPolicy, width: int, depth: int) -> None:
        """Creates an empty order.

        Args:
            policy: The bounds.
            width: The number of ports of a row.
            depth: The depth of the streams that are collapsed.
        """
        super().__init__(policy, width)
        self._depth = depth
        # A session's streams arrive one after the other, so at most one of them is unfinished.
        self._unfinished: dict[Session, list[Segment]] = {}

    def add(self, port: int, segments: Sequence[Segment]) -> None:
        """Adds segments; a complete stream becomes one row."""
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
        super().add(port, found)

    def _row(self, segments: Sequence[Segment]) -> Segment:
        stream = segments[-1].stream
        assert stream.parent is not None  # the check of the graph: a collapse is inside an expand
        cells: Columns = []
        for port in range(self._width):
            whole: Any = Parts(buffer for segment in segments for buffer in segment.columns[port])
            whole.origin = stream.origin
            cells.append([whole])
        has_errors = any(segment.has_errors for segment in segments)
        row = Segment(stream.parent, (stream.position,), cells, False, has_errors)
        row.arrived = segments[-1].arrived
        return row

    def _forget(self, session: Session) -> None:
        super()._forget(session)
        self._unfinished.pop(session, None)

    def count_held(self) -> int:
        """See `Order.count_held`."""
        return super().count_held() + len(self._unfinished)

    def clear(self) -> None:
        """See `Order.clear`."""
        super().clear()
        self._unfinished.clear()


def _order(policy: InboxPolicy, width: int, plan: StagePlan, clock: Clock) -> Order:  # noqa: ARG001
    return CollapseOrder(policy, width, plan.depth)


KIND = RunningKind(call=CollapseCall, order=_order)
