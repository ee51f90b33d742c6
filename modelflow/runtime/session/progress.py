"""How far a session has come: rows in, rows out, what is unread, whether the end has passed.

A graph with one output and ``max_in_flight``, three rows sent, one of them answered and read:
``sent`` is 3, `unread` is 2, and two rows are in flight. When the last segment has passed every
terminal, `end_passed` says True, once.
"""

from collections.abc import Callable, Mapping, Sequence

from modelflow.buffer import Buffer
from modelflow.plan import Origin
from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import make_lock
from modelflow.runtime.session.in_flight import InFlight
from modelflow.runtime.session.results import Results
from modelflow.runtime.waiting import Waiting


class Progress:
    """The counters of one session, and those who wait for them. Safe from any thread."""

    MAX_KEPT_ERRORS = 100

    sent: int
    """Rows that have entered the graph."""
    errors: list[Exception]
    """The errors that reached a node without outputs, the first ones."""
    error_count: int
    """How many errors did."""
    is_closed: bool
    """Nothing can be sent any more."""
    ended: set[str]
    """The inputs whose end has gone in; guarded by the submitter, which puts it in."""
    is_finished: bool
    """The end has passed every terminal, or the session was cancelled."""
    is_counted: bool
    """Each row that is sent leaves by every exit, once."""
    is_counting: bool
    """Somebody wants to know how many rows are inside the graph."""
    is_collected: bool
    """Its caller takes all results at the end: none of them is read late."""

    def __init__(
        self, ends: Origin, results: Mapping[str, Results], in_flight: InFlight | None
    ) -> None:
        """Begins with nothing sent.

        Args:
            ends: Where the session's data can leave the graph.
            results: By output, what is there to be read.
            in_flight: Where rows inside the graph are counted; None: nobody wants to know.
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
        # Cancelled: its rows have been taken out of what is in flight, all at once. (That it is
        # finished does not say so: a node counts rows out after it has sent them on.)
        self._is_dropped = False
        self._open_terminals = len(ends.terminals)
        self._lock = make_lock("progress")
        self._read = Waiting(self._lock)

    @property
    def unread(self) -> int:
        """Rows between the submitter and the slowest reader of the session's results.

        Where a row that is sent may become none or many, those that wait for their reader.
        """
        results = self._results
        if not results or self.is_collected:
            return 0
        if not self.is_counted:
            return max(map(len, results))
        if len(results) == 1:  # asked for every row: no list is made
            return self.sent - results[0].taken
        return self.sent - min([one.taken for one in results])

    # -- in -------------------------------------------------------------------------------------

    def has_entered(self, port: str) -> int:
        """Returns how many rows have entered at ``port``."""
        return self._by_port.get(port, 0)

    def enter(self, port: str, count: int) -> int | None:
        """Counts rows that enter at ``port``, and returns the first one's position.

        A graph with several inputs has a row as soon as one of them has it. None: the session is
        over, and nothing may enter.
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
        """Counts all rows of a session of which nothing has entered yet, with the ends; by port.

        Returns:
            False: the session is over, and nothing may enter.
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
        """Notes rows that have passed one of the session's exits; `call_due` belongs behind it."""
        if self._in_flight is None or not count:
            return
        with self._lock:
            self._at_exits[place] += count
            freed = min(self._at_exits) - self._freed
            if freed and not self._is_dropped:
                self._freed += freed
                self._in_flight.remove(freed)

    def end_passed(self) -> bool:
        """Notes the end at one terminal; True if it was the last one."""
        with self._lock:
            self._open_terminals -= 1
            if self._open_terminals or self.is_finished:
                return False
            self.is_finished = True
            return True

    def end(self) -> bool:
        """Ends everything at once; False if it was over already."""
        with self._lock:
            if self.is_finished:
                return False
            self.is_closed = self.is_finished = self._is_dropped = True
            if self._in_flight is not None and self.sent > self._freed:
                self._in_flight.remove(self.sent - self._freed)
            return True

    def record_errors(self, buffers: Sequence[Buffer]) -> None:
        """Keeps the errors that end at a node without outputs."""
        with self._lock:
            for buffer in buffers:
                if buffer.error is not None:
                    self.error_count += 1
                    if len(self.errors) < self.MAX_KEPT_ERRORS:
                        self.errors.append(buffer.error)

    def adopt_errors(self, other: "Progress") -> None:
        """Takes over the errors that another session has kept."""
        with self._lock:
            self.error_count += other.error_count
            room = self.MAX_KEPT_ERRORS - len(self.errors)
            self.errors += other.errors[: max(0, room)]

    # -- those who wait until results are read --------------------------------------------------

    def close(self) -> None:
        """Notes that nothing can be sent any more."""
        with self._lock:
            self.is_closed = True

    def took(self) -> None:
        """Wakes those who wait because too much is unread; called after results were taken."""
        if self._read.count:
            self.wake()

    def wake(self) -> None:
        """Has everyone who waits look again."""
        with self._lock:
            self._read.wake()
        self.call_due()

    def wait_until_read(
        self, clock: Clock, bound: int, timeout: float | None, is_over: Callable[[], bool]
    ) -> None:
        """Waits while ``bound`` rows are unread, at most ``timeout`` s, not longer than
        `wake`.

        Not at all where ``is_over``: whoever makes it so calls `wake` afterwards.
        """
        with self._lock:
            # Counted as one who waits before the look: a reader looks for us after it has taken.
            self._read.count += 1
            try:
                if self.unread >= bound and not is_over():
                    self._read.wait(clock, timeout)
            finally:
                self._read.count -= 1

    def on_read(
        self, bound: int, callback: Callable[[], None], is_over: Callable[[], bool]
    ) -> None:
        """Calls ``callback`` once, when fewer than ``bound`` rows are unread (perhaps at
        once).

        Also where ``is_over``: whoever makes it so calls `wake` afterwards.
        """
        with self._lock:
            # Before the look at what is unread: a reader looks for callbacks after it has taken.
            self._read.add(callback)
            if self.unread < bound or is_over():
                self._read.wake()
        self._read.call_due()

    def forget(self, callback: Callable[[], None]) -> None:
        """Takes back an `on_read` whose caller waits no longer."""
        self._read.remove(callback)

    def call_due(self) -> None:
        """Calls those whose wait is over; with no lock held."""
        if self._read.due:
            self._read.call_due()
        if self._in_flight is not None:
            self._in_flight.call_due()
