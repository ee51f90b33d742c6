"""The input of the doctor: a flow between two snapshots, with the load of its machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from modelflow.insight.doctor.service_time import ServiceTime
from modelflow.profile.interval import Interval, NodeInterval
from modelflow.profile.snapshot import Snapshot

# The mean time of a batch size is used only if the size had at least this many calls.
_LEAST_CALLS = 5
# The share of the time for which a source waits for room, above which the flow holds it back.
_HELD = 0.05
# The share of the time at the limit of ``max_in_flight`` above which the limit counts.
_FULL = 0.5
_BUSY = 0.85
_MOST_OF_ONE = 0.5
# The share of the processors above which other processes use much.
_MUCH_FOREIGN = 0.25
# The mark of a stream unit in the plan's column ``unit``.
_STREAM = "(stream)"


@dataclass(frozen=True)
class StageCase:
    """A stage between two snapshots: one node, or several fused nodes on the same threads.

    Attributes:
        nodes: The nodes of the stage, in the order in which rows pass them.
        is_source: Whether the stage produces rows and has no input.
        is_stream: Whether its unit keeps state for each stream. The rows of a stream then run one
            after the other.
        engine: Number of processors that an engine's own threads used for the calls of this stage.
            An estimate: the total of all engine threads, divided among the stages in proportion to
            their waiting time in calls.
        lanes: The number of calls that can run at once. One for each thread; in a stream unit one
            for each stream that is under way, if these are fewer.
        device: The device on which the stage runs, as named in the plan.
        feeds: The nodes that the stage feeds.
    """

    nodes: tuple[NodeInterval, ...]
    is_source: bool
    is_stream: bool
    engine: float
    lanes: int
    device: str
    feeds: tuple[str, ...]

    @property
    def first(self) -> NodeInterval:
        """The first node; the stage has its name, queue, threads and idle times."""
        return self.nodes[0]

    @property
    def name(self) -> str:
        """The name of the first node, whose attributes are the attributes of the stage."""
        return self.first.node

    @cached_property
    def busy(self) -> float:
        """The share of the time in calls of all nodes of the stage, for the calls that can run."""
        return min(1.0, sum(node.busy for node in self.nodes) * self.threads / self.lanes)

    @property
    def occupied(self) -> float:
        """The share of the time that is not idle; includes time in the runtime."""
        first = self.first
        rests = first.starved + first.blocked + first.order
        if not rests and not first.running + first.runnable + first.waiting:
            return self.busy  # it runs on the threads of its callers, whose rests are unknown
        at_work = 1.0 - rests
        return min(1.0, max(self.busy, at_work * self.threads / self.lanes))

    @cached_property
    def load(self) -> float:
        """`occupied`, divided by the speed that larger batches would give.

        A stage with small batches and a short queue has spare capacity although it is busy.
        Example: the stage is at work all the time, with 3 of at most 32 rows a call. Calls with
        6 rows took half the time per row. Its load is then 0.5, because larger batches would
        double its rate.
        """
        node = self.first
        if node.queue >= node.batch_size / 4 or node.mean_batch_size > node.batch_size / 2:
            return self.occupied
        calls = self.calls
        rows = sum(size * count for size, (count, _) in calls.items())
        seconds = sum(seconds for _, seconds in calls.values())
        rates = [
            size * count / own
            for size, (count, own) in calls.items()
            if size > node.mean_batch_size and count >= _LEAST_CALLS and own > 0
        ]
        faster = max(rates, default=0.0) * seconds / rows if rows else 1.0
        return self.occupied / max(1.0, faster)

    @property
    def is_computing(self) -> bool:
        """Whether the calls want a processor for more than half of their time."""
        return self.computing > 0.5

    @property
    def computing(self) -> float:
        """The share of the time in calls for which the thread or an engine wanted a processor."""
        first, at_work = self.first, self.busy * self.threads
        by_engine = min(first.waiting, self.engine / at_work) if at_work > 0 else 0.0
        return min(1.0, first.running + first.runnable + by_engine)

    @property
    def wanted(self) -> float:
        """The number of processors that a call wants; an engine may use several."""
        at_work = self.busy * self.threads
        by_engine = self.engine / at_work if at_work > 0 else 0.0
        return max(self.computing, self.first.running + self.first.runnable + by_engine)

    @property
    def cores(self) -> float:
        """The number of processors that the stage's own threads used on average in calls."""
        return self.first.running * self.busy * self.threads

    @property
    def heaviest(self) -> NodeInterval:
        """The node whose calls took the most time."""
        return max(self.nodes, key=lambda node: node.busy)

    @property
    def threads(self) -> int:
        """The number of worker threads."""
        return self.first.threads

    @cached_property
    def service_time(self) -> ServiceTime | None:
        """The duration of a call by its number of rows, or None if too few sizes were seen."""
        return ServiceTime.of(self.calls)

    @cached_property
    def calls(self) -> Mapping[int, tuple[int, float]]:
        """Number of rows -> (number of calls with that many rows, seconds in all nodes)."""
        added: dict[int, tuple[int, float]] = {}
        for size, (count, seconds) in self.first.calls.items():
            others = sum(node.calls.get(size, (0, 0.0))[1] for node in self.nodes[1:])
            added[size] = (count, seconds + others)
        return added


