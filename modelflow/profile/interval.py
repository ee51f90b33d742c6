"""What happened between two moments of a flow: rates and shares, which say more than sums.

A node with two workers, seen twice with 10 s between: 20 worker-seconds, of which 19 in calls (busy
0.95), 0.6 without rows (starved 0.03), none blocked; 3000 rows in 750 calls: 300 rows/s, 4 a call.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelflow.runtime.stats import FlowStats, Histogram, NodeStats

__all__ = ["Interval", "NodeInterval"]

# What of a node's figures an interval has as they are at its end; as shares of its workers' time;
# and as what was added.
_AS_IT_IS = ("node", "unit", "stage", "threads", "batch_size", "batch_timeout", "queue", "capacity")
_SHARES = ("busy", "starved", "blocked", "order")
_SUMS = ("errors", "expired", "dropped", "service", "wait")


@dataclass(frozen=True)
class NodeInterval:
    """A node between two moments.

    Attributes:
        node: Its name.
        unit: Its unit.
        stage: The stage that it is in.
        threads: Its workers.
        rows_per_second: How much it did.
        mean_batch_size: Rows a call; 0: it was not called.
        calls: Rows of a call -> how many had so many, and the seconds that they took together.
        batch_size: The most rows that a call may have.
        busy, starved, blocked, order: Shares of its workers' time, from 0 to 1; see `NodeStats`.
        running: Of the time in calls on its own threads, the share on a processor.
        runnable: Of that time, the share in which others had the processors.
        waiting: Of that time, the share in which it waited in the unit: for a device, a file, a
            lock, the interpreter's. With `running` and `runnable` it makes 1; all are 0 where the
            node has no threads of its own, was not called on them, or nobody knows.
        moving: Share of `busy` in copies between devices.
        padding: Rows that batches were filled up with.
        batch_timeout: Seconds that a row may wait for others to fill its batch.
        queue: Rows that wait at the second moment.
        capacity: Rows at which those who bring them wait.
        errors, expired, dropped: Rows; see `NodeStats`.
        failures: Errors by what was raised.
        closed: Why batches closed.
        service, wait: How long calls took, and the oldest row of each had waited.
        replicas: Of a node whose work is done elsewhere: how many replicas are ``ready`` and
            ``starting`` at the second moment, and were ``lost`` since the first.
        inside: The nodes that stand behind it there, over all replicas.
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
        """``1 of 2 replicas, 1 lost``; "": its work is done here."""
        if not self.replicas:
            return ""
        ready, lost = self.replicas["ready"], self.replicas["lost"]
        told = f", {lost} lost" if lost else ""
        return f"{ready} of {ready + self.replicas['starting']} replicas{told}"

    @classmethod
    def between(cls, first: NodeStats | None, second: NodeStats, seconds: float) -> "NodeInterval":
        """Compares two moments of a node that are so many seconds apart; None: before it began."""
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
        # Of fused nodes the first alone knows the workers' time.
        workers = second.seconds - one.seconds or seconds * second.threads

        running, runnable, waiting = _split(one, second)

        def change(name: str) -> Any:
            return getattr(second, name) - getattr(one, name)

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
            padding=_padding(second) - _padding(one),
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
        name: The flow's.
        seconds: How far they are apart.
        requests: Requests that have ended between them, by outcome.
        latency: How long those lasted that were not cancelled.
        in_flight: Requests under way at the second moment.
        unread: Results that nobody had taken then, by output.
        unread_bound: Of one session, at which its sender waits.
        nodes: In topological order.
    """

    name: str
    seconds: float
    requests: Mapping[str, int]
    latency: Histogram
    in_flight: int
    unread: Mapping[str, int]
    unread_bound: int
    nodes: tuple[NodeInterval, ...]

    @classmethod
    def between(cls, first: FlowStats | None, second: FlowStats) -> "Interval":
        """Compares two moments of a flow; None: before it began."""
        one = first or FlowStats(time=second.time - second.seconds)
        seconds = second.time - one.time
        return cls(
            name=second.name,
            seconds=seconds,
            requests=_less(second.requests, one.requests),
            latency=second.latency - one.latency,
            in_flight=second.in_flight,
            unread=second.unread,
            unread_bound=second.unread_bound,
            nodes=tuple(
                NodeInterval.between(one.get(name), node, seconds) for name, node in second.items()
            ),
        )

    @property
    def names(self) -> frozenset[str]:
        """The names of its nodes."""
        return frozenset(node.node for node in self.nodes)

    @property
    def requests_per_second(self) -> float:
        """Requests that have ended, however."""
        return sum(self.requests.values()) / self.seconds if self.seconds > 0 else 0.0


def _split(one: NodeStats, second: NodeStats) -> tuple[float, float, float]:
    """Returns the shares of running, runnable and waiting in the calls on a node's own threads.

    A thread that rests is neither on a processor nor runnable: what is left of its time when these
    and its rests are taken away, it has waited in a unit.
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


def _padding(node: NodeStats) -> int:
    return int(node.figures.get("batching", {}).get("padding", 0))


def _replicas(one: NodeStats, second: NodeStats) -> dict[str, int]:
    now, before = (dict(node.figures.get("replicas", {})) for node in (second, one))
    return {**now, "lost": now["lost"] - before.get("lost", 0)} if now else {}


def _less(later: Mapping[str, int], earlier: Mapping[str, int]) -> dict[str, int]:
    return {name: left for name, count in later.items() if (left := count - earlier.get(name, 0))}
