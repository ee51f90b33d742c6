"""The data that moves between stages: segments of a stream, and batches cut from segments.

Example: a session sends seven JPEGs, and its input is closed. The JPEGs reach the first inbox as
two segments::

    Segment(stream, range(0, 4), [[b0, b1, b2, b3]], is_last=False)
    Segment(stream, range(4, 7), [[b4, b5, b6]], is_last=True)

With ``batch_size=5``, a worker takes a batch of five rows, which are one span of that stream. The
other two rows stay in the queue as a segment::

    Batch([Span(stream, range(0, 5), is_last=False, ticket=0)], [[b0, b1, b2, b3, b4]])
    Segment(stream, range(5, 7), [[b5, b6]], is_last=True)

Rows of another session in the same batch would be a second span after the first.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer

if TYPE_CHECKING:
    from modelflow.runtime.session.session import Session


# One list of buffers for each port, all of the same length. The buffers at index i are row i.
Columns = list[list[Buffer]]


class Stream:
    """The ordered buffers of one origin; also the key of all state that is kept by stream."""

    __slots__ = ("depth", "meta", "origin", "parent", "position", "session")

    session: "Session"
    """The session that the stream belongs to."""
    parent: "Stream | None"
    """The stream whose buffer at ``position`` was expanded into this stream; None at the top."""
    position: int
    """The position of the expanded buffer in ``parent``."""
    depth: int
    """The number of expands that enclose the stream."""
    meta: dict[str, Any]
    """The small values of the whole stream."""
    origin: Sequence[Buffer]
    """The buffers that were expanded into this stream, without data.

    Empty at the top, and if no unit inherits from them.
    """

    def __init__(
        self,
        session: "Session",
        parent: "Stream | None" = None,
        position: int = 0,
        origin: Sequence[Buffer] = (),
    ) -> None:
        self.session = session
        self.parent = parent
        self.position = position
        self.depth = 0 if parent is None else parent.depth + 1
        self.meta = {} if parent is None else parent.meta.copy()
        self.origin = origin

    def renumber(self) -> "Stream":
        """Returns a replacement of this stream, for buffers with new positions."""
        stream = Stream(self.session, self.parent, self.position, self.origin)
        stream.meta = self.meta.copy()
        return stream


class Segment:
    """Consecutive buffers of a stream, with the end of the stream if the end follows them.

    Only ``arrived`` changes after the creation.
    """

    __slots__ = ("arrived", "columns", "has_errors", "is_last", "positions", "stream")

    stream: Stream
    """The stream of the buffers."""
    positions: Sequence[int]
    """The positions of the buffers in the stream, rising; a ``range`` if none is missing."""
    columns: Columns
    """The buffers: one column on an edge, and a column for each port after a match."""
    is_last: bool
    """True if the stream ends after these buffers."""
    has_errors: bool
    """True if a buffer may be in error."""
    arrived: float
    """The time when the segment entered its current queue, in seconds of the clock."""

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
        """Returns the first ``count`` rows, and the other rows with the end."""
        first = Segment(
            self.stream,
            self.positions[:count],
            [column[:count] for column in self.columns],
            False,
            self.has_errors,
        )
        rest = Segment(
            self.stream,
            self.positions[count:],
            [column[count:] for column in self.columns],
            self.is_last,
            self.has_errors,
        )
        first.arrived = rest.arrived = self.arrived
        return first, rest

    def twin(self) -> "Segment":
        """Returns the same rows for another receiver, with new lists and buffers.

        The data of the buffers is shared.
        """
        columns = [[buffer.twin() for buffer in column] for column in self.columns]
        return Segment(self.stream, self.positions, columns, self.is_last, self.has_errors)


class Span:
    """The rows of a batch that belong to one stream."""

    __slots__ = ("is_last", "positions", "stream", "ticket")

    stream: Stream
    """The stream of the rows."""
    positions: Sequence[int]
    """The positions of the rows in the stream, rising."""
    is_last: bool
    """True if the stream ends after the rows."""
    ticket: int | None
    """The number of the span among the spans of this session at its stage.

    None if no later span can overtake an earlier span.
    """

    def __init__(
        self, stream: Stream, positions: Sequence[int], is_last: bool, ticket: int | None = None
    ) -> None:
        self.stream = stream
        self.positions = positions
        self.is_last = is_last
        self.ticket = ticket

    @property
    def is_session_end(self) -> bool:
        """Returns whether the span is the last of its session at this place of the graph."""
        return self.is_last and self.stream.depth == 0


class Batch:
    """The rows of a call of a unit, from one stream or several."""

    __slots__ = ("arrived", "columns", "has_errors", "spans")

    spans: list[Span]
    """The streams of the rows, in the order of the rows."""
    columns: Columns
    """The rows, with a column for each port."""
    has_errors: bool
    """True if a buffer may be in error."""
    arrived: float
    """The time when the oldest row entered the queue, by the clock; 0 outside a queue."""

    def __init__(self, spans: list[Span], columns: Columns, has_errors: bool) -> None:
        self.arrived = 0.0
        self.spans = spans
        self.columns = columns
        self.has_errors = has_errors

    @classmethod
    def of(cls, segments: Sequence[Segment], width: int) -> "Batch":
        """Returns a batch of segments, in which consecutive segments of a stream are one span.

        Args:
            segments: The segments, in the order of the rows.
            width: The number of columns, for a batch without rows.
        """
        if len(segments) == 1:
            (only,) = segments
            span = Span(only.stream, only.positions, only.is_last)
            batch = cls([span], only.columns, only.has_errors)
            batch.arrived = only.arrived
            return batch
        spans: list[Span] = []
        last, has_errors = None, False
        for segment in segments:
            has_errors = has_errors or segment.has_errors
            positions = segment.positions
            if last is None or last.stream is not segment.stream:
                last = Span(segment.stream, positions, segment.is_last)
                spans.append(last)
                continue
            before = last.positions
            if not before:
                last.positions = positions
            elif type(before) is range is type(positions) and before.stop == positions.start:
                last.positions = range(before.start, positions.stop)
            elif positions:
                last.positions = [*before, *positions]
            last.is_last = segment.is_last
        columns = [
            [buffer for segment in segments for buffer in segment.columns[place]]
            for place in range(width)
        ]
        batch = cls(spans, columns, has_errors)
        batch.arrived = min([segment.arrived for segment in segments], default=0.0)
        return batch

    def segments(self) -> list[Segment]:
        """Returns a segment for each span, for places where the batch cannot move as a whole."""
        if len(self.spans) == 1:
            (span,) = self.spans
            stream, positions, is_last = span.stream, span.positions, span.is_last
            only = Segment(stream, positions, self.columns, is_last, self.has_errors)
            only.arrived = self.arrived
            return [only]
        made, start = [], 0
        for span in self.spans:
            end = start + len(span.positions)
            rows = [column[start:end] for column in self.columns]
            made.append(Segment(span.stream, span.positions, rows, span.is_last, self.has_errors))
            made[-1].arrived = self.arrived
            start = end
        return made

    @property
    def size(self) -> int:
        """The number of rows; 0 if only the end of a stream passes."""
        return len(self.columns[0])

    def stream_of(self, row: int) -> Stream:
        """Returns the stream that ``row`` belongs to."""
        for span in self.spans:
            row -= len(span.positions)
            if row < 0:
                return span.stream
        raise IndexError(row)