@dataclass(frozen=True)
class Case:
    """A flow between two snapshots.

    Attributes:
        interval: The statistics of the time between the snapshots.
        stages: The statistics of each stage, in topological order.
        processors: Number of processors that the process may use.
        cores: Number of processors that the process and its children used on average; None if
            unknown.
        foreign: Number of processors that other processes used on average; None if unknown.
        collecting: The share of the time in Python's garbage collections. Of several processes the
            mean counts, as for the next three.
        front_end: Of a server: the share of the time for which its HTTP thread used a processor.
        front_end_runnable: The share of the time for which this thread waited for a processor.
        full: The share of the time for which ``max_in_flight`` rows were inside the graph.
        max_in_flight: This limit; 0 without one.
        lock_wait: Seconds for which a thread waits for the interpreter lock; None if not measured.
        lock_wait_p75: The 75th percentile of the same wait.
        has_lock: Whether the interpreter has a lock; see `modelflow.device.interpreter`.
        is_driven: Whether the sender sends as fast as the flow accepts. An idle flow is then
            short of input, and not merely without requests.
    """

    interval: Interval
    stages: tuple[StageCase, ...]
    processors: int
    cores: float | None = None
    foreign: float | None = None
    collecting: float = 0.0
    front_end: float | None = None
    front_end_runnable: float = 0.0
    full: float = 0.0
    max_in_flight: int = 0
    lock_wait: float | None = None
    lock_wait_p75: float | None = None
    has_lock: bool = True
    is_driven: bool = False

    @classmethod
    def between(
        cls, first: Snapshot | None, second: Snapshot, *, is_driven: bool = False
    ) -> "Case":
        """Compares two snapshots.

        Args:
            first: The earlier snapshot. None stands for the start of the flow; the use of the
                processors is then unknown.
            second: The later snapshot.
            is_driven: See the attribute of the same name.
        """
        interval = Interval.between(None if first is None else first.stats, second.stats)
        before: Mapping[str, float] = {} if first is None else first.process

        def rate(name: str) -> float | None:
            return _rate(name, before, second.process, interval.seconds)

        used, machine = rate("processor_seconds"), rate("machine_busy_seconds")
        if used is not None:
            used += max(0.0, rate("children_seconds") or 0.0)
        foreign = None if used is None or machine is None else max(0.0, machine - used)
        admission, front = second.stats.admission, rate("front_end_seconds")
        threads = max(1.0, second.process.get("front_ends", 1.0))
        earlier = {} if first is None else first.stats.admission
        full = _rate("full", {"full": 0.0, **earlier}, admission, interval.seconds)
        processes = max(1.0, second.process.get("processes", 1.0))
        return cls(
            interval=interval,
            stages=_stages(interval, second.plan, rate("native_seconds") or 0.0),
            processors=int(second.machine.get("processors", 1)),
            cores=used,
            foreign=foreign,
            collecting=(rate("collection_seconds") or 0.0) / processes,
            front_end=None if front is None else front / threads,
            front_end_runnable=(rate("front_end_runnable_seconds") or 0.0) / threads,
            full=(full or 0.0) / processes,
            max_in_flight=int(admission.get("bound", 0) / processes),
            lock_wait=second.process.get("lock_wait_seconds"),
            lock_wait_p75=second.process.get("lock_wait_p75_seconds"),
            has_lock=bool(second.machine.get("interpreter_lock", True)),
            is_driven=is_driven,
        )

    @property
    def has_passed(self) -> bool:
        """Whether rows have passed between the snapshots."""
        return any(node.rows_per_second for node in self.interval.nodes)

    @property
    def is_held_back(self) -> bool:
        """Whether sources or senders would bring more rows, if the flow took more.

        Sources and senders that never wait are the limit themselves: the flow keeps up with them.
        Without sources, rows that wait longer than a call lasts show the same.
        """
        if self.is_driven or self.full >= _FULL or self.is_front_end_busy:
            return True
        sources = [stage for stage in self.stages if stage.is_source]
        if sources:
            return any(stage.first.blocked >= _HELD for stage in sources)
        return any(
            stage.occupied >= _BUSY
            and stage.first.wait.count > 0
            and stage.first.wait.percentile(50) >= 0.5 * stage.first.service.percentile(50)
            for stage in self.stages
        )

    @property
    def is_front_end_busy(self) -> bool:
        """Whether a server's HTTP thread leaves the nodes too little time, or has none itself."""
        share = self.front_end or 0.0
        is_most = share >= _MOST_OF_ONE and (self.cores or 0.0) >= _BUSY
        return is_most or share + self.front_end_runnable >= _BUSY

    @property
    def used(self) -> float:
        """The number of processors that the flow and other processes used, as far as known."""
        return (self.cores or 0.0) + (self.foreign or 0.0)

    @property
    def has_foreign_load(self) -> bool:
        """Whether other processes use much of the machine."""
        return self.foreign is not None and self.foreign >= _MUCH_FOREIGN * self.processors

    @cached_property
    def busiest_in_python(self) -> StageCase:
        """The stage whose own threads use processors the most. The flow has a stage."""
        return max(self.stages, key=lambda stage: stage.cores)

    @property
    def rate(self) -> float:
        """The rows a second that enter the last stage; 0 if the flow has no stage."""
        return self.stages[-1].first.rows_per_second if self.stages else 0.0

    @cached_property
    def limiting(self) -> StageCase | None:
        """The stage with the greatest load, without the sources."""
        stages = [stage for stage in self.stages if not stage.is_source]
        return max(stages, key=lambda stage: stage.load, default=None)

    def equals(self, stage: StageCase, share: float) -> list[StageCase]:
        """Returns the stage, and all stages that would limit a rate higher by this share."""
        return [
            one
            for one in self.stages
            if one is stage or (not one.is_source and one.load * (1 + share) > stage.load)
        ]

    def next_limit(self, stage: StageCase, besides: Sequence[StageCase] = ()) -> tuple[float, str]:
        """Returns the factor by which the rate may grow, and the name of the next limit.

        Args:
            stage: The stage that limits the rate now.
            besides: Stages to ignore, because they get more capacity as well.
        """
        limits = [
            (stage.load / other.load, f"{other.name} (busy {other.busy:.0%})")
            for other in self.stages
            if other is not stage and other not in besides and other.load > 0.01
        ]
        if self.cores and stage.is_computing:
            free = self.processors - (self.foreign or 0.0)
            limits.append((max(1.0, free / self.cores), f"the {self.processors} processors"))
        return min(limits, default=(float("inf"), ""))


