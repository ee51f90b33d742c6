"""The positions of a stream unit's results.

Example: a unit with `Count.SAME` gets the rows 4, 5, 6, where row 5 is in error. It emits one
result, later a second result. They get the positions 4 and 6, and the error gets position 5.

Example: a unit with `Count.ANY` has emitted seven results. The next result gets position 7, in a
stream of its own.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from modelflow.buffer import Buffer
from modelflow.runtime.session.segment import Stream
from modelflow.runtime.stages.inheriting import inherit, strip_data
from modelflow.unit.kind import Count


class Numbering:
    """The positions of one output's results, and the number of results that are still missing.

    - `Count.SAME`: the k-th result gets the position and the meta of the k-th row, however late.
    - `Count.ASSUMED`: the k-th result gets the position of the k-th row, but the number of results
      may differ from the number of rows.
    - `Count.ANY`: the results are numbered from 0, in a stream of their own.
    """

    __slots__ = ("_is_assumed", "_kept", "_next", "is_same_count", "owed", "stream")

    stream: Stream
    """The stream of the results."""
    is_same_count: bool
    """True with `Count.SAME`, where the unit must emit a result for each row."""
    owed: int
    """The number of missing results. Rows that arrived in error are not counted."""

    def __init__(self, source: Stream, count: Count = Count.ANY) -> None:
        self.is_same_count = count is Count.SAME
        self._is_assumed = count is Count.ASSUMED
        self.stream = source.renumber() if count is Count.ANY else source
        self.owed = 0
        # For each row without a result, three values: its position, its error (or an empty buffer
        # with its deadline), and its inputs without data. The result inherits meta from the inputs.
        self._kept: deque[tuple[int, Buffer, list[Buffer]]] = deque()
        self._next = 0

    def owe(self, position: int, cells: Sequence[Buffer], inherits_meta: bool = True) -> None:
        """Stores a row that needs a result; an error is passed on in its place.

        Args:
            position: The row's position.
            cells: The row's buffers, one for each port.
            inherits_meta: True if the result inherits meta from the row.
        """
        if not (self.is_same_count or self._is_assumed):
            return
        bad = next((cell for cell in cells if cell.error is not None), None)
        kept = Buffer() if bad is None else bad  # without the data, because the result may be late
        sources: list[Buffer] = []
        if bad is None:
            self.owed += 1
            kept._deadline = cells[0]._deadline
            if inherits_meta and self.is_same_count:
                sources = [strip_data(cell) for cell in cells]
        self._kept.append((position, kept, sources))

    def number(self, buffers: Iterable[Buffer]) -> tuple[Sequence[int], list[Buffer]]:
        """Returns positions and buffers of the results, with passed-on errors in their places."""
        given = list(buffers)
        if self.is_same_count:
            return self._in_place(iter(given))
        first = self._next
        if not self._kept:
            self._next += len(given)
            return range(first, self._next), given
        positions: list[int] = []
        for buffer in given:
            position = 0
            if self._kept:
                position, kept, _ = self._kept.popleft()
                buffer._deadline = kept._deadline
            positions.append(max(position, self._next))
            self._next = positions[-1] + 1
        return positions, given

    def _in_place(self, given: Iterator[Buffer]) -> tuple[list[int], list[Buffer]]:
        positions: list[int] = []
        column: list[Buffer] = []
        while self._kept:
            position, kept, sources = self._kept[0]
            buffer: Buffer | None = kept
            if kept.error is None:
                buffer = next(given, None)
                if buffer is None:
                    break
                self.owed -= 1
                inherit(buffer, sources)
                buffer._deadline = kept._deadline
            assert buffer is not None  # either the error or a result
            self._kept.popleft()
            positions.append(position)
            column.append(buffer)
        return positions, column
