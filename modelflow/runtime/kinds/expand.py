"""Expand units, which turn one buffer into a stream of any length.

Example: row 2 of a stream becomes three faces. They form a new stream, with the buffers 0, 1, 2 and
an end. Its parent is the first stream, at position 2. Row 3 has no face: its stream is empty.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.plan import StagePlan
from modelflow.runtime.kinds.row_call import RowCall
from modelflow.runtime.session.segment import Batch, Columns, Segment, Stream
from modelflow.runtime.stages.inheriting import inherit, strip_data
from modelflow.runtime.stages.kind import Connection, RunningKind
from modelflow.runtime.stages.outbox import Outbox, Routed, cut


class Expanded(list[Buffer]):
    """The results of a row, with the row itself (without data) if its meta are inherited."""

    origin: Sequence[Buffer] = ()


class ExpandCall(RowCall):
    """The call of an expand, where an output cell is the list of the row's results.

    Each result has the meta of its row. A row in error becomes a stream with that error only.
    """

    def _settle(self, values: list[list[Any]], sources: Columns) -> list[Any]:
        counts = dict(zip(self._outputs, map(len, values), strict=True))
        if len(set(counts.values())) > 1:
            text = ", ".join(f"{count} values on {name!r}" for name, count in counts.items())
            raise ValueError(f"gave {text}; an expand gives as many on every output")
        given = [Expanded(self._wrap_output(column)) for column in values]
        if self._inherits_meta:
            parents = [parent for (parent,) in sources]
            for column in given:
                column.origin = [strip_data(parent) for parent in parents]
                for buffer in column:
                    inherit(buffer, parents)
        return [*given]

    def _fail(self, bad: Buffer) -> list[Any]:
        failed = [Expanded(column) for column in self._everywhere([bad])]
        if self._inherits_meta:  # needed if a unit that takes errors drops this error
            for column in failed:
                column.origin = [strip_data(bad)]
        return failed


class ExpandOutbox(Outbox):
    """The outbox of an expand: sends each row as a complete stream, a child of the row's stream."""

    is_row_for_row = False

    def _pieces(self, batch: Batch, results: Columns, has_errors: bool) -> list[Routed]:
        pieces: list[Routed] = []
        for span, columns in cut(batch, results):
            rows: Iterable[tuple[int, Any]] = zip(span.positions, columns[0], strict=True)
            children = [
                Stream(span.stream.session, span.stream, position, cell.origin)
                for position, cell in rows
            ]
            piece = [_segments(children, column, has_errors) for column in columns]
            if span.is_last:
                for segments in piece:
                    segments.append(Segment(span.stream, (), [[]], True, False))
            pieces.append(piece)
        return pieces


def _segments(children: list[Stream], column: list[Any], has_errors: bool) -> list[Segment]:
    return [
        Segment(child, range(len(cell)), [cell], True, has_errors)
        for child, cell in zip(children, column, strict=True)
    ]


def _outbox(plan: StagePlan, to: Connection) -> Outbox:  # noqa: ARG001 - as others need it
    return ExpandOutbox(to.routes, to.gate, to.limit)


KIND = RunningKind(call=ExpandCall, outbox=_outbox)
