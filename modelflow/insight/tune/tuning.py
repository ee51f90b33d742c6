"""The steps of a tuning: measure the costs, then search by simulation and try under load.

The graph runs once. Every setting is tried by `Flow.reconfigure`. Each trial corrects the costs,
and the search runs again, until it proposes nothing better. A comparison under real load decides at
the end: present, changed, present, changed settings.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from modelflow.insight.doctor.case import Case
from modelflow.insight.load.report import LoadReport, Sample
from modelflow.insight.load.target import Outcome as Ended
from modelflow.insight.tune.cost import StageCost
from modelflow.insight.tune.loaded_flow import LoadedFlow
from modelflow.insight.tune.measuring import Measuring
from modelflow.insight.tune.search import Goal, Ranked, Search
from modelflow.insight.tune.settings import Settings
from modelflow.insight.tune.simulate import Outcome, simulate
from modelflow.plan import StagePlan
from modelflow.profile.snapshot import Snapshot

if TYPE_CHECKING:
    from modelflow.flow import Flow


MOST_TRIALS = 8
"""The most settings that are tried under load, the present settings included."""

# The share of the bound that a trial must keep, because the next trial may be slower.
_MARGIN = 0.95
# Settings to try, although the simulation promises no gain.
_EXPLORED = 4
_MOST_ROWS = 64
_MOST_THREADS = 16
# A change needs at least this gain, and so does a further trial.
_WORTH = 0.03
# The share of the best score for which the smaller change is chosen.
_ENOUGH = 0.97
# A larger difference between simulation and trial corrects the cost of the stage that limited.
_MUCH_OFF = 0.2
# The share of the processors above which they limit the rate.
_FULL = 0.85
# The most by which one trial corrects a cost.
_MOST_SCALED = 4.0
# The most rounds of the final comparison, each with a trial of both settings.
_ROUNDS = 2
# The most seconds of a search. The stages that limit come first.
_SEARCH = 4.0
# The seconds of a trial beside its load, until a trial was measured.
_BESIDE = 0.5
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
        predicted: The simulated result.
    """

    settings: Settings
    rate: float
    latency: float
    report: LoadReport
    predicted: Ranked


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
        nearest: The trial that came nearest to the demands of the goal, if no trial met them. None
            if a trial met them.
    """

    goal: Goal
    processors: int
    costs: Mapping[str, StageCost]
    before: tuple[Trial, ...]
    after: tuple[Trial, ...]
    tried: tuple[Trial, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    nearest: Trial | None = None

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
        limit: Seconds for the whole tuning. Fewer settings are tried if the time is short.
    """

    flow: "Flow"
    rows: Sequence[Mapping[str, Any]]
    goal: Goal
    clients: int = 32
    seconds: float = 1.5
    fixed: frozenset[str] = frozenset()
    told: Callable[[str], None] = lambda _: None
    limit: float = 90.0

    def __post_init__(self) -> None:
        self._load = LoadedFlow(self.flow, self.rows, self.limit)
        self._tried: list[Trial] = []
        self._notes: dict[str, None] = {}
        self._start = self._load.settings
        self._costs: dict[str, StageCost] = {}
        self._cases: list[Case] = []  # of the trials
        self._known: dict[Settings, None] = {}  # the best settings so far, by trial and simulation
        self._lag = 1.0  # the usual latency as a share of the simulated latency
        self._foreign = 0.0
        self._longest = self.seconds + _BESIDE

    def stop(self) -> None:
        """Ends `run` as soon as possible; callable from another thread."""
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
                self._load.go_to(self._start)
            raise
        self._load.go_to(self._start)
        return report

    def _run(self) -> TuneReport:
        self._processors = int(Snapshot.of_flow(self.flow).machine["processors"])
        self._measured = Measuring(
            self._load,
            self._free(),
            {name: _most_rows(stage) for name, stage in self.flow.scheduler.plan.stages.items()},
            min(_MOST_THREADS, 8 * self._processors),
            self.seconds,
            self.told,
        )
        self._measured.run()
        self._refit()
        self._trial(self._start)
        while len(self._tried) < MOST_TRIALS and not self._is_late:
            wanted = self._propose()
            if wanted is None:
                break
            self._trial(wanted)
        return self._conclude(self._choose(self._tried))

    # -- trials -----------------------------------------------------------------------------------

    def _propose(self) -> Settings | None:
        """Returns the settings to try next, or None if no better settings are expected."""
        search = self._search()
        tried = {trial.settings for trial in self._tried}
        best = self._best(self._tried)
        base = search.look_at(best.settings).score
        kept = self._score_of(best)[0]
        base = (1.0 if kept >= 1.0 else min(kept, base[0]), base[1])
        found = search.run(self._start, self._known)
        self._known = {best.settings: None, found[0].settings: None}
        ranked = [one for one in found if one.settings not in tried]
        if ranked and _is_gain(ranked[0].score, base):
            least = search.reduce(ranked[0].settings, self._start)
            return ranked[0].settings if least in tried else least
        if self.goal.rate is None:
            # A measurement was better than every trial, and no simulation explains it.
            settings, rate = max(self._measured.rates, key=lambda one: one[1])
            if settings not in tried and _is_gain((1.0, rate), (1.0, best.rate)):
                return settings
        least = search.reduce(best.settings, self._start)
        if least not in tried:
            return least
        # No simulation is exact, so settings that are as good in the simulation are tried as well.
        if len(tried) < _EXPLORED and ranked and ranked[0].score >= (base[0], _ENOUGH * base[1]):
            return ranked[0].settings
        return None

    def _search(self) -> Search:
        until = self._load.seconds_left - _SEARCH
        measured = self._measured
        return Search(
            self._costs,
            measured.free,
            self.goal,
            partial(self._simulate, self._costs),
            measured.most_threads,
            measured.most_rows,
            self._lag,
            lambda: self._is_late or self._load.seconds_left < until,
        )

    def _simulate(self, costs: Mapping[str, StageCost], settings: Settings) -> Outcome:
        rate = self.goal.rate
        clients = self.clients if rate is None else None
        return simulate(costs, settings, self._processors, clients=clients, rate=rate)

    def _refit(self) -> None:
        """Updates the costs by all measurements, and corrects them by each trial."""
        costs = self._measured.costs
        for trial, case in zip(self._tried, self._cases, strict=True):
            rate = self._simulate(costs, trial.settings).rate
            for name, factor in scales_of(case, rate, trial.rate).items():
                costs[name] = costs[name].scale(factor)
        self._costs = costs
        lags = []
        for trial in self._tried:
            found = self._simulate(costs, trial.settings).latency.percentile(self.goal.percent)
            if found > 0 and trial.latency > 0:
                lags.append(trial.latency / found)
        self._lag = statistics.median(lags) if lags else 1.0

    def _trial(self, settings: Settings, name: str = "") -> None:
        """Tries settings, and corrects the costs by the result."""
        name = name or f"trial {len(self._tried) + 1} of at most {MOST_TRIALS}"
        changes = self._start.name_changes(settings)
        self.told(f"{name} (at most {self._load.seconds_left:.0f} s left): {changes}")
        predicted, left = self._search().look_at(settings), self._load.seconds_left
        clients = self.clients if self.goal.rate is None else None
        case, report = self._load.observe(
            settings, self.seconds, clients=clients, rate=self.goal.rate
        )
        self._longest = max(self._longest, left - self._load.seconds_left)
        latency = latency_of(report, self.goal.percent)
        self._tried.append(Trial(settings, report.rate, latency, report, predicted))
        self._foreign = max(self._foreign, case.foreign or 0.0)
        self.told(
            f"  {report.rate:.1f}/s, p{self.goal.percent:g} {latency * 1e3:.1f} ms; predicted "
            f"{predicted.rate:.1f}/s"
        )
        self._measured.cases.append(case)
        self._cases.append(case)
        self._refit()

    @property
    def _is_late(self) -> bool:
        """Whether the time is needed for the final comparison, or for a single trial."""
        trials = 2 * _ROUNDS + 1 if len(self._tried) > 1 else 1
        return self._load.seconds_left < trials * self._longest

    def _score_of(self, trial: Trial, margin: float = _MARGIN) -> tuple[float, float]:
        return self.goal.score(trial.rate, trial.latency, margin)

    def _best(self, trials: Sequence[Trial]) -> Trial:
        return max(trials, key=self._score_of)

    def _choose(self, trials: Sequence[Trial]) -> Trial:
        """Returns the trial with the least change that is nearly as good as the best."""
        kept, wanted = self._score_of(self._best(trials))
        near = [one for one in trials if self._score_of(one) >= (kept, _ENOUGH * wanted)]
        return min(
            near, key=lambda one: (len(self._start.changes_to(one.settings)), one.settings.size)
        )

    def _conclude(self, chosen: Trial) -> TuneReport:
        """Compares the chosen settings with the present settings, and returns the report."""
        first, winner = self._tried[0], chosen.settings
        before, after = [first], [chosen]
        if winner == self._start:
            after = []
        elif rounds := max(0, min(_ROUNDS, int(self._load.seconds_left / (2 * self._longest)))):
            compared = len(self._tried)
            for number in range(2 * rounds):
                settings = winner if number % 2 else self._start
                self._trial(settings, f"comparison {number + 1} of {2 * rounds}")
            before, after = self._tried[compared::2], self._tried[compared + 1 :: 2]
        is_better = bool(after) and self._is_better(before, after)
        best = self._best(self._tried)
        # Of the settings that come nearest to the goal, the worse trial counts.
        settled = max(
            (min(one, key=self._score_of) for one in (before, after) if one), key=self._score_of
        )
        is_met = self._score_of(settled, 1.0)[0] >= 1.0
        if self.goal.bound is not None and first.latency > self.goal.bound:
            self._notes[
                f"the present settings break the bound: p{self.goal.percent:g} is "
                f"{first.latency * 1e3:.1f} ms"
            ] = None
        rate = self._simulate(self._costs, best.settings).rate
        if best.rate and abs(rate / best.rate - 1.0) > _MUCH_OFF:
            self._notes[
                f"the simulation gives {rate:.0f}/s for the best settings, where {best.rate:.0f}/s "
                "were measured; there may be better settings"
            ] = None
        if self._foreign > _SPOILT:
            text = f"other programs used up to {self._foreign:.1f} processors during the trials"
            self._notes[text] = None
        return TuneReport(
            self.goal,
            self._processors,
            self._costs,
            tuple(before),
            tuple(after) if is_better else (),
            tuple(self._tried),
            self._start.changes_to(winner) if is_better else {},
            tuple(self._notes),
            None if is_met else settled,
        )

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


