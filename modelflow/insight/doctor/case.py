"""What the doctor looks at: a flow between two moments, with the machine around it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from modelflow.insight.doctor.service_time import ServiceTime
from modelflow.profile.interval import Interval, NodeInterval
from modelflow.profile.snapshot import Snapshot

# Calls of one size from which on their time says something.
_LEAST_CALLS = 5
# How the plan tells of a unit's kind.
_STREAM = "(stream)"


@dataclass(frozen=True)
class StageCase:
    """A stage between the two moments: a node, or several on the same threads.

    Attributes:
        nodes: Its nodes, in the order of the data.
        is_source: It produces rows, and is given none.
        is_stream: Its unit keeps state of each stream, whose rows go one after the other.
        engine: Processors that an engine's own threads used for its calls: the part of all such
            threads' that its waiting is of all waiting in calls.
        device: Where it runs, as the plan names it.
        feeds: The nodes behind it.
    """

    nodes: tuple[NodeInterval, ...]
    is_source: bool
    is_stream: bool
    engine: float
    device: str
    feeds: tuple[str, ...]

    @property
    def first(self) -> NodeInterval:
        """The node that the stage is named after, which has its queue, threads and rests."""
        return self.nodes[0]

    @property
    def name(self) -> str:
        """The name of its first node, whose attributes are the stage's."""
        return self.first.node

    @cached_property
    def busy(self) -> float:
        """The share of its threads' time that all its nodes took."""
        return min(1.0, sum(node.busy for node in self.nodes))

    @property
    def occupied(self) -> float:
        """The share of its threads' time in which they did not rest; some is the runtime's own."""
        first = self.first
        return max(self.busy, 1.0 - first.starved - first.blocked - first.order)

    @cached_property
    def load(self) -> float:
        """`occupied` as a share of what it can do: more rows would often only fill its batches.

        A stage that is at work all the time, with 3 rows a call where it may have 32 and none that
        wait, does twice as much when twice as much comes, if calls with 6 rows and more have been
        twice as fast a row.
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
        """Tells whether its calls want a processor for most of the time, rather than wait."""
        return self.computing > 0.5

    @property
    def computing(self) -> float:
        """The share of the time in calls that they, or an engine for them, wanted processors."""
        first, at_work = self.first, self.busy * self.threads
        by_engine = min(first.waiting, self.engine / at_work) if at_work > 0 else 0.0
        return min(1.0, first.running + first.runnable + by_engine)

    @property
    def wanted(self) -> float:
        """Processors that one of its calls wants while it lasts: an engine may take several."""
        at_work = self.busy * self.threads
        by_engine = self.engine / at_work if at_work > 0 else 0.0
        return max(self.computing, self.first.running + self.first.runnable + by_engine)

    @property
    def cores(self) -> float:
        """How many processors its own threads used on average while they were in calls."""
        return self.first.running * self.busy * self.threads

    @property
    def heaviest(self) -> NodeInterval:
        """The node that took the most of it."""
        return max(self.nodes, key=lambda node: node.busy)

    @property
    def threads(self) -> int:
        """Its workers."""
        return self.first.threads

    @cached_property
    def service_time(self) -> ServiceTime | None:
        """How long its calls take by their rows; None: too few sizes were seen."""
        return ServiceTime.of(self.calls)

    @cached_property
    def calls(self) -> Mapping[int, tuple[int, float]]:
        """Rows of a call -> how many had so many, and the seconds that all its nodes took."""
        added: dict[int, tuple[int, float]] = {}
        for size, (count, seconds) in self.first.calls.items():
            others = sum(node.calls.get(size, (0, 0.0))[1] for node in self.nodes[1:])
            added[size] = (count, seconds + others)
        return added


@dataclass(frozen=True)
class Case:
    """A flow between two moments.

    Attributes:
        interval: Its figures.
        stages: The same by stage, in topological order.
        inputs: The graph's own inputs have been used: the nodes that they feed are no sources.
        processors: How many the process may use.
        cores: How many it used on average; None: unknown.
        foreign: How many others used; None: unknown.
        lock_wait: Seconds for which a thread that wants the interpreter waits for it; None: nobody
            has measured.
        lock_wait_p75: The same of the quarter that waits longest, at the least.
        is_driven: Who sends gives as much as is taken: a flow with nothing to do then has too
            little to work on, and is not only at rest.
    """

    interval: Interval
    stages: tuple[StageCase, ...]
    processors: int
    cores: float | None = None
    foreign: float | None = None
    lock_wait: float | None = None
    lock_wait_p75: float | None = None
    is_driven: bool = False

    @classmethod
    def between(
        cls, first: Snapshot | None, second: Snapshot, *, is_driven: bool = False
    ) -> "Case":
        """Compares two moments.

        Args:
            first: The earlier one; None: the beginning of the flow, of whose process and machine
                nothing is known then.
            second: The later one.
            is_driven: See the attribute.
        """
        interval = Interval.between(None if first is None else first.stats, second.stats)
        before: Mapping[str, float] = {} if first is None else first.process
        used = _rate("processor_seconds", before, second.process, interval.seconds)
        machine = _rate("machine_busy_seconds", before, second.process, interval.seconds)
        native = _rate("native_seconds", before, second.process, interval.seconds)
        foreign = None if used is None or machine is None else max(0.0, machine - used)
        return cls(
            interval=interval,
            stages=_stages(interval, second.plan, native or 0.0),
            processors=int(second.machine.get("processors", 1)),
            cores=used,
            foreign=foreign,
            lock_wait=second.process.get("lock_wait_seconds"),
            lock_wait_p75=second.process.get("lock_wait_p75_seconds"),
            is_driven=is_driven,
        )

    @property
    def used(self) -> float:
        """Processors that the flow and others used, as far as that is known."""
        return (self.cores or 0.0) + (self.foreign or 0.0)

    @property
    def rate(self) -> float:
        """Rows a second that the last node was given; 0 where there is none."""
        return self.stages[-1].first.rows_per_second if self.stages else 0.0

    @cached_property
    def limiting(self) -> StageCase | None:
        """The stage with the greatest load."""
        stages = [stage for stage in self.stages if not stage.is_source]
        return max(stages, key=lambda stage: stage.load, default=None)

    def equals(self, stage: StageCase, share: float) -> list[StageCase]:
        """Returns it, with those that limit when it does so much more, or earlier."""
        return [
            one
            for one in self.stages
            if one is stage or (not one.is_source and one.load * (1 + share) > stage.load)
        ]

    def next_limit(self, stage: StageCase, besides: Sequence[StageCase] = ()) -> tuple[float, str]:
        """Returns by how much the rate may grow until something else limits, and what that is.

        Args:
            stage: What limits it now.
            besides: What does not count: it will do more as well.
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
            is_stream=rows[name].get("unit", "").endswith(_STREAM),
            engine=native * waits[name] / waiting if waiting > 0 else 0.0,
            device=rows[name]["device"],
            feeds=tuple(rows[nodes[-1].node]["feeds"].split(", ")),
        )
        for name, nodes in found.items()
    )
