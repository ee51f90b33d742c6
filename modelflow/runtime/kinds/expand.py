"""Expand units: one buffer becomes a stream of its own, of any length."""

from typing import Any

from modelflow.buffer import Buffer
from modelflow.runtime.kinds.row_call import RowCall
from modelflow.runtime.outbox import Outbox, Piece, cut
from modelflow.runtime.segment import Batch, Columns, Segment, Stream

__all__ = ["ExpandCall", "ExpandOutbox"]


class ExpandCall(RowCall):
    """Calls an expand; a cell is the list of buffers that the row has become.

    A row in error becomes a stream with that error alone.
    """

    def _settled(self, values: list[list[Any]], sources: Columns) -> list[Any]:  # noqa: ARG002
        counts = dict(zip(self._outputs, map(len, values), strict=True))
        if len(set(counts.values())) > 1:
            text = ", ".join(f"{count} values on {name!r}" for name, count in counts.items())
            message = f"gave {text}; an expand gives as many on every output"
            raise ValueError(message)
        return [[self._frozen(self._wrapped(value)) for value in column] for column in values]

    def _failed(self, bad: Buffer) -> list[Any]:
        return [[bad] for _ in self._outputs]


class ExpandOutbox(Outbox):
    """Sends each row as a stream, ended, whose parent is the row's own stream."""

    def _pieces(self, batch: Batch, results: Columns, has_errors: bool) -> list[Piece]:
        pieces: list[Piece] = []
        for part, columns in cut(batch, results):
            children = [Stream(part.stream.session, part.stream, p) for p in part.positions]
            piece = [_segments(children, column, has_errors) for column in columns]
            if part.is_last:
                for segments in piece:
                    segments.append(Segment(part.stream, (), [[]], True, False))
            pieces.append(piece)
        return pieces


def _segments(children: list[Stream], column: list[Any], has_errors: bool) -> list[Segment]:
    return [
        Segment(child, range(len(cell)), [cell], True, has_errors)
        for child, cell in zip(children, column, strict=True)
    ]
