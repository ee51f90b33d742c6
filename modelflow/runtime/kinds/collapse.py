"""Collapse units: a whole stream that an expand began becomes one buffer again.

The three faces of row 2 arrive as two segments and the end: with the end they are one row, at
position 2 of the stream before the expand, whose cell is the list of the three.
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
from modelflow.runtime.stages.inheriting import inherit, inherit_agreed
from modelflow.runtime.stages.kind import RunningKind


class Parts(list[Buffer]):
    """The buffers of a stream; and what was expanded into it."""

    origin: Sequence[Buffer] = ()


class CollapseCall(RowCall):
    """Calls a collapse; a cell that goes in is the list of the stream's buffers.

    What it gives has the meta that all buffers of the stream agree on; of a stream without any,
    those of what was expanded into it. A stream with an error in it becomes its first one.
    """

    def _first_error(self, cells: Sequence[Any]) -> Buffer | None:
        found = (buffer for cell in cells for buffer in cell if buffer.error is not None)
        return next(found, None)

    _origin: Sequence[Buffer] = ()  # of the row that is worked on

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
                    inherit_agreed(buffer, sources)
                else:
                    inherit(buffer, self._origin)
        # Of a sink, which gives nothing: one that says that the stream is done.
        return given or [Buffer()]

    def _fail(self, bad: Buffer) -> list[Any]:
        return [buffer for (buffer,) in self._everywhere([bad])]


class CollapseOrder(Fifo):
    """Gathers the buffers of one stream until it ends: then it is one row of its parent's stream.

    What is not complete is not ready, and never makes a producer wait.
    """

    def __init__(self, policy: InboxPolicy, width: int, depth: int) -> None:
        """Takes, beside what `Fifo` does, the ``depth`` of the streams that are collapsed."""
        super().__init__(policy, width)
        self._depth = depth
        # A session's streams come one after the other: it has one unfinished at most.
        self._unfinished: dict[Session, list[Segment]] = {}

    def add(self, port: int, segments: Sequence[Segment]) -> None:
        """Takes in what arrives; a stream that is complete is one row."""
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
        assert stream.parent is not None  # the graph's check: it is inside an expand
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
