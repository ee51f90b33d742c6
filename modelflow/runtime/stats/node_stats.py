"""The figures of a node: what its workers have counted, added up, at one moment."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from modelflow.runtime.stats.counters import WorkerStats
from modelflow.runtime.stats.histogram import Histogram
from modelflow.runtime.stats.processor_time import NOTHING

GONE = "gone"
"""In the place of a replica's name: all those that are not there any more, together."""

# How often figures are read anew that change while they are read.
_TRIES = 4


@dataclass(frozen=True)
class NodeStats:
    """What a node has done so far; a moment's picture, not locked against the workers.

    The time of its workers is `busy`, `starved`, `blocked` or `order`, also what has not ended yet;
    what is left of `seconds` is the runtime's own. Nodes that are fused into one stage share their
    workers: of those all but the first have only `busy`.

    Attributes:
        node, unit: Whose figures these are.
        stage: The stage that it is in: the name of its first node.
        threads: Its workers.
        batches: Calls of the unit.
        buffers: Rows that were given to it.
        errors: Rows that failed in it.
        failures: The same by what was raised: the name of its type.
        last_error: What the last of them was, and of which item, cut short; ``""``: there was none.
        expired: Rows whose deadline had passed when they came to it.
        dropped: Rows of cancelled sessions that never came to it.
        seconds: How long its workers have been there, added up.
        busy: Seconds spent in the unit, over all workers.
        starved: Seconds in which a worker had nothing to do.
        blocked: Seconds in which it waited for room behind the node.
        order: Seconds in which what it could have done had to wait for rows before it.
        lent: Seconds of `busy` on threads of other stages, while its own rested.
        on_core: Seconds that its threads ran on a processor.
        runnable: Seconds in which they could have run, and others had the processors.
        queue: Ready rows that wait now.
        capacity: Rows at which those who bring them wait; the least, where ports differ.
        moved, moved_bytes: Buffers that were copied between devices here, and their bytes.
        moving: Seconds of its threads in these copies.
        batch_size: The most rows a call may have.
        batch_timeout: Seconds that a row may wait for others to fill its batch.
        batch_sizes: Batch size -> number of calls. Sizes near 1 under load: the node keeps up, and
            batching is not needed. Sizes near ``batch_size``: the node is the bottleneck.
        batch_seconds: Batch size -> seconds spent in those calls, over all workers.
        closed: Why batches closed -> number of batches: ``full``, ``timeout``, ``nothing_waiting``,
            ``end_of_stream``, ``shared`` (workers took a part each).
        service: How long calls took.
        wait: How long the oldest row of each batch had waited for the call.
        figures: Counters of the unit's own. An inference unit has ``engine_calls`` (rows ->
            calls of the engine) and ``batching`` (``padding``: rows filled up, ``another_shape``:
            batches cut because of it). A far node has ``replicas`` (``ready``, ``starting``,
            ``lost``).
        replicas: Of a far node what was done elsewhere for it: replica (machine and process) ->
            node -> figures. Those that are there no more are one, `GONE`. What others have replicas
            do that they share is in it; of one that is busy, or hangs, it is what it told last.
    """

    node: str
    unit: str
    stage: str = ""
    threads: int = 1
    batches: int = 0
    buffers: int = 0
    errors: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    last_error: str = ""
    expired: int = 0
    dropped: int = 0
    seconds: float = 0.0
    busy: float = 0.0
    starved: float = 0.0
    blocked: float = 0.0
    order: float = 0.0
    lent: float = 0.0
    on_core: float = 0.0
    runnable: float = 0.0
    queue: int = 0
    capacity: int = 0
    moved: int = 0
    moved_bytes: int = 0
    moving: float = 0.0
    batch_size: int = 1
    batch_timeout: float = 0.0
    batch_sizes: dict[int, int] = field(default_factory=dict)
    batch_seconds: dict[int, float] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)
    service: Histogram = field(default_factory=Histogram)
    wait: Histogram = field(default_factory=Histogram)
    figures: dict[str, dict[Any, int]] = field(default_factory=dict)
    replicas: dict[str, dict[str, "NodeStats"]] = field(default_factory=dict)

    @property
    def inside(self) -> dict[str, "NodeStats"]:
        """The nodes that stand behind a far one, by name, over all its replicas."""
        found: dict[str, NodeStats] = {}
        for nodes in self.replicas.values():
            add_nodes(found, nodes)
        return found

    @property
    def row_seconds(self) -> float:
        """Seconds that rows have spent in calls, added up over the rows: a call counts for each."""
        return sum(size * seconds for size, seconds in self.batch_seconds.items())

    @property
    def mean_batch_size(self) -> float:
        """Rows a call, on average, without the calls for events; 0 before the first."""
        calls = sum(count for size, count in self.batch_sizes.items() if size)
        return self.buffers / calls if calls else 0.0

    def __add__(self, other: "NodeStats") -> "NodeStats":
        """Returns the figures of both together: of the same node in another process."""
        added: dict[str, Any] = {
            name: getattr(self, name) + getattr(other, name) for name in _ADDED
        }
        mixed: dict[str, Any] = {
            name: _add_up(getattr(self, name), getattr(other, name)) for name in _MIXED
        }
        figures = {
            name: _add_up(self.figures.get(name, {}), other.figures.get(name, {}))
            for name in {**self.figures, **other.figures}
        }
        batch_size = max(self.batch_size, other.batch_size)
        error = other.last_error or self.last_error
        mixed["last_error"] = error
        # Several processes may use one replica, and tell the same of it.
        replicas = {**self.replicas, **other.replicas}
        gone = dict(self.replicas.get(GONE, {}))
        add_nodes(gone, other.replicas.get(GONE, {}))
        if gone:
            replicas[GONE] = gone
        return replace(
            self, **added, **mixed, figures=figures, batch_size=batch_size, replicas=replicas
        )

    @property
    def past(self) -> "NodeStats":
        """The same without what is true of its moment alone: its workers and queue are gone."""
        inside = {name: node.past for name, node in self.inside.items()}
        replicas = {GONE: inside} if inside else {}
        return replace(self, threads=0, queue=0, capacity=0, replicas=replicas)

    @property
    def without_words(self) -> "NodeStats":
        """The same without what errors said: it may hold what somebody has sent."""
        replicas = {
            replica: {name: node.without_words for name, node in nodes.items()}
            for replica, nodes in self.replicas.items()
        }
        return replace(self, last_error="", replicas=replicas)

    @classmethod
    def of(
        cls, node: str, unit: str, stage: str, workers: Iterable[WorkerStats], now: float
    ) -> Self:
        """Adds up the counters of the workers of a node.

        Args:
            node: Whose they are.
            unit: What it runs.
            stage: The stage that it is in.
            workers: What each of them has counted.
            now: The clock's time.
        """
        counters = list(workers)
        sizes: Counter[int] = Counter()
        seconds: defaultdict[int, float] = defaultdict(float)
        failures: Counter[str] = Counter()
        times = []
        for counter in counters:
            failures.update(dict(counter.failures))
            calls, since = _calls(counter)
            for size, count, spent in calls:
                sizes[size] += int(count)
                seconds[size] += spent
            times.append(_times(counter, now, since))
        threads = [
            NOTHING if counter.thread is None else counter.thread.seconds() for counter in counters
        ]
        return cls(
            node=node,
            unit=unit,
            stage=stage,
            threads=len(counters),
            batches=sizes.total(),
            buffers=sum(size * count for size, count in sizes.items()),
            errors=sum(counter.errors for counter in counters),
            failures=dict(failures),
            last_error=max(counter.last_error for counter in counters)[1] if counters else "",
            expired=sum(counter.expired for counter in counters),
            seconds=sum(one[0] for one in times),
            busy=sum(seconds.values()) + sum(one[1] for one in times),
            starved=sum(one[2] for one in times),
            blocked=sum(one[3] for one in times),
            order=sum(one[4] for one in times),
            lent=sum(one[5] for one in times),
            on_core=sum(ran for ran, _ in threads),
            runnable=sum(waited for _, waited in threads),
            moved=sum(counter.moved for counter in counters),
            moved_bytes=sum(counter.moved_bytes for counter in counters),
            moving=sum(counter.moving for counter in counters),
            batch_sizes=dict(sorted(sizes.items())),
            batch_seconds=dict(sorted(seconds.items())),
            service=Histogram(
                _sum(one.service.histogram() for one in counters).counts, sum(seconds.values())
            ),
            wait=_sum(one.waits.histogram() for one in counters),
        )


