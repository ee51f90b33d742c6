"""The counters of single workers and queues, without locks of their own."""

from collections import Counter
from math import inf, log2

from modelflow.runtime.stats.histogram import ALL, EVERY, SHORT, Record
from modelflow.runtime.stats.processor_time import ThreadTime

# The number of calls, their seconds, and the clock's time at which the last one began, or -1.
Calls = tuple[int, float, float]
_NO_CALLS: Calls = (0, 0.0, -1.0)
# The weight of a new, lower cost in `WorkerStats.cost`. A higher cost applies immediately.
_FORGETTING = 0.125


class WorkerStats:
    """The counters of a worker, written by the thread that has the worker's slot.

    Attributes:
        errors: The number of rows that failed in the unit.
        passed: The number of rows that were in error before, and passed by the unit.
        failures: The failed rows by the type name of the exception.
        failed_at: The clock's time of the last failed row by the type name of the exception.
        last_error: The time and the text of the last error.
        expired: The number of rows whose deadline had passed before the call of the unit.
        size: The number of rows of the current or the last call.
        cost: The expected seconds of a call. A slower call raises the value immediately, faster
            calls lower it gradually. Infinite before the first call.
        row: The average seconds for a row of the last call.
        by_size: Batch size (0: calls for events) -> number of such calls, their seconds in total,
            and the start of the last one. Each call replaces all three at once, so a reader sees
            the call in all or in none.
        parts: The same for batches that are not in `by_size`. Such a batch was cut because other
            workers were idle, or because slow rows are processed one by one.
        is_part: True if the next call is for such a cut batch.
        service: The lengths of the calls.
        waits: The waiting times of the oldest row of each batch.
        moved: The number of buffers that were copied from or to a device.
        moved_bytes: The bytes of these buffers.
        moving: The seconds of these copies.
        starved: Seconds without any work.
        ordered: Seconds in which the waiting rows had to wait for earlier rows.
        blocked: Seconds without room after the node.
        lent: Seconds of calls on threads of other workers while the own thread was idle.
        thread: The processor time of the thread, or None without a thread.
        since, until: The start and the end of the work, by the clock, or None.
        busy_since, resting_since, blocked_since: The start of the current call, idle time or wait
            for room, or None.
        is_ordered: True if the worker is idle because the waiting rows must wait for earlier rows.
    """

    __slots__ = (
        "blocked",
        "blocked_since",
        "busy_since",
        "by_size",
        "cost",
        "errors",
        "expired",
        "failed_at",
        "failures",
        "is_ordered",
        "is_part",
        "last_error",
        "lent",
        "moved",
        "moved_bytes",
        "moving",
        "ordered",
        "parts",
        "passed",
        "resting_since",
        "row",
        "service",
        "since",
        "size",
        "starved",
        "thread",
        "until",
        "waits",
    )

    thread: ThreadTime | None
    since: float | None
    until: float | None
    busy_since: float | None
    resting_since: float | None
    blocked_since: float | None

    def __init__(self) -> None:
        self.errors = self.passed = self.expired = self.moved = self.moved_bytes = self.size = 0
        self.failures: Counter[str] = Counter()
        self.failed_at: dict[str, float] = {}
        self.last_error = (-inf, "")
        self.cost = inf
        self.by_size: dict[int, Calls] = {}
        self.parts: dict[int, Calls] = {}
        self.is_part = False
        self.row = 0.0
        self.service, self.waits = Record(), Record()
        self.starved = self.ordered = self.blocked = self.lent = self.moving = 0.0
        self.thread = None
        self.since = self.until = None
        self.busy_since = self.resting_since = self.blocked_since = None
        self.is_ordered = False

    def note_failures(self, kinds: "Counter[str]", last: str, now: float) -> None:
        """Adds rows that failed in a call.

        Args:
            kinds: The number of failed rows by the type name of the exception.
            last: The text of the last error, or ``""`` without errors.
            now: The clock's time.
        """
        self.failures.update(kinds)
        self.failed_at.update(dict.fromkeys(kinds, now))
        if last:
            self.last_error = (now, last)

    def count(
        self, size: int, errors: int, seconds: float, waited: float = -1.0, start: float = -1.0
    ) -> None:
        """Adds a call, before `busy_since` is cleared.

        Args:
            size: The number of rows.
            errors: The number of rows that failed in the call.
            seconds: The length of the call.
            waited: The seconds that the oldest row had waited for the call. Negative if not known.
            start: The value of `busy_since` during the call, or -1 for a call without that value.
        """
        sizes = self.by_size
        if self.is_part and size:
            self.is_part, sizes = False, self.parts
        before, spent, _ = sizes.get(size, _NO_CALLS)
        number = before + 1
        sizes[size] = (number, spent + seconds, start)
        # The code of `Record.add` without the cost of a call.
        weight = 1 if number <= ALL else 0 if number % EVERY else EVERY
        if weight or seconds > SHORT:
            times = 1 if seconds > SHORT else weight
            self.service.counts[int(log2(seconds * 1e9 + 1.0) * 4.0)] += times
        if waited >= 0.0 and (weight or waited > SHORT):
            times = 1 if waited > SHORT else weight
            self.waits.counts[int(log2(waited * 1e9 + 1.0) * 4.0)] += times
            self.waits.total += waited * times
        if errors:
            self.errors += errors
        if self.resting_since is not None:
            self.lent += seconds
        if size:
            self.row = seconds / size
        cost = self.cost
        if seconds < cost < inf:
            self.cost = cost + (seconds - cost) * _FORGETTING
        else:
            self.cost = seconds

    def calls(self) -> list[tuple[int, Calls]]:
        """Returns the current items of `by_size` and `parts`, each copied in one step."""
        return [*self.by_size.items(), *self.parts.items()]

    @property
    def batches(self) -> int:
        """The number of calls."""
        return sum(calls[0] for _, calls in self.calls())

    @property
    def done(self) -> tuple[int, float]:
        """The number of rows of all finished calls, and the seconds of these calls."""
        found = self.calls()
        return int(sum(size * one[0] for size, one in found)), sum(one[1] for _, one in found)

    def count_transfer(self, buffers: int, size: int, seconds: float) -> None:
        """Adds buffers that were copied between devices, with their bytes and seconds."""
        self.moved += buffers
        self.moved_bytes += size
        self.moving += seconds

    def end_rest(self, now: float) -> None:
        """Adds the idle time since `resting_since`."""
        since, self.resting_since = self.resting_since, None
        if since is None:
            return
        if self.is_ordered:
            self.ordered += now - since
        else:
            self.starved += now - since

    def end_block(self, now: float) -> None:
        """Adds the wait for room since `blocked_since`, if any."""
        since, self.blocked_since = self.blocked_since, None
        if since is not None:
            self.blocked += now - since


class QueueStats:
    """The counters of a queue, written under the lock of the queue.

    Attributes:
        closed: Reason why a batch was closed -> number of batches. The reasons are ``full``,
            ``timeout``, ``nothing_waiting`` and ``end_of_stream``. Empty for queues that do not
            count this.
        dropped: The number of rows of cancelled sessions that never reached the unit.
    """

    __slots__ = ("closed", "dropped")

    def __init__(self) -> None:
        self.closed: Counter[str] = Counter()
        self.dropped = 0
