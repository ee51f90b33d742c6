"""One tuning: measure what the stages cost, search by simulation, try the best, compare with now.

The graph runs once; every setting is tried by `Flow.reconfigure`, so that thirty trials take half a
minute. The last word has a comparison under real load: as it was, changed, as it was, changed.
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
# Larger batches than this are measured only where they still bring so much.
_ENOUGH = 8
_BRINGS = 1.1
# How many of the settings that the simulation likes best are tried.
_TRIED = 3
# A gain that is smaller is not worth a change.
_WORTH = 0.03
# What is less than this apart is the same.
_SAME = 0.02
_MOST_THREADS = 16
# Of the time of a stage's threads, from which on other programs have spoilt a trial.
_SPOILT = 0.5


@dataclass(frozen=True)
class Trial:
    """Settings under real load.

    Attributes:
        settings: Which.
        rate: Requests a second that were answered.
        latency: The percentile that is asked for, in seconds.
        report: All of it.
        predicted: What the simulation had said; None: it was not asked.
    """

    settings: Settings
    rate: float
    latency: float
    report: LoadReport
    predicted: Ranked | None = None


@dataclass(frozen=True)
class TuneReport:
    """What a tuning has found.

    Attributes:
        goal: What was wanted.
        processors: How many there are.
        costs: What each stage costs.
        before: The settings as they were: the trials of the comparison.
        after: The best ones, likewise; of no better ones were found: none.
        tried: All that were tried under real load, in that order.
        changes: What makes ``after`` of ``before``, as ``--set`` takes it; empty: nothing is
            better.
        notes: What makes the figures doubtful, and what could not be varied.
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
        """How much higher the rate is (or lower the latency, where the rate is given), as a share.

        Of the better trials of the comparison; 0 where nothing is better.
        """
        if not self.after:
            return 0.0
        before, after = (_score(self.goal, trials) for trials in (self.before, self.after))
        return after / before - 1.0 if before > 0 else 0.0


@dataclass
class Tuning:
    """A tuning of one running flow; when it ends the flow has its former settings again.

    Attributes:
        flow: It runs, and nobody else uses it.
        rows: What is sent, in turns: for each input of the graph its value.
        goal: What is wanted.
        clients: How many wait for answers, where the goal gives no rate.
        seconds: How long each trial lasts.
        fixed: What stays as it is: ``node.threads``, or ``node`` for all of it.
        told: Is told what happens, a line each.
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
        """Has `run` end at once, from another thread."""
        self._is_over.set()
        if self._load is not None:
            self._load.stop()

    def run(self) -> TuneReport:
        """Does all of it.

        Raises:
            FlowFailed, StreamClosed: the flow ended meanwhile.
            TuningError: requests are not answered well, or `stop` was called.
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
        """Returns the best; of such that are as good as the same, the smallest."""
        scores = {id(one): self.goal.score(one.rate, one.latency) for one in trials}
        kept, wanted = max(scores.values())
        near = [
            one
            for one in trials
            if scores[id(one)][0] >= kept and scores[id(one)][1] >= (1 - _SAME) * wanted
        ]
        return min(near, key=lambda one: one.settings.size)

    # -- what may change --------------------------------------------------------------------------

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
        """Measures all stages at once, with every size of batch, and with more threads."""
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
        """Sends some requests and counts what each stage was given for them."""
        before = self.flow.stats()
        options = LoadOptions(clients=8, seconds=min(1.0, self.seconds), warm_up=0.0)
        report = self._load_flow(options)
        after = self.flow.stats()
        # Those that ended behind the time are waited for as well: all that was sent has passed.
        ended = sum(after.requests.values()) - sum(before.requests.values())
        if not ended or not report.ok:
            raise TuningError(
                f"of {ended} requests none was answered well ({dict(report.outcomes)})"
            )
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
        """Returns settings that are the same for every stage, as far as they may change."""
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
        """Loads the flow with some settings, and looks at it meanwhile."""
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
        self._check()  # behind: who stops it from now on finds the load
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
        if min(kept) < 1.0:  # never settings that break what is demanded
            return False
        if min(kept_before) < 1.0:
            return True
        return _score(goal, after) > (1 + _WORTH) * _score(goal, before)


def _score(goal: Goal, trials: Sequence[Trial]) -> float:
    """Returns what is wanted of the better trial: a rate, or the inverse of a latency.

    What disturbs a trial from outside only makes it worse.
    """
    return max(goal.score(one.rate, one.latency)[1] for one in trials)


def _gains(case: Case, size: int) -> bool:
    """Tells whether some stage still does more a second with batches of this size."""
    for stage in case.stages:
        line, calls = stage.service_time, stage.first.calls
        if size in calls and line is None:
            return True  # only whole batches were seen
        if line is not None and line.rate(size) > _BRINGS * line.rate(size / 2):
            return True
    return False


def _free_of(stage: StagePlan) -> frozenset[str]:
    """Returns what of a stage may change while it runs, and in the file by itself."""
    spec = stage.unit.spec
    if len(stage.units) > 1 or not spec.kind.is_plain:
        return frozenset()
    found = {"batch_size", "batch_timeout_ms"}
    if not spec.is_sink:
        found.add("threads")
    return frozenset(found)


def _most_rows(stage: StagePlan) -> int:
    """Returns the largest batch that a stage's unit takes."""
    allowed, most = stage.unit.allowed_batch_sizes, stage.unit.spec.max_batch_size
    return min(_SWEEP[-1], allowed[-1] if allowed else most or _SWEEP[-1])


def _different(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Leaves out settings that a stage has changed in which cannot matter: as good, and larger."""
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