def _rate(
    name: str, before: Mapping[str, float], after: Mapping[str, float], seconds: float
) -> float | None:
    if name not in before or name not in after or seconds <= 0:
        return None
    return (after[name] - before[name]) / seconds


def _stages(
    interval: Interval, plan: tuple[Mapping[str, Any], ...], native: float
) -> tuple[StageCase, ...]:
    rows = {row["node"]: row for row in plan}
    streams = interval.in_flight + sum(row["queue"] == "-" for row in plan)
    found: dict[str, list[NodeInterval]] = {}
    for node in interval.nodes:
        found.setdefault(node.stage, []).append(node)
    waits = {
        name: nodes[0].waiting * min(1.0, sum(node.busy for node in nodes)) * nodes[0].threads
        for name, nodes in found.items()
    }
    waiting = sum(waits.values())
    return tuple(
        StageCase(
            nodes=tuple(nodes),
            is_source=rows[name]["queue"] == "-",
            is_stream=_is_stream(rows[name]),
            engine=native * waits[name] / waiting if waiting > 0 else 0.0,
            lanes=_lanes(nodes, streams if _is_stream(rows[name]) else nodes[0].threads),
            device=rows[name]["device"],
            feeds=tuple(rows[nodes[-1].node]["feeds"].split(", ")),
        )
        for name, nodes in found.items()
    )


def _is_stream(row: Mapping[str, Any]) -> bool:
    return bool(row.get("unit", "").endswith(_STREAM))


def _lanes(nodes: Sequence[NodeInterval], streams: int) -> int:
    """Returns how many calls of a stage can run at once.

    Behind an expand there are more streams than sessions. The threads at work show that.
    """
    threads = nodes[0].threads
    at_work = sum(node.busy for node in nodes) * threads
    return threads if at_work > streams + 0.2 else max(1, min(threads, streams))
