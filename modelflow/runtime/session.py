"""One session: its stream, its results, how far it has come, and how it ends."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled
from modelflow.plan import Origin
from modelflow.runtime.clock import Clock
from modelflow.runtime.results import Results, SharedResults
from modelflow.runtime.segment import Segment, Stream

__all__ = ["Session"]

logger = logging.getLogger("modelflow")


class Session:
    """Everything that belongs to one `StreamIO`, or to one source.

    Attributes:
        name: Unique in the flow.
        origin: The source node that feeds it; ``""`` for the graph's own inputs.
        context: The dict that all units of the session share.
        state: The dict of the source that feeds it.
        stream: Its stream at the top of the graph.
        results: Output name -> `Results`, for the outputs that its data can reach.
        single_outputs: Those that give exactly one result for each row that is sent.
        sent: Rows that have entered the graph.
        failure: Why it was cancelled, if the flow did it; None if its user did.
        errors: The errors that reached a node without outputs, the first ones (``error_count`` has
            all).
        is_counting: Somebody wants to know how many rows are inside the graph.
        deadlines: Position -> the clock's time after which nobody waits for it.
    """

    MAX_KEPT_ERRORS = 100

    def __init__(
        self,
        name: str,
        origin: str,
        ends: Origin,
        *,
        on_left: Callable[[int], None] | None,
        on_finished: Callable[["Session"], None],
        opener: "Session | None" = None,
    ) -> None:
        """Makes a session that nothing has entered yet.

        Args:
            name: Unique in the flow.
            origin: The source node; ``""`` for a session of the graph's own inputs.
            ends: Where its data can leave the graph.
            on_left: Called with the number of rows that have left every one of its exits.
            on_finished: Called once, when the end has passed every terminal or it is cancelled.
            opener: The session of the source that has begun this one with one buffer; it is given
                the results and the errors.
        """
        self.name = name
        self.origin = origin
        self.context: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        self.stream = Stream(self)
        self._opener = opener
        self.results: dict[str, Results] = {
            output: Results() if opener is None else SharedResults(opener.results[output])
            for output in ends.outputs
        }
        self._results = tuple(self.results.values())
        self.sent = 0
        self.is_closed = False
        self.is_cancelled = False
        self.is_finished = False
        self.failure: Exception | None = None
        self.errors: list[Exception] = []
        self.error_count = 0
        self.deadlines: dict[int, float] = {}
        self.lock = threading.Lock()
        self.counts: dict[str, int] = {}
        self.entry_lock = threading.Lock()
        self.waiting_senders = 0
        self._is_released = False
        self._room: threading.Condition | None = None
        self._room_callbacks: list[Callable[[], None]] = []
        self.single_outputs = ends.single_outputs
        self._is_counted = ends.is_counted
        self._at_exits = [0] * len(ends.exits)
        self._left = 0
        self._open_terminals = len(ends.terminals)
        self._is_single = len(ends.terminals) == 1
        self._on_left = on_left
        self.is_counting = on_left is not None
        self._on_finished = on_finished
        self._end_callbacks: list[Callable[[], None]] = []

    def on_end(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once when the session has finished or was cancelled; else at once.

        On the thread that ends it, and outside of every lock. What it raises is logged.
        """
        with self.lock:
            if not self.is_finished:
                self._end_callbacks.append(callback)
                return
        _call_safely(callback)

    def _end(self) -> None:
        """Tells everyone that the session is over; called once, without locks."""
        with self.lock:
            callbacks, self._end_callbacks = self._end_callbacks, []
        for callback in callbacks:
            _call_safely(callback)
        self._on_finished(self)  # last: who waits for the end finds everyone told

    @property
    def unread(self) -> int:
        """Rows between the entrance and the slowest reader of the session's results.

        Where a row that is sent may become none or many, those that wait for their reader.
        """
        if not self._results:
            return 0
        if not self._is_counted:
            return max(map(len, self._results))
        return self.sent - min([results.taken for results in self._results])

    def took(self) -> None:
        """Wakes those who wait because too much is unread; called after results were taken."""
        if self.waiting_senders or self._room_callbacks:
            self.wake_senders()

    def release_senders(self) -> None:
        """Wakes everyone who waits to send, for good: the session is about to be closed."""
        with self.lock:  # a sender that has not begun to wait yet must see it
            self._is_released = True
        self.wake_senders()

    def wake_senders(self) -> None:
        """Wakes everyone who waits to send."""
        with self.lock:
            if self._room is not None:
                self._room.notify_all()
            callbacks, self._room_callbacks = self._room_callbacks, []
        for callback in callbacks:
            callback()

    def wait_until_read(self, clock: Clock, bound: int, timeout: float | None) -> None:
        """Waits while ``bound`` rows are unread, at most ``timeout`` seconds."""
        with self.lock:
            self.waiting_senders += 1
            if self.unread >= bound and not (self.is_closed or self._is_released):
                if self._room is None:  # few sessions ever wait: it is made when one does
                    self._room = threading.Condition(self.lock)
                clock.wait(self._room, timeout)
            self.waiting_senders -= 1

    def on_read(self, bound: int, callback: Callable[[], None], *, is_sending: bool = True) -> None:
        """Calls ``callback`` once, when fewer than ``bound`` rows are unread (perhaps at once).

        Also when the session ends; for a sender (``is_sending``) when its input is closed.
        """
        if self._opener is not None:  # whose reader it is
            self._opener.on_read(bound, callback, is_sending=False)
            return
        with self.lock:
            # Before the look at what is unread: a reader looks for callbacks after it has taken.
            self._room_callbacks.append(callback)
            is_over = self.is_closed if is_sending else self.is_finished
            if self.unread >= bound and not is_over:
                return
            if callback not in self._room_callbacks:
                return  # it has been called
            self._room_callbacks.remove(callback)
        callback()

    def enter(self, port: str, count: int) -> int | None:
        """Counts rows that enter at ``port``; returns how many of them are new to the session.

        A graph with several inputs has a row as soon as one of them has it. None: the session is
        cancelled, and nothing may enter.
        """
        with self.lock:
            if self.is_cancelled:
                return None
            total = self.counts.get(port, 0) + count
            self.counts[port] = total
            new = max(0, total - self.sent)
            self.sent += new
            return new

    def left(self, place: int, count: int) -> None:
        """Notes rows that have passed one of the session's exits."""
        if self._on_left is None or not count:
            return
        with self.lock:
            self._at_exits[place] += count
            left = min(self._at_exits)
            freed, self._left = left - self._left, left
            is_cancelled = self.is_cancelled
        if freed and not is_cancelled:
            self._on_left(freed)

    def passed(self, segment: Segment) -> None:
        """Notes that a segment has reached one of the places where data leaves the graph."""
        stream = segment.stream
        if self.deadlines and segment.positions and self._is_single:
            sent = stream.sent_as(segment.positions[-1])
            done = sent if sent is None or stream.depth else sent + 1
            while done is not None and self.deadlines and next(iter(self.deadlines)) < done:
                del self.deadlines[next(iter(self.deadlines))]
        if segment.is_last and stream.depth == 0:
            with self.lock:
                self._open_terminals -= 1
                is_over = self._open_terminals == 0 and not self.is_finished
                self.is_finished = self.is_finished or is_over
            if is_over:
                self._end()

    def record_errors(self, buffers: Sequence[Buffer]) -> None:
        """Keeps the errors that end at a node without outputs."""
        with self.lock:
            for buffer in buffers:
                if buffer.error is not None:
                    self.error_count += 1
                    if len(self.errors) < self.MAX_KEPT_ERRORS:
                        self.errors.append(buffer.error)

    def adopt_errors(self, other: "Session") -> None:
        """Takes over the errors that another session has kept."""
        with self.lock:
            self.error_count += other.error_count
            room = self.MAX_KEPT_ERRORS - len(self.errors)
            self.errors += other.errors[: max(0, room)]

    def cancel(self, failure: Exception | None = None) -> bool:
        """Ends the session: its queued data is dropped, its readers and senders wake.

        Args:
            failure: What readers get; `Cancelled` unless given.

        Returns:
            False if it was over already.
        """
        with self.lock:
            if self.is_finished or self.is_cancelled:
                return False
            self.failure = failure
            self.is_cancelled = self.is_finished = self.is_closed = True
            dropped = self.sent - self._left
        message = f"session {self.name!r} was cancelled"
        for results in self.results.values():
            results.clear()
            results.fail(failure or Cancelled(message))
        if self._on_left is not None and dropped:
            self._on_left(dropped)
        self.wake_senders()
        self._end()
        return True


def _call_safely(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:  # it is not the flow's: the session is over all the same
        logger.exception("a callback at the end of a session failed")
