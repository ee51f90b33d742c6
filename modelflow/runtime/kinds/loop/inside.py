"""What is inside a loop: of each session the rows, in the order in which they must leave."""

from collections import deque

from modelflow.buffer import Buffer
from modelflow.runtime.session.segment import Batch, Columns, Span, Stream
from modelflow.runtime.session.session import Session


class Entry:
    """A row inside the loop, or an end that waits for the rows before it."""

    __slots__ = ("buffer", "is_done", "is_last", "position", "rounds", "stream")

    def __init__(self, stream: Stream, position: int | None, is_last: bool) -> None:
        self.stream = stream
        self.position = position  # None: an end alone
        self.is_last = is_last
        self.is_done = position is None
        self.rounds = 0
        self.buffer = Buffer()


class LoopContents:
    """What a session has inside the loop."""

    __slots__ = ("entries", "going", "has_gone", "is_ending", "stream")

    entries: deque[Entry]
    """What has not left yet, in the order in which it entered."""
    stream: Stream
    """The numbering of what goes round: a new number each time."""
    going: dict[int, Entry]
    """By that number, what is on its way round."""
    has_gone: int
    """How many such numbers were given."""
    is_ending: bool
    """The session's end is on its way round."""

    def __init__(self, session: Session) -> None:
        self.entries = deque()
        self.stream = Stream(session)
        self.going = {}
        self.has_gone = 0
        self.is_ending = False


class LoopBatch(Batch):
    """A batch that knows the entry of every row."""

    __slots__ = ("entries",)

    def __init__(
        self, spans: list[Span], columns: Columns, has_errors: bool, entries: list[Entry]
    ) -> None:
        super().__init__(spans, columns, has_errors)
        self.entries = entries