_ADDED = (
    "threads",
    "batches",
    "buffers",
    "errors",
    "expired",
    "dropped",
    "seconds",
    "busy",
    "starved",
    "blocked",
    "order",
    "lent",
    "on_core",
    "runnable",
    "queue",
    "capacity",
    "moved",
    "moved_bytes",
    "moving",
    "service",
    "wait",
)
_MIXED = ("failures", "batch_sizes", "batch_seconds", "closed")


def add_nodes(total: dict[str, NodeStats], more: Mapping[str, NodeStats]) -> None:
    """Adds figures of nodes to those of the same names."""
    for name, node in more.items():
        total[name] = total[name] + node if name in total else node


def _add_up(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    """Adds up what has the same key."""
    found = dict(one)
    for key, value in other.items():
        found[key] = found.get(key, 0) + value
    return found


def _calls(stats: WorkerStats) -> tuple[list[tuple[int, float, float]], float | None]:
    """Returns the calls that have ended, by size, and when the one under way began.

    Read anew where a call has ended or begun meanwhile: it would count neither here nor there.
    """
    tries = 0
    while True:
        since = stats.busy_since
        calls = [(size, count, spent) for size, (count, spent) in stats.calls()]
        tries += 1
        if stats.busy_since is since or tries == _TRIES:
            return calls, since


def _times(
    stats: WorkerStats, now: float, since: float | None
) -> tuple[float, float, float, float, float, float]:
    """Returns seconds of a worker: all, in the call not over, starved, blocked, ordered, lent.

    Calls on the threads of others are made while its own rests: they are no rest of the worker.
    """
    now = now if stats.until is None else stats.until
    lent, busy, starved = stats.lent, 0.0, stats.starved
    ordered, blocked = stats.ordered, stats.blocked
    resting, is_ordered = stats.resting_since, stats.is_ordered
    whole = 0.0 if stats.since is None else max(0.0, now - stats.since)
    if since is not None:
        busy = max(0.0, now - since)
        if resting is not None:
            lent += busy
    if resting is not None:
        open_rest = max(0.0, now - resting)
        if is_ordered:
            ordered += open_rest
        else:
            starved += open_rest
    if (since := stats.blocked_since) is not None:
        blocked += max(0.0, now - since)
    return whole, busy, max(0.0, starved - lent), blocked, ordered, lent


def _sum(histograms: Iterable[Histogram]) -> Histogram:
    return sum(histograms, Histogram())
