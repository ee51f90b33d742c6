"""What workers and queues count while they work: each for itself, without locks of its own."""

from collections import Counter
from math import inf, log2

from modelflow.runtime.stats.histogram import ALL, EVERY, SHORT, Record
from modelflow.runtime.stats.processor_time import ThreadTime

# How fast what a call has cost is forgotten where later ones cost less.
_FORGETTING = 0.125


class WorkerStats:
    """The counters of one worker, written by whoever is in its slot.

    Attributes:
        errors: Rows that failed in the unit.
        failures: The same by what was raised: the name of its type.
        last_error: When the last of them came, and what it was.
        expired: Rows whose deadline had passed before the unit was called.
        cost: Seconds that a call takes now: dear at once, and cheap again slowly; infinite before
            the first.
        row: Seconds that a row of the last call has taken, on average.
        by_size: Batch size (0: calls for events) -> how many calls had it, and the seconds that
            they took together.
        parts: The same of batches that are not in `by_size`: they were left smaller because other
            workers were there for the rest, or rows that take long go one by one.
        is_part: The next call is for such a batch.
        service: How long each call took.
        waits: How long the oldest row of each batch had waited.
        moved: Buffers that were copied from or to a device.
        moved_bytes: Their bytes.
        moving: Seconds that took.
        starved: Seconds without anything to do.
        ordered: Seconds in which what there was had to wait for rows before it.
        blocked: Seconds without room behind the node.
        lent: Seconds of calls on the threads of others, while its own rested.
        thread: What its thread has used of the processors; None: it has none.
        since, until: When it began to work, and when it ended, by the clock; None: it has not.
        busy_since, resting_since, blocked_since: When what it does now began; None: it does
            something else.
        is_ordered: What it rests for is rows before those that there are.
    """

    __slots__ = (
        "blocked",
        "blocked_since",
        "busy_since",
        "by_size",
        "cost",
        "errors",
        "expired",
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
        "resting_since",
        "row",
        "service",
        "since",
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
        self.errors = self.expired = self.moved = self.moved_bytes = 0
        self.failures: Counter[str] = Counter()
        self.last_error = (-inf, "")
        self.cost = inf
        self.by_size: dict[int, list[float]] = {}
        self.parts: dict[int, list[float]] = {}
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
            kinds: How many, by what was raised.
            last: What the last of them was; ``""``: none has.
            now: The clock's time.
        """
        self.failures.update(kinds)
        if last:
            self.last_error = (now, last)

    def count(self, size: int, errors: int, seconds: float, waited: float = -1.0) -> None:
        """Adds one call.

        Args:
            size: How many rows it was given.
            errors: How many of them failed in it.
            seconds: How long it took.
            waited: How long the oldest row had waited for it, in seconds; negative: nobody knows.
        """
        sizes = self.by_size
        if self.is_part and size:
            self.is_part, sizes = False, self.parts
        found = sizes.get(size)
        if found is None:
            sizes[size] = found = [0, 0.0]
        found[0] = number = found[0] + 1
        found[1] += seconds
        # As `Record.add`, without a call.
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

    def calls(self) -> list[tuple[int, list[float]]]:
        """Returns a moment's picture of `by_size` and `parts`."""
        return [*self.by_size.items(), *self.parts.items()]

    @property
    def batches(self) -> int:
        """How many calls there were."""
        return int(sum(count for _, (count, _) in self.calls()))

    @property
    def done(self) -> tuple[int, float]:
        """Rows of the calls that have ended, and the seconds that those took."""
        found = self.calls()
        return int(sum(size * one[0] for size, one in found)), sum(one[1] for _, one in found)

    def count_transfer(self, buffers: int, size: int, seconds: float) -> None:
        """Adds buffers that were copied between devices: so many bytes, in such a time."""
        self.moved += buffers
        self.moved_bytes += size
        self.moving += seconds

    def end_rest(self, now: float) -> None:
        """Adds the rest that began at `resting_since`."""
        since, self.resting_since = self.resting_since, None
        if since is None:
            return
        if self.is_ordered:
            self.ordered += now - since
        else:
            self.starved += now - since

    def end_block(self, now: float) -> None:
        """Adds the wait for room that began at `blocked_since`, if there was one."""
        since, self.blocked_since = self.blocked_since, None
        if since is not None:
            self.blocked += now - since


class QueueStats:
    """What became of a queue's rows; written under its lock.

    Attributes:
        closed: Why batches closed -> how many: ``full``, ``timeout``, ``nothing_waiting``,
            ``end_of_stream``; where that is noted.
        dropped: Rows of cancelled sessions that never came to the unit.
    """

    __slots__ = ("closed", "dropped")

    def __init__(self) -> None:
        self.closed: Counter[str] = Counter()
        self.dropped = 0
