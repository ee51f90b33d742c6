"""Rates and shares of a flow between two moments, which are more useful than sums.

Example: a node with two workers, seen twice with 10 s between, has 20 worker-seconds. Calls took 19
s (busy 0.95), and 0.6 s passed without rows (starved 0.03). The node was never blocked, and 3000
rows in 750 calls are 300 rows/s and 4 rows a call.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelflow.runtime.stats import FlowStats, Histogram, NodeStats

__all__ = ["Interval", "NodeInterval"]

# Fields that an interval takes from the later moment, fields that become shares of the workers'
# time, and fields that become differences.
_AS_IT_IS = ("node", "unit", "stage", "threads", "batch_size", "batch_timeout", "queue", "capacity")
_SHARES = ("busy", "starved", "blocked", "order")
_SUMS = ("errors", "expired", "dropped", "service", "wait")


@dataclass(frozen=True)
class NodeInterval:
    """A node between two moments.

    Attributes:
        node: The name of the node.
        unit: The name of its unit.
        stage: The stage that contains the node.
        threads: The number of its workers.
        rows_per_second: The throughput.
        mean_batch_size: Rows a call; 0 without calls.
        calls: Rows of a call -> the number of such calls, and the seconds that they took together.
        batch_size: The most rows that a call may have.
        busy, starved, blocked, order: Shares of its workers' time, from 0 to 1; see `NodeStats`.
        running: Of the time in calls on its own threads, the share on a processor.
        runnable: Of that time, the share in which the threads waited for a processor.
        waiting: Of that time, the share in which the unit waited: for a device, a file, a lock, or
            the interpreter's lock. The sum of `running`, `runnable` and `waiting` is 1. All are 0
            if the node has no threads of its own, no calls on them, or the system does not measure
            them.
        moving: The share of `busy` in copies between devices.
        padding: Rows that were added to fill batches.
        cuts: Cuts of batches whose rows differ in shape.
        process_calls: Calls in a process of the node.
        process_seconds: The time of these calls in the unit itself, without the transfer.
        loop: For a loop: its rows ``inside`` at the second moment, and their ``bound``.
        batch_timeout: Seconds that a row may wait for others to fill its batch.
        queue: Rows in the queue at the second moment.
        capacity: The number of queued rows at which producers wait.
        errors, expired, dropped: Rows; see `NodeStats`.
        failures: Errors by the type of the exception.
        closed: The number of batches by the reason why they closed.
        service, wait: The duration of calls, and the wait of the oldest row of each call.
        replicas: For a node that runs elsewhere: how many replicas are ``ready`` and ``starting``
            at the second moment, and how many were ``lost`` since the first.
        inside: The nodes that run on its replicas, over all replicas.
    """

    node: str
    unit: str
    stage: str
    threads: int
    rows_per_second: float
    mean_batch_size: float
    calls: Mapping[int, tuple[int, float]]
    batch_size: int
    busy: float
    starved: float
    blocked: float
    order: float
    running: float
    runnable: float
    waiting: float
    moving: float
    padding: int
    cuts: int
    process_calls: int
    process_seconds: float
    loop: Mapping[str, int]
    batch_timeout: float
    queue: int
    capacity: int
    errors: int
    expired: int
    dropped: int
    failures: Mapping[str, int]
    closed: Mapping[str, int]
    service: Histogram
    wait: Histogram
    replicas: Mapping[str, int]
    inside: tuple["NodeInterval", ...] = ()

    @property
    def replicas_text(self) -> str:
        """``1 of 2 replicas, 1 lost``, or "" for a node that runs in this process."""
        if not self.replicas:
            return ""
        ready, lost = self.replicas["ready"], self.replicas["lost"]
        told = f", {lost} lost" if lost else ""
        return f"{ready} of {ready + self.replicas['starting']} replicas{told}"

    @classmethod
    def between(cls, first: NodeStats | None, second: NodeStats, seconds: float) -> "NodeInterval":
        """Compares two moments of a node with so many seconds between.

        Args:
            first: The earlier moment. None compares with the start of the node.
            second: The later moment.
            seconds: The time between them.
        """
        one = first or NodeStats(second.node, second.unit)
        before = one.inside
        rows = second.buffers - one.buffers
        calls = {
            size: count - one.batch_sizes.get(size, 0) for size, count in second.batch_sizes.items()
        }
        with_rows = sum(count for size, count in calls.items() if size)
        spent = {
            size: (count, second.batch_seconds.get(size, 0.0) - one.batch_seconds.get(size, 0.0))
            for size, count in calls.items()
            if count
        }
        # In a stage of several nodes only the first node has the workers' time.
        workers = second.seconds - one.seconds or seconds * second.threads

        running, runnable, waiting = _split(one, second)

        def change(name: str) -> Any:
            return getattr(second, name) - getattr(one, name)

        def count(group: str, name: str) -> int:
            now, before = (node.figures.get(group, {}).get(name, 0) for node in (second, one))
            return int(now - before)

        found: dict[str, Any] = {name: getattr(second, name) for name in _AS_IT_IS}
        found |= {name: _part(change(name), workers) for name in _SHARES}
        found |= {name: change(name) for name in _SUMS}
        return cls(
            **found,
            rows_per_second=rows / seconds if seconds > 0 else 0.0,
            mean_batch_size=rows / with_rows if with_rows else 0.0,
            calls=spent,
            running=running,
            runnable=runnable,
            waiting=waiting,
            moving=_part(second.moving - one.moving, second.busy - one.busy),
            padding=count("batching", "padding"),
            cuts=count("batching", "another_shape"),
            process_calls=count("process", "calls"),
            process_seconds=count("process", "unit_us") / 1e6,
            loop=dict(second.figures.get("loop", {})),
            failures=_less(second.failures, one.failures),
            closed=_less(second.closed, one.closed),
            replicas=_replicas(one, second),
            inside=tuple(
                cls.between(before.get(name), node, seconds) for name, node in second.inside.items()
            ),
        )


@dataclass(frozen=True)
class Interval:
    """A flow between two moments.

    Attributes:
        name: The name of the flow.
        seconds: The time between the moments.
        requests: Requests that ended between the moments, by outcome.
        latency: The durations of the requests that were not cancelled.
        in_flight: Requests in progress at the second moment.
        unread: Results not yet read by the caller at the second moment, by output.
        unread_bound: The number of unread results of a session at which its sender waits.
        request_seconds: In a server: the mean time of a request from arrival to reply. Else None.
        nodes: The nodes in topological order.
    """

    name: str
    seconds: float
    requests: Mapping[str, int]
    latency: Histogram
    in_flight: int
    unread: Mapping[str, int]
    unread_bound: int
    request_seconds: float | None
    nodes: tuple[NodeInterval, ...]

    @classmethod
    def between(cls, first: FlowStats | None, second: FlowStats) -> "Interval":
        """Compares two moments of a flow; without ``first`` the start of the flow is used."""
        # A flow without nodes is an empty mapping, which is false.
        one = FlowStats(time=second.time - second.seconds) if first is None else first
        seconds = second.time - one.time
        return cls(
            name=second.name,
            seconds=seconds,
            requests=_less(second.requests, one.requests),
            latency=second.latency - one.latency,
            in_flight=second.in_flight,
            unread=second.unread,
            unread_bound=second.unread_bound,
            request_seconds=_mean_seconds(one.answered, second.answered),
            nodes=tuple(
                NodeInterval.between(one.get(name), node, seconds) for name, node in second.items()
            ),
        )

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes."""
        return frozenset(node.node for node in self.nodes)

    @property
    def requests_per_second(self) -> float:
        """Ended requests per second, with any outcome."""
        return sum(self.requests.values()) / self.seconds if self.seconds > 0 else 0.0


