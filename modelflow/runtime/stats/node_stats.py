"""The statistics of a node: the sums of its workers' counters at one time."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from modelflow.runtime.stats.counters import Calls, WorkerStats
from modelflow.runtime.stats.histogram import Histogram
from modelflow.runtime.stats.processor_time import NOTHING

GONE = "gone"
"""The key for the sum of all replicas that have ended, instead of a replica's name."""


@dataclass(frozen=True)
class NodeStats:
    """The statistics of a node, taken without locks while the workers continue.

    The time of its workers is `busy`, `starved`, `blocked` or `order`, including calls and waits
    that have not ended. The rest of `seconds` is the time of the runtime itself. Nodes that are
    fused into one stage share their workers. All of them but the first have only `busy`.

    Attributes:
        node, unit: The name of the node, and its unit.
        stage: The stage of the node, with the name of the stage's first node.
        threads: The number of workers.
        batches: The number of takes from the queue. A take is a call of the unit, unless all its
            rows were in error before. Calls of a failed batch in parts are no further takes.
        buffers: The number of rows that the unit got. Rows that were in error before pass by the
            unit and do not count, unless the unit is exception-visible.
        errors: The number of rows that failed in the unit.
        failures: The failed rows by the type name of the exception.
        failed_at: Type name of the exception -> the clock's time of the last such error.
        last_error: The shortened text of the last error with its item, or ``""``.
        expired: The number of rows whose deadline had passed when they reached the node.
        dropped: The number of rows of cancelled sessions that never reached the unit.
        seconds: The lifetime of all workers in total.
        busy: Seconds in the unit, over all workers.
        starved: Seconds in which a worker had no work.
        blocked: Seconds in which a worker waited for room after the node.
        order: Seconds in which the waiting rows had to wait for earlier rows.
        lent: Seconds of `busy` on threads of other stages, while the worker's own thread was idle.
        on_core: Seconds of the threads on a processor.
        runnable: Seconds in which the threads were ready to run, but other threads had the
            processors.
        queue: The number of ready rows that wait now.
        calling: The number of rows in calls now.
        capacity: The number of rows at which senders wait. The least, if ports differ.
        moved, moved_bytes: Buffers that this node copied between devices, and their bytes.
        moving: Seconds of the threads in these copies.
        batch_size: The most rows for a call.
        batch_timeout: Seconds that a row may wait for others to fill its batch.
        batch_sizes: Rows of a take, with rows in error -> number of takes. Sizes near 1 under load
            mean that the node keeps up, and batching is not needed. Sizes near ``batch_size`` mean
            that the node is the bottleneck.
        batch_seconds: Rows of a take -> seconds in the calls of those takes, over all workers.
        closed: Reason why a batch was closed -> number of batches. The reasons are ``full``,
            ``timeout``, ``nothing_waiting``, ``end_of_stream``, and ``shared`` (several workers
            took a part each).
        service: The lengths of the calls.
        wait: The waiting times of the oldest row of each batch.
        figures: Counters of the unit itself. An inference unit has ``engine_calls`` (rows -> calls
            of the engine) and ``batching``. The latter has ``padding`` (rows that fill a batch) and
            ``another_shape`` (batches that were cut because shapes differ). A remote node has
            ``replicas`` (``ready``, ``starting``, ``lost``), and a ``video_demuxer`` has
            ``connections`` (``opened``, ``reopened``, ``failed``). A ``httpserver_mjpeg`` has
            ``viewers`` (``came``, and images ``shown`` and ``missed``). A node with
            ``workers=process`` has ``process`` (``calls``, and ``unit_us``: the microseconds in the
            unit itself). A loop has ``loop`` (``inside``: its rows now, and ``bound``).
        replicas: Only for a node that runs on other machines. Replica (machine and process)
            -> node -> statistics. All replicas that have ended are summed under `GONE`. If
            processes share a replica, its values include the work for all of them. For a replica
            that is busy or hangs, these are the last reported values.
    """

    node: str
    unit: str
    stage: str = ""
    threads: int = 1
    batches: int = 0
    buffers: int = 0
    errors: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    failed_at: dict[str, float] = field(default_factory=dict)
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
    calling: int = 0
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
        """The nodes on the replicas of a remote node, by name, summed over all replicas."""
        found: dict[str, NodeStats] = {}
        for nodes in self.replicas.values():
            add_nodes(found, nodes)
        return found

    @property
    def row_seconds(self) -> float:
        """The seconds of all rows in calls: each call counts once for every row."""
        return sum(size * seconds for size, seconds in self.batch_seconds.items())

    @property
    def mean_batch_size(self) -> float:
        """The average number of rows in a take, without calls for events; 0 without takes."""
        calls = sum(count for size, count in self.batch_sizes.items() if size)
        return self.rows_taken / calls if calls else 0.0

    @property
    def rows_taken(self) -> int:
        """The number of rows that were taken from the queue, with the rows in error."""
        return sum(size * count for size, count in self.batch_sizes.items())

    def __add__(self, other: "NodeStats") -> "NodeStats":
        """Returns the sum with the statistics of the same node in another process."""
        added: dict[str, Any] = {
            name: getattr(self, name) + getattr(other, name) for name in _ADDED
        }
        mixed: dict[str, Any] = {
            name: add_up(getattr(self, name), getattr(other, name)) for name in _MIXED
        }
        figures = {
            name: add_up(self.figures.get(name, {}), other.figures.get(name, {}))
            for name in {**self.figures, **other.figures}
        }
        batch_size = max(self.batch_size, other.batch_size)
        error = other.last_error or self.last_error
        mixed["last_error"] = error
        mixed["failed_at"] = _latest((self.failed_at, other.failed_at))
        # Several processes may use one replica and report the same values, so they are not added.
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
        """The statistics of an ended node, without current values such as the queue length."""
        inside = {name: node.past for name, node in self.inside.items()}
        replicas = {GONE: inside} if inside else {}
        return replace(self, threads=0, queue=0, calling=0, capacity=0, replicas=replicas)

    @property
    def without_words(self) -> "NodeStats":
        """The statistics without the texts of errors, which may contain data of a client."""
        replicas = {
            replica: {name: node.without_words for name, node in nodes.items()}
            for replica, nodes in self.replicas.items()
        }
        return replace(self, last_error="", replicas=replicas)

    @classmethod
    def of(
        cls, node: str, unit: str, stage: str, workers: Iterable[WorkerStats], now: float
    ) -> Self:
        """Returns the sum of the counters of a node's workers.

        Args:
            node: The name of the node.
            unit: The unit of the node.
            stage: The stage of the node.
            workers: The counters of each worker.
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
            for size, (count, spent, _) in calls:
                sizes[size] += count
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
            buffers=sum(size * count for size, count in sizes.items())
            - sum(counter.passed for counter in counters),
            errors=sum(counter.errors for counter in counters),
            failures=dict(failures),
            failed_at=_latest(dict(counter.failed_at) for counter in counters),
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
            calling=sum(one.size for one in counters if one.busy_since is not None),
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
    "calling",
    "capacity",
    "moved",
    "moved_bytes",
    "moving",
    "service",
    "wait",
)
_MIXED = ("failures", "batch_sizes", "batch_seconds", "closed")


def add_nodes(total: dict[str, NodeStats], more: Mapping[str, NodeStats]) -> None:
    """Adds the statistics of nodes to a mapping, and sums nodes with the same name."""
    for name, node in more.items():
        total[name] = total[name] + node if name in total else node


def add_up(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns a mapping with the sums of the numbers in both mappings."""
    found = dict(one)
    for key, value in other.items():
        found[key] = found.get(key, 0) + value
    return found


def _latest(times: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the latest time of each key."""
    found: dict[str, float] = {}
    for one in times:
        found.update({key: max(time, found.get(key, time)) for key, time in one.items()})
    return found


def _calls(stats: WorkerStats) -> tuple[list[tuple[int, Calls]], float | None]:
    """Returns the finished calls by size, and the start time of the current call.

    A call that ends meanwhile is in exactly one of the two values.
    """
    since = stats.busy_since
    calls = stats.calls()
    if since is not None and any(start >= since for _, (_, _, start) in calls):
        since = None  # the call is among the finished calls
    return calls, since


def _times(
    stats: WorkerStats, now: float, since: float | None
) -> tuple[float, float, float, float, float, float]:
    """Returns the seconds of a worker: total, current call, starved, blocked, ordered, lent.

    While other threads make calls for the worker, its own thread is idle. This time is therefore
    subtracted from starved.
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
