"""The rows inside a loop, for each session in the order in which they must leave."""

from collections import deque

from modelflow.buffer import Buffer
from modelflow.runtime.session.segment import Batch, Columns, Span, Stream
from modelflow.runtime.session.session import Session


class Entry:
    """A row inside the loop, or the end of a stream that waits for earlier rows."""

    __slots__ = ("buffer", "is_done", "is_last", "position", "rounds", "stream")

    def __init__(self, stream: Stream, position: int | None, is_last: bool) -> None:
        self.stream = stream
        self.position = position  # None for the end of a stream
        self.is_last = is_last
        self.is_done = position is None
        self.rounds = 0
        self.buffer = Buffer()


class LoopContents:
    """The rows of a session that are inside the loop."""

    __slots__ = ("entries", "going", "has_gone", "is_ending", "stream")

    entries: deque[Entry]
    """The rows and ends that have not left yet, in the order of entry."""
    stream: Stream
    """The inner stream. A row gets a new position there for each round."""
    going: dict[int, Entry]
    """The rows that are going round, by position in the inner stream."""
    has_gone: int
    """The number of positions used in the inner stream."""
    is_ending: bool
    """True once the session's end goes round."""

    def __init__(self, session: Session) -> None:
        self.entries = deque()
        self.stream = Stream(session)
        self.going = {}
        self.has_gone = 0
        self.is_ending = False


class LoopBatch(Batch):
    """A batch with the entry of every row."""

    __slots__ = ("entries",)

    def __init__(
        self, spans: list[Span], columns: Columns, has_errors: bool, entries: list[Entry]
    ) -> None:
        super().__init__(spans, columns, has_errors)
        self.entries = entries
