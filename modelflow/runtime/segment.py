"""What moves between stages: a run of one stream's buffers, and batches cut from such runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer

if TYPE_CHECKING:
    from modelflow.runtime.session import Session

__all__ = ["Batch", "Columns", "Segment", "Slice", "Stream"]

# One list of buffers a port, all of the same length: row i is what belongs together.
Columns = list[list[Buffer]]


class Stream:
    """The ordered buffers that stem from one origin; the key of all state kept by stream.

    Attributes:
        session: The session it belongs to.
        parent: The stream whose buffer at ``position`` was expanded into this one; None at the top.
        position: See ``parent``.
        depth: How many expands enclose it.
        meta: The small values that belong to the stream as a whole.
    """

    __slots__ = ("depth", "meta", "parent", "position", "session")

    def __init__(
        self, session: "Session", parent: "Stream | None" = None, position: int = 0
    ) -> None:
        self.session = session
        self.parent = parent
        self.position = position
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.meta: dict[str, Any] = {} if parent is None else parent.meta.copy()

    def renumbered(self) -> "Stream":
        """Returns a stream in the place of this one, for buffers with numbers of their own."""
        stream = Stream(self.session, self.parent, self.position)
        stream.meta = self.meta.copy()
        return stream

    def sent_as(self, position: int) -> int | None:
        """Returns the number under which the user sent what became the buffer at ``position``.

        None: it stems from a unit that numbers anew, or goes round in a loop.
        """
        stream = self
        while stream.parent is not None:
            position, stream = stream.position, stream.parent
        return position if stream is stream.session.stream else None


class Segment:
    """Consecutive buffers of one stream, with the end of the stream if it follows them.

    Never changed once made: several inboxes may hold the same one.

    Attributes:
        stream: Whose buffers these are.
        positions: Their places in the stream, rising; a ``range`` where nothing is missing.
        columns: The buffers: one column on an edge, a column a port behind a match.
        is_last: The stream ends behind these buffers.
        has_errors: Some buffer may be in error.
        arrived: When it came into the queue that it is in, where that is measured.
    """

    __slots__ = ("arrived", "columns", "has_errors", "is_last", "positions", "stream")

    def __init__(
        self,
        stream: Stream,
        positions: Sequence[int],
        columns: Columns,
        is_last: bool,
        has_errors: bool,
    ) -> None:
        self.stream = stream
        self.positions = positions
        self.columns = columns
        self.is_last = is_last
        self.has_errors = has_errors
        self.arrived = 0.0

    def split(self, count: int) -> "tuple[Segment, Segment]":
        """Gives the first ``count`` rows, and the others with the end."""
        return (
            Segment(
                self.stream,
                self.positions[:count],
                [column[:count] for column in self.columns],
                False,
                self.has_errors,
            ),
            Segment(
                self.stream,
                self.positions[count:],
                [column[count:] for column in self.columns],
                self.is_last,
                self.has_errors,
            ),
        )


class Slice:
    """The rows of a batch that belong to one stream.

    Attributes:
        stream, positions, is_last: As in `Segment`.
        ticket: The slice's place among those that its stage hands out of this session; None where
            nothing can overtake it.
    """

    __slots__ = ("is_last", "positions", "stream", "ticket")

    def __init__(
        self, stream: Stream, positions: Sequence[int], is_last: bool, ticket: int | None
    ) -> None:
        self.stream = stream
        self.positions = positions
        self.is_last = is_last
        self.ticket = ticket

    @property
    def is_lane_end(self) -> bool:
        """Tells whether nothing of the session follows here."""
        return self.is_last and self.stream.depth == 0

    def join(self, segment: Segment) -> None:
        """Takes in the rows that follow in the same stream."""
        ours, theirs = self.positions, segment.positions
        if not ours:
            self.positions = theirs
        elif theirs:
            if isinstance(ours, range) and isinstance(theirs, range) and ours.stop == theirs.start:
                self.positions = range(ours.start, theirs.stop)
            else:
                self.positions = [*ours, *theirs]
        self.is_last = segment.is_last


class Batch:
    """The rows of one call, from one stream or many.

    Attributes:
        slices: Whose rows these are, in the order of the rows.
        columns: The rows, a column a port.
        has_errors: Some buffer may be in error.
    """

    __slots__ = ("columns", "has_errors", "slices")

    def __init__(self, slices: list[Slice], columns: Columns, has_errors: bool) -> None:
        self.slices = slices
        self.columns = columns
        self.has_errors = has_errors

    @classmethod
    def of(cls, segments: Sequence[Segment], width: int) -> "Batch":
        """Puts segments together, those of one stream that follow each other as one slice.

        Args:
            segments: In the order of the rows.
            width: How many columns there are, for a batch of nothing.
        """
        if len(segments) == 1:
            (only,) = segments
            part = Slice(only.stream, only.positions, only.is_last, None)
            return cls([part], only.columns, only.has_errors)
        slices: list[Slice] = []
        last = None
        for segment in segments:
            if last is not None and last.stream is segment.stream:
                last.join(segment)
            else:
                last = Slice(segment.stream, segment.positions, segment.is_last, None)
                slices.append(last)
        columns = [
            [buffer for segment in segments for buffer in segment.columns[place]]
            for place in range(width)
        ]
        return cls(slices, columns, any(segment.has_errors for segment in segments))

    @property
    def size(self) -> int:
        """How many rows there are; 0 where only an end of stream passes."""
        return len(self.columns[0])

    def stream_of(self, row: int) -> Stream:
        """Returns the stream that ``row`` belongs to."""
        for part in self.slices:
            row -= len(part.positions)
            if row < 0:
                return part.stream
        raise IndexError(row)
