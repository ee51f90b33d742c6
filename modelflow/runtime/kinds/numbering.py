"""How what a stream unit gives is numbered."""

from collections import deque
from collections.abc import Iterable, Sequence

from modelflow.buffer import Buffer
from modelflow.runtime.segment import Stream

__all__ = ["Numbering"]


class Numbering:
    """Gives the buffers of one output their numbers, and knows what is still owed.

    A unit that keeps the count gives its k-th buffer the number and the meta of the k-th that came
    in, however late; one that does not counts anew, in a stream of its own.

    Attributes:
        stream: The stream that the buffers belong to.
        owed: How many buffers are owed, without those that came in in error.
    """

    __slots__ = ("_kept", "_next", "is_same_count", "owed", "stream")

    def __init__(self, source: Stream, is_same_count: bool) -> None:
        self.is_same_count = is_same_count
        self.stream = source if is_same_count else source.renumbered()
        self._kept: deque[tuple[int, Buffer]] = deque()
        self.owed = 0
        self._next = 0

    def owe(self, position: int, cells: Sequence[Buffer]) -> None:
        """Notes what came in, a buffer a port; one in error is passed on when it has its turn."""
        bad = next((cell for cell in cells if cell.error is not None), None)
        kept = Buffer() if bad is None else bad  # not the data: it may be owed for long
        if bad is None:
            self.owed += 1
            for cell in cells:
                kept.inherit_meta(cell)
        self._kept.append((position, kept))

    def numbered(self, buffers: Iterable[Buffer]) -> tuple[Sequence[int], list[Buffer]]:
        """Returns the buffers with their numbers, and what came in in error at its place."""
        given = list(buffers)
        if not self.is_same_count:
            first, self._next = self._next, self._next + len(given)
            return range(first, self._next), given
        positions: list[int] = []
        column: list[Buffer] = []
        following = iter(given)
        while self._kept:
            position, kept = self._kept[0]
            buffer: Buffer | None = kept
            if kept.error is None:
                buffer = next(following, None)
                if buffer is None:
                    break
                self.owed -= 1
                buffer.inherit_meta(kept)
            assert buffer is not None  # one of the two
            self._kept.popleft()
            positions.append(position)
            column.append(buffer)
        return positions, column
