"""The steps of a tuning: measure the costs, search by simulation, try the best under load.

The graph runs once. Every setting is tried by `Flow.reconfigure`; thirty trials take half a minute.
A comparison under real load decides at the end: present, changed, present, changed settings.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from modelflow.errors import TuningError
from modelflow.insight.doctor.case import Case
from modelflow.insight.load.flow_target import FlowTarget
from modelflow.insight.load.load import Load
from modelflow.insight.load.options import LoadOptions
from modelflow.insight.load.report import LoadReport
from modelflow.insight.tune.cost import StageCost, costs_of
from modelflow.insight.tune.search import Goal, Ranked, Search
from modelflow.insight.tune.settings import Settings
from modelflow.insight.tune.simulate import Outcome, simulate
from modelflow.plan import StagePlan
from modelflow.profile.snapshot import Snapshot

if TYPE_CHECKING:
    from modelflow.flow import Flow


_SWEEP = (1, 2, 4, 8, 16, 32, 64)
_SETTLING = 0.2
# Larger batch sizes than this are measured only while they still raise the rate by this factor.
_ENOUGH = 8
_BRINGS = 1.1
# Number of the best simulated settings that are tried under load.
_TRIED = 3
# A change needs at least this gain.
_WORTH = 0.03
# Scores that differ by a smaller share count as equal.
_SAME = 0.02
_MOST_THREADS = 16
# Processors used by other programs above which the trials are in doubt.
_SPOILT = 0.5


@dataclass(frozen=True)
class Trial:
    """A trial of settings under real load.

    Attributes:
        settings: The settings.
        rate: Successful replies a second.
        latency: The percentile of the goal, in seconds.
        report: The whole report of the load test.
        predicted: The simulated result; None without a simulation.
    """

    settings: Settings
    rate: float
    latency: float
    report: LoadReport
    predicted: Ranked | None = None


@dataclass(frozen=True)
class TuneReport:
    """The result of a tuning.

    Attributes:
        goal: The goal of the tuning.
        processors: Number of processors.
        costs: The cost of each stage.
        before: The trials of the present settings in the comparison.
        after: The trials of the best settings in the comparison. Empty if none are better.
        tried: All trials under real load, in their order.
        changes: The changes from ``before`` to ``after``, as for ``--set``. Empty if none are
            better.
        notes: Reasons to doubt the result, and stages that could not be varied.
    """

    goal: Goal
    processors: int
    costs: Mapping[str, StageCost]
    before: tuple[Trial, ...]
    after: tuple[Trial, ...]
    tried: tuple[Trial, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def gain(self) -> float:
        """The growth of the rate, or of the inverse latency if the rate is given, as a share.

        The better trials of the comparison count. 0 if nothing is better.
        """
        if not self.after:
            return 0.0
        before, after = (_score(self.goal, trials) for trials in (self.before, self.after))
        return after / before - 1.0 if before > 0 else 0.0


@dataclass
class Tuning:
    """A tuning of a running flow; at its end the flow has its former settings again.

    Attributes:
        flow: A running flow without other users.
        rows: The rows to send, in a cycle. Each has a value for each input of the graph.
        goal: The goal of the tuning.
        clients: Number of clients, if the goal has no rate.
        seconds: Duration of each trial.
        fixed: Settings that must not change: ``node.threads``, or ``node`` for all of its settings.
        told: Called with each line of the progress.
    """

    flow: "Flow"
    rows: Sequence[Mapping[str, Any]]
    goal: Goal
    clients: int = 32
    seconds: float = 1.5
    fixed: frozenset[str] = frozenset()
    told: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self._load: Load | None = None
        self._is_over = threading.Event()
        self._tried: list[Trial] = []
        self._notes: dict[str, None] = {}
        self._start = self._now = Settings.of(self.flow.scheduler.plan)
        self._foreign = 0.0

    def stop(self) -> None:
        """Ends `run` as soon as possible; callable from another thread."""
        self._is_over.set()
        if self._load is not None:
            self._load.stop()

    def run(self) -> TuneReport:
        """Runs all steps of the tuning.

        Raises:
            FlowFailed, StreamClosed: The flow ended during the tuning.
            TuningError: No request succeeded, or `stop` was called.
        """
        try:
            report = self._run()
        except Exception:
            if self.flow.is_running:
                self._go_to(self._start)
            raise
        self._go_to(self._start)
        return report

    def _run(self) -> TuneReport:
        free = self._free()
        self.told("measuring what each node costs")
        costs = self._costs(free)
        self.told("simulating settings")
        processors = int(Snapshot.of_flow(self.flow).machine["processors"])
        most_threads = min(_MOST_THREADS, 8 * processors)
        rate = self.goal.rate
        clients = self.clients if rate is None else None

        def simulate_settings(settings: Settings) -> Outcome:
            return simulate(costs, settings, processors, clients=clients, rate=rate)

        ranked = Search(costs, free, self.goal, simulate_settings, most_threads).run(self._start)
        present = next(one for one in ranked if one.settings == self._start)
        best = [one for one in ranked if one.score >= present.score and one is not present]
        best = _different(best)[:_TRIED]
        self.told(f"trying the present settings and the best {len(best)} of {len(ranked)}")
        trials = [self._trial(one.settings, one) for one in [present, *best]]
        chosen = self._choose(trials)
        winner = chosen.settings
        before: list[Trial] = []
        after: list[Trial] = []
        if winner != self._start:
            self.told("comparing: as it is, changed, as it is, changed")
            for _ in range(2):
                before.append(self._trial(self._start, present))
                after.append(self._trial(winner, chosen.predicted))
        if self._foreign > _SPOILT:
            text = f"other programs used up to {self._foreign:.1f} processors during the trials"
            self._notes[text] = None
        is_better = bool(after) and self._is_better(before, after)
        return TuneReport(
            self.goal,
            processors,
            costs,
            tuple(before) or tuple(one for one in trials if one.settings == self._start),
            tuple(after) if is_better else (),
            tuple(self._tried),
            self._start.changes_to(winner) if is_better else {},
            tuple(self._notes),
        )

    def _choose(self, trials: Sequence[Trial]) -> Trial:
        """Returns the best trial; among equally good trials, the smallest settings."""
        scores = {id(one): self.goal.score(one.rate, one.latency) for one in trials}
        kept, wanted = max(scores.values())
        near = [
            one
            for one in trials
            if scores[id(one)][0] >= kept and scores[id(one)][1] >= (1 - _SAME) * wanted
        ]
        return min(near, key=lambda one: one.settings.size)

    # -- settings that may change -----------------------------------------------------------------

    def _free(self) -> dict[str, frozenset[str]]:
        found = {}
        for name, stage in self.flow.scheduler.plan.stages.items():
            free = _free_of(stage) - {
                key for key in ("threads", "batch_size") if f"{name}.{key}" in self.fixed
            }
            if name in self.fixed:
                free = frozenset()
            if len(stage.units) > 1:
                note = f"{' + '.join(stage.nodes)} run as one stage, which stays as it is"
                self._notes[note] = None
            found[name] = free
        return found

    # -- measuring --------------------------------------------------------------------------------

    def _costs(self, free: Mapping[str, frozenset[str]]) -> dict[str, StageCost]:
        """Measures all stages together, with every batch size, and then with two threads."""
        visits = self._visits()
        sweep: dict[int, Case] = {}
        brief = min(0.5, self.seconds)
        sizes = self._sizes(free)
        for size in sizes:
            settings = self._all(free, threads=1, batch_size=size)
            sweep[size], _ = self._observe(settings, brief, 3 * size + 8)
            if size >= _ENOUGH and not _gains(sweep[size], size):
                break
        middle = list(sweep)[len(sweep) // 2]
        several = self._all(free, threads=2, batch_size=middle)
        together, _ = self._observe(several, brief, 3 * middle + 8)
        return costs_of(sweep, sweep[middle], together, visits)

    def _visits(self) -> dict[str, float]:
        """Counts the rows that each stage receives for a request, with some requests."""
        before = self.flow.stats()
        options = LoadOptions(clients=8, seconds=min(1.0, self.seconds), warm_up=0.0)
        report = self._load_flow(options)
        after = self.flow.stats()
        # Late requests are awaited as well, so every request that was sent has passed.
        ended = sum(after.requests.values()) - sum(before.requests.values())
        if not ended or not report.ok:
            raise TuningError(f"none of {ended} requests succeeded ({dict(report.outcomes)})")
        stages = self.flow.scheduler.plan.stages
        return {name: (after[name].buffers - before[name].buffers) / ended for name in stages}

    def _sizes(self, free: Mapping[str, frozenset[str]]) -> list[int]:
        stages = self.flow.scheduler.plan.stages
        rows = (_most_rows(stages[name]) for name, keys in free.items() if "batch_size" in keys)
        most = max(rows, default=1)
        return [size for size in _SWEEP if size <= most] or [1]

    def _all(
        self, free: Mapping[str, frozenset[str]], *, threads: int, batch_size: int
    ) -> Settings:
        """Returns settings that are equal for all stages, as far as the stages may change."""
        plan, start = self.flow.scheduler.plan.stages, self._start.stages
        at_once = {name: replace(stage, batch_timeout_ms=0.0) for name, stage in start.items()}
        return Settings(at_once).with_all(
            free, threads, lambda name: min(batch_size, _most_rows(plan[name]))
        )

    def _trial(self, settings: Settings, predicted: Ranked | None) -> Trial:
        case, report = self._observe(settings, self.seconds, None)
        latency = report.latency.percentile(self.goal.percent)
        trial = Trial(settings, report.rate, latency, report, predicted)
        self._tried.append(trial)
        self._foreign = max(self._foreign, case.foreign or 0.0)
        self.told(
            f"  {report.rate:.1f}/s, p{self.goal.percent:g} {latency * 1e3:.1f} ms: "
            f"{self._start.name_changes(settings)}"
        )
        return trial

    def _observe(
        self, settings: Settings, seconds: float, clients: int | None
    ) -> tuple[Case, LoadReport]:
        """Loads the flow with some settings, and compares snapshots from the start and end."""
        self._check()
        self._go_to(settings)
        rate = self.goal.rate if clients is None else None
        seen: list[Snapshot] = []
        waiting = None if rate is not None else clients or self.clients
        options = LoadOptions(rate=rate, clients=waiting, seconds=seconds, warm_up=_SETTLING)
        report = self._load_flow(options, lambda: seen.append(Snapshot.of_flow(self.flow)))
        return Case.between(*seen, is_driven=True), report

    def _load_flow(
        self, options: LoadOptions, marked: Callable[[], None] | None = None
    ) -> LoadReport:
        self._load = Load(FlowTarget(self.flow, self.rows), options, marked=marked)
        self._check()  # after `_load` is set: a later `stop` stops the load, an earlier one is seen
        report = self._load.run()
        self._check()
        return report

    def _check(self) -> None:
        if self._is_over.is_set():
            raise TuningError("the tuning was stopped")

    def _go_to(self, settings: Settings) -> None:
        changes = self._now.changes_to(settings)
        if changes:
            self.flow.reconfigure(changes)
        self._now = settings

    def _is_better(self, before: Sequence[Trial], after: Sequence[Trial]) -> bool:
        goal = self.goal
        kept = [goal.score(one.rate, one.latency)[0] for one in after]
        kept_before = [goal.score(one.rate, one.latency)[0] for one in before]
        if min(kept) < 1.0:  # settings that miss the bound are never better
            return False
        if min(kept_before) < 1.0:
            return True
        return _score(goal, after) > (1 + _WORTH) * _score(goal, before)


def _score(goal: Goal, trials: Sequence[Trial]) -> float:
    """Returns the rate, or the inverse of the latency, of the better trial.

    Outside disturbances only make a trial worse.
    """
    return max(goal.score(one.rate, one.latency)[1] for one in trials)


def _gains(case: Case, size: int) -> bool:
    """Returns whether a stage still gains rate with batches of this size."""
    for stage in case.stages:
        line, calls = stage.service_time, stage.first.calls
        if size in calls and line is None:
            return True  # only full batches were measured
        if line is not None and line.rate(size) > _BRINGS * line.rate(size / 2):
            return True
    return False


def _free_of(stage: StagePlan) -> frozenset[str]:
    """Returns the settings of a stage that may change at run time and in the graph file."""
    spec = stage.unit.spec
    if len(stage.units) > 1 or not spec.kind.is_plain:
        return frozenset()
    found = {"batch_size", "batch_timeout_ms"}
    if not spec.is_sink:
        found.add("threads")
    return frozenset(found)


def _most_rows(stage: StagePlan) -> int:
    """Returns the largest batch size that a stage's unit accepts."""
    allowed, most = stage.unit.allowed_batch_sizes, stage.unit.spec.max_batch_size
    return min(_SWEEP[-1], allowed[-1] if allowed else most or _SWEEP[-1])


def _different(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Returns the settings, without entries that behave like an earlier entry in the simulation."""
    found: list[Ranked] = []
    for one in ranked:
        is_new = all(
            abs(one.rate - other.rate) > 0.005 * other.rate
            or abs(one.latency - other.latency) > 0.02 * other.latency
            for other in found
        )
        if is_new:
            found.append(one)
    return found
