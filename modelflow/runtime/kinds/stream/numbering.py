"""How what a stream unit gives is numbered.

A unit that keeps the count was given the rows 4, 5, 6, of which 5 came in in error. It gives one
buffer, later a second one: they are numbered 4 and 6, and the error stands at 5 between them. A
unit of any count that has given seven buffers so far gives the next one number 7, in a stream of
its own.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from modelflow.buffer import Buffer
from modelflow.runtime.session.segment import Stream
from modelflow.runtime.stages.inheriting import inherit, strip_data
from modelflow.unit.kind import Count


class Numbering:
    """Gives the buffers of one output their numbers, and knows what is still owed.

    A unit that keeps the count gives its k-th buffer the number and the meta of the k-th that came
    in, however late; one whose count is assumed gives as many as it likes so; any other counts
    anew, in a stream of its own.
    """

    __slots__ = ("_is_assumed", "_kept", "_next", "is_same_count", "owed", "stream")

    stream: Stream
    """The stream that the buffers belong to."""
    is_same_count: bool
    """The unit keeps the count: what is owed must come."""
    owed: int
    """How many buffers are owed, without those that came in in error."""

    def __init__(self, source: Stream, count: Count = Count.ANY) -> None:
        self.is_same_count = count is Count.SAME
        self._is_assumed = count is Count.ASSUMED
        self.stream = source.renumber() if count is Count.ANY else source
        self.owed = 0
        # Number, error or what carries the deadline, and what it was made of, without its data.
        self._kept: deque[tuple[int, Buffer, list[Buffer]]] = deque()
        self._next = 0

    def owe(self, position: int, cells: Sequence[Buffer], inherits_meta: bool = True) -> None:
        """Notes what came in, a buffer a port; one in error is passed on when it has its turn."""
        if not (self.is_same_count or self._is_assumed):
            return
        bad = next((cell for cell in cells if cell.error is not None), None)
        kept = Buffer() if bad is None else bad  # not the data: it may be owed for long
        sources: list[Buffer] = []
        if bad is None:
            self.owed += 1
            kept._deadline = cells[0]._deadline
            if inherits_meta and self.is_same_count:
                sources = [strip_data(cell) for cell in cells]
        self._kept.append((position, kept, sources))

    def number(self, buffers: Iterable[Buffer]) -> tuple[Sequence[int], list[Buffer]]:
        """Returns the buffers with their numbers, and what came in in error at its place."""
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
            assert buffer is not None  # one of the two
            self._kept.popleft()
            positions.append(position)
            column.append(buffer)
        return positions, column