def _split(one: NodeStats, second: NodeStats) -> tuple[float, float, float]:
    """Returns the shares of running, runnable and waiting in the calls on a node's own threads.

    An idle worker is neither on a processor nor runnable. The thread's remaining time, without this
    idle time, is the time in which a unit waited.
    """
    running = second.on_core - one.on_core
    runnable = second.runnable - one.runnable
    asleep = (second.seconds - one.seconds) - running - runnable
    rests = sum(
        getattr(second, name) - getattr(one, name)
        for name in ("starved", "lent", "blocked", "order")
    )
    waiting = max(0.0, asleep - rests)
    whole = running + runnable + waiting
    is_known = second.on_core > 0 and second.busy - one.busy > second.lent - one.lent and whole > 0
    return (running / whole, runnable / whole, waiting / whole) if is_known else (0.0, 0.0, 0.0)


def _part(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part) / whole) if whole > 0 else 0.0


def _replicas(one: NodeStats, second: NodeStats) -> dict[str, int]:
    now, before = (dict(node.figures.get("replicas", {})) for node in (second, one))
    return {**now, "lost": now["lost"] - before.get("lost", 0)} if now else {}


def _less(later: Mapping[str, int], earlier: Mapping[str, int]) -> dict[str, int]:
    return {name: left for name, count in later.items() if (left := count - earlier.get(name, 0))}


def _mean_seconds(before: Mapping[str, float], after: Mapping[str, float]) -> float | None:
    count = after.get("count", 0.0) - before.get("count", 0.0)
    return (after["seconds"] - before.get("seconds", 0.0)) / count if count > 0 else None
