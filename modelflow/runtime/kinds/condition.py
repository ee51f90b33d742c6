"""Condition units, which send each buffer to a single output out of several.

Example: rows 0 and 3 of the rows 0-3 are faces. Output "face" sends a segment with the positions
``[0, 3]``, and output "other" a segment with ``[1, 2]``. If both branches end in one input, the
outbox sends the order ``[0, 1, 2, 3]`` to the `Merge` of that input.
"""

from collections.abc import Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.plan import StagePlan
from modelflow.runtime.kinds.row_call import RowCall
from modelflow.runtime.session.segment import Batch, Columns, Segment, Span
from modelflow.runtime.stages.call import StreamOf, claim
from modelflow.runtime.stages.kind import Connection, RunningKind
from modelflow.runtime.stages.outbox import InboxView, Outbox, Route, Routed, cut


class ConditionCall(RowCall):
    """The call of a condition: a cell is the buffer, or None if the row leaves by another output.

    A row in error leaves by the first output that is connected.
    """

    def process(self, columns: Columns, has_errors: bool, stream_of: StreamOf) -> Columns:
        """Runs the unit row by row, or over the whole batch if ``batch_size`` allows."""
        is_batched = (self.spec.batch_size or 1) > 1 and len(columns[0]) > 1
        if not is_batched or (has_errors and not self._is_exception_visible) or self._in_place:
            return super().process(columns, has_errors, stream_of)
        self.begin()
        context, size = self._context(columns, None), len(columns[0])
        try:
            if self._input_types is not None:
                self._input_types.check(columns)
            self._run(context)
            given = [context.outputs[name] for name in self._outputs]
            if self._output_types is not None:
                self._output_types.check(given)
            return self._settle_batch(given, columns)
        except BaseException as error:
            if not self.spec.kind.is_batch_retried:
                failures = self._failures(error, size, columns, stream_of)
                return [list(column) for column in zip(*map(self._fail, failures), strict=True)]
            claim(error)
        # Outside the handler. Otherwise the errors of the rows would keep the error of the batch in
        # memory, as their context.
        return super().process(columns, has_errors, stream_of)

    def _settle_batch(self, values: list[list[Any]], columns: Columns) -> Columns:
        size = len(columns[0])
        for name, given in zip(self._outputs, values, strict=True):
            if len(given) != size:
                raise ValueError(
                    f"gave {len(given)} values on output {name!r} for {size} inputs; a condition "
                    "gives one for each, or None where another output has the buffer"
                )
        rows = zip(zip(*values, strict=True), zip(*columns, strict=True), strict=True)
        settled = [
            self._settle([[value] for value in given], [[source] for source in sources])
            for given, sources in rows
        ]
        return [list(column) for column in zip(*settled, strict=True)]

    def _settle(self, values: list[list[Any]], sources: Columns) -> list[Any]:
        given = [[value for value in column if value is not None] for column in values]
        counts = dict(zip(self._outputs, map(len, given), strict=True))
        if sum(counts.values()) != 1:
            raise ValueError(f"gave {_describe(counts)}; each buffer leaves by exactly one output")
        return [self._inheriting(c[0], sources) if c else None for c in given]

    def _fail(self, bad: Buffer) -> list[Any]:
        used = next((port for port, count in enumerate(self.plan.consumers) if count), 0)
        return [bad if port == used else None for port in range(len(self._outputs))]


class ConditionOutbox(Outbox):
    """The outbox of a condition: splits rows by output, and sends their order to each `Merge`."""

    is_row_for_row = False

    def __init__(
        self,
        routes: Sequence[Route],
        marks: Sequence[tuple[frozenset[int], Route]],
        gate: InboxView | None,
        limit: int,
    ) -> None:
        """Creates an empty outbox.

        Args:
            routes: The receivers of each output.
            marks: Each set of outputs that meet again, and the route to their `Merge`.
            gate: See `Outbox`.
            limit: See `Outbox`.
        """
        super().__init__([*routes, *(route for _, route in marks)], gate, limit)
        self._marks = tuple(ports for ports, _ in marks)

    def _pieces(self, batch: Batch, results: Columns, has_errors: bool) -> list[Routed]:
        pieces: list[Routed] = []
        for span, columns in cut(batch, results):
            piece = [_segments(span, _keep(span, column), has_errors) for column in columns]
            for ports in self._marks:
                rows = zip(span.positions, *(columns[port] for port in ports), strict=True)
                marked = [position for position, *cells in rows if _any(cells)]
                piece.append(_segments(span, (marked, []), has_errors))
            pieces.append(piece)
        return pieces


def _keep(span: Span, column: Sequence[Any]) -> tuple[list[int], list[Buffer]]:
    rows = zip(span.positions, column, strict=True)
    kept = [(position, cell) for position, cell in rows if cell is not None]
    return [position for position, _ in kept], [cell for _, cell in kept]


def _segments(span: Span, rows: tuple[list[int], list[Buffer]], has_errors: bool) -> list[Segment]:
    positions, column = rows
    if not positions and not span.is_last:
        return []
    return [Segment(span.stream, positions, [column], span.is_last, has_errors)]


def _any(cells: Sequence[Any]) -> bool:
    return any(cell is not None for cell in cells)


def _describe(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} values on {name!r}" for name, count in counts.items())


def _outbox(plan: StagePlan, to: Connection) -> Outbox:  # noqa: ARG001 - as others need it
    return ConditionOutbox(to.routes, to.marks, to.gate, to.limit)


KIND = RunningKind(call=ConditionCall, outbox=_outbox)