def latency_of(report: LoadReport, percent: float) -> float:
    """Returns a percentile of the latency, in which a time-out counts as the time of its request.

    Requests that fail at once, or that are never answered, would otherwise look fast.

    Args:
        report: The load test.
        percent: The percentile.
    """
    late = report.outcomes.get(Ended.TIMED_OUT, 0) or int(not report.ok)
    if not late:
        return report.latency.percentile(percent)
    return Sample([*report.latency.seconds, *late * [report.options.timeout]]).percentile(percent)


def scales_of(case: Case, predicted: float, measured: float) -> dict[str, float]:
    """Returns the corrections of costs, by stage, if the simulation of a trial was much off.

    The calls of the stage that limited the trial take longer, or shorter, in proportion. If the
    processors limited the trial, the calls of all stages that compute do.

    Args:
        case: The trial.
        predicted: The simulated replies a second, with all that is known from the trial.
        measured: The measured replies a second.
    """
    if not measured or not predicted or abs(predicted / measured - 1.0) <= _MUCH_OFF:
        return {}
    factor = min(_MOST_SCALED, max(1.0 / _MOST_SCALED, predicted / measured))
    names = [max(case.stages, key=lambda stage: stage.occupied).name]
    if case.used > _FULL * case.processors:
        names = [stage.name for stage in case.stages if stage.is_computing] or names
    return dict.fromkeys(names, factor)


def _is_gain(score: tuple[float, float], base: tuple[float, float]) -> bool:
    """Returns whether a score is worth a trial, compared with the best score so far."""
    if base[0] < 1.0:
        return score[0] >= 1.0 or score[0] > (1 + _WORTH) * base[0]
    return score[0] >= 1.0 and score[1] > (1 + _WORTH) * base[1]


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
    return min(_MOST_ROWS, stage.unit.largest_batch or _MOST_ROWS)
