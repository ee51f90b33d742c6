"""The progress of a session: rows in, rows out, unread rows, and the end.

Example: a graph with one output and ``max_in_flight`` gets three rows, and one of them is answered
and read. Then ``sent`` is 3, `unread` is 2, and two rows are in flight. When the last segment has
passed every terminal, `end_passed` returns True once.
"""

from collections.abc import Callable, Mapping, Sequence

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled
from modelflow.plan import Origin
from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import make_lock
from modelflow.runtime.session.in_flight import InFlight
from modelflow.runtime.session.results import Results
from modelflow.runtime.waiting import Waiting


class Progress:
    """The counters of a session, and the threads that wait for them. Safe from any thread."""

    MAX_KEPT_ERRORS = 100

    sent: int
    """The number of rows that have entered the graph."""
    errors: list[Exception]
    """The first errors that reached a node without outputs."""
    error_count: int
    """The number of errors that reached a node without outputs."""
    is_closed: bool
    """True if nothing can be sent any more."""
    ended: set[str]
    """The inputs whose end has entered; guarded by the lock of the submitter."""
    is_finished: bool
    """True if the end has passed every terminal, or the session was cancelled."""
    is_counted: bool
    """True if each row that is sent leaves the graph once at every sink."""
    is_counting: bool
    """True if the rows inside the graph are counted."""
    is_collected: bool
    """True if the caller reads all results at the end, so unread results do not limit sending."""

    def __init__(
        self, ends: Origin, results: Mapping[str, Results], in_flight: InFlight | None
    ) -> None:
        """Starts with no rows sent.

        Args:
            ends: The places where the session's data can leave the graph.
            results: The results of the session, by output.
            in_flight: The counter of rows inside the graph, or None for no count.
        """
        self.sent = 0
        self.errors = []
        self.error_count = 0
        self.is_closed = self.is_finished = self.is_collected = False
        self._results = tuple(results.values())
        self._in_flight = in_flight
        self.is_counting = in_flight is not None
        self.is_counted = ends.is_counted
        self.ended = set()
        self._by_port: dict[str, int] = {}
        self._at_exits = [0] * len(ends.counted_at)
        self._freed = 0
        # True after `end`, which subtracts all rows in flight at once. `is_finished` cannot replace
        # this flag, because a node counts rows out only after it has sent them on.
        self._is_dropped = False
        self._open_terminals = len(ends.terminals)
        self._lock = make_lock("progress")
        self._read = Waiting(self._lock)

    @property
    def unread(self) -> int:
        """The number of rows between the submitter and the slowest reader of the session's results.

        If a row may become none or many, this is the number of results that wait for their reader.
        """
        results = self._results
        if not results or self.is_collected:
            return 0
        if not self.is_counted:
            return max(map(len, results))
        if len(results) == 1:  # called for every row, so it avoids a list
            return self.sent - results[0].taken
        return self.sent - min([one.taken for one in results])

    # -- in -------------------------------------------------------------------------------------

    def has_entered(self, port: str) -> int:
        """Returns the number of rows that have entered at ``port``."""
        return self._by_port.get(port, 0)

    def enter(self, port: str, count: int) -> int | None:
        """Counts rows that enter at ``port``, and returns the position of the first row.

        A graph with several inputs has a row as soon as one of its inputs has that row. Returns
        None if the session has ended and nothing may enter.
        """
        with self._lock:
            if self.is_finished:
                return None
            first = self._by_port.get(port, 0)
            self._by_port[port] = first + count
            new = max(0, first + count - self.sent)
            self.sent += new
            if new and self._in_flight is not None:
                self._in_flight.add(new)
        return first

    def enter_whole(self, counts: Mapping[str, int]) -> bool:
        """Counts all rows and the ends of an unused session, by port.

        Returns:
            False if the session has ended and nothing may enter.
        """
        with self._lock:
            if self.is_finished:
                return False
            self._by_port = dict(counts)
            self.sent = new = max(counts.values(), default=0)
            self.ended.update(counts)
            self.is_closed = True
            if new and self._in_flight is not None:
                self._in_flight.add(new)
        return True

    # -- out ------------------------------------------------------------------------------------

    def leave(self, place: int, count: int) -> None:
        """Counts rows that have passed a sink of the session. Call `call_due` afterwards."""
        if self._in_flight is None or not count:
            return
        with self._lock:
            self._at_exits[place] += count
            freed = min(self._at_exits) - self._freed
            if freed and not self._is_dropped:
                self._freed += freed
                self._in_flight.remove(freed)

    def end_passed(self) -> bool:
        """Counts the end at a terminal, and returns True at the last terminal."""
        with self._lock:
            self._open_terminals -= 1
            if self._open_terminals or self.is_finished:
                return False
            self.is_finished = True
            return True

    def end(self, note: Callable[[], None]) -> bool:
        """Ends the session immediately, and returns False if the session has already ended.

        Args:
            note: Stores the reason. Called under the lock, so a thread that sees the end also sees
                the reason, and a session that has ended gets no other reason.
        """
        with self._lock:
            if self.is_finished:
                return False
            note()
            self.is_closed = self.is_finished = self._is_dropped = True
            if self._in_flight is not None and self.sent > self._freed:
                self._in_flight.remove(self.sent - self._freed)
            return True

    def record_errors(self, buffers: Sequence[Buffer]) -> None:
        """Stores the errors that reach a node without outputs.

        A chain gives up the rows of a cancelled session. They have not failed, and are left out.
        """
        errors = [buffer.error for buffer in buffers if buffer.error is not None]
        with self._lock:
            for error in errors:
                if not isinstance(error.__cause__, Cancelled):
                    self.error_count += 1
                    if len(self.errors) < self.MAX_KEPT_ERRORS:
                        self.errors.append(error)

    def adopt_errors(self, other: "Progress") -> None:
        """Adds the errors that another session has stored."""
        with self._lock:
            self.error_count += other.error_count
            room = self.MAX_KEPT_ERRORS - len(self.errors)
            self.errors += other.errors[: max(0, room)]

    # -- waits until results are read -----------------------------------------------------------

    def close(self) -> None:
        """Notes that nothing can be sent any more."""
        with self._lock:
            self.is_closed = True

    def took(self) -> None:
        """Wakes the threads that wait for unread results; called after results were taken."""
        if self._read.count:
            self.wake()

    def wake(self) -> None:
        """Wakes all waiting threads and callbacks to check again."""
        with self._lock:
            self._read.wake()
        self.call_due()

    def wait_until_read(
        self, clock: Clock, bound: int, timeout: float | None, is_over: Callable[[], bool]
    ) -> None:
        """Waits while ``bound`` rows are unread, at most ``timeout`` s, or until the next `wake`.

        Does not wait if ``is_over`` returns True. The code that changes the result of ``is_over``
        calls `wake` afterwards.
        """
        with self._lock:
            # The count must increase before the check of `unread`. A reader first takes results,
            # then looks at the count, so one of the two threads sees the other.
            self._read.count += 1
            try:
                if self.unread >= bound and not is_over():
                    self._read.wait(clock, timeout)
            finally:
                self._read.count -= 1

    def on_read(
        self, bound: int, callback: Callable[[], None], is_over: Callable[[], bool]
    ) -> None:
        """Calls ``callback`` once when fewer than ``bound`` rows are unread, perhaps immediately.

        Also calls ``callback`` if ``is_over`` returns True. The code that changes the result of
        ``is_over`` calls `wake` afterwards.
        """
        with self._lock:
            # The callback must be added before the check of `unread`. A reader first takes results,
            # then looks for callbacks, so one of the two threads sees the other.
            self._read.add(callback)
            if self.unread < bound or is_over():
                self._read.wake()
        self._read.call_due()

    def forget(self, callback: Callable[[], None]) -> None:
        """Removes a callback of `on_read` whose caller no longer waits."""
        self._read.remove(callback)

    def call_due(self) -> None:
        """Calls the callbacks whose wait has ended. The caller must hold no lock."""
        if self._read.due:
            self._read.call_due()
        if self._in_flight is not None:
            self._in_flight.call_due()
