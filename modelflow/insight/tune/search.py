"""Looks for settings that the simulation likes best: from the present ones, a stage at a time."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from modelflow.insight.tune.cost import StageCost
from modelflow.insight.tune.settings import Settings, StageSettings
from modelflow.insight.tune.simulate import Outcome

_THREADS = (1, 2, 3, 4, 6, 8, 12, 16)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)
_ROUNDS = 4
# What is less than this apart is the same: the smaller settings are taken.
_SAME = 0.01
# A latency may come so near to its bound: what is simulated is not what will be.
_MARGIN = 0.9


@dataclass(frozen=True)
class Goal:
    """What is wanted.

    Attributes:
        percent: The percentile of the latency that is bounded, or made small.
        bound: Seconds that it may have; None: any.
        rate: Requests a second that come, whatever is answered: a small latency is wanted. None:
            clients wait for their answers, and a high rate is wanted.
    """

    percent: float = 99.0
    bound: float | None = None
    rate: float | None = None

    def score(self, rate: float, latency: float, margin: float = 1.0) -> tuple[float, float]:
        """Returns how good a rate and a latency are: the greater the better.

        First whether what is demanded is kept (or how nearly), then how much of what is wanted.
        """
        kept = 1.0
        if self.bound is not None and latency > margin * self.bound:
            kept = margin * self.bound / latency
        if self.rate is None:
            return kept, rate
        if rate < 0.97 * self.rate:  # more comes than is answered
            kept = min(kept, rate / self.rate) * 0.97
        return kept, 1.0 / latency if latency > 0 else float("inf")


@dataclass(frozen=True)
class Ranked:
    """Settings, with what the simulation says of them."""

    settings: Settings
    rate: float
    latency: float
    score: tuple[float, float]


@dataclass
class Search:
    """One search: by simulation, a stage at a time.

    Attributes:
        costs: Of the stages.
        free: Stage -> what of it may be changed: ``threads``, ``batch_size``, ``batch_timeout_ms``.
        goal: What is wanted.
        simulated: What settings would give.
        most_threads: Of a stage.
    """

    costs: Mapping[str, StageCost]
    free: Mapping[str, Collection[str]]
    goal: Goal
    simulated: Callable[[Settings], Outcome]
    most_threads: int
    _known: dict[Settings, Ranked] = field(default_factory=dict)

    def run(self, start: Settings) -> list[Ranked]:
        """Returns settings, the best first, with the present ones among them.

        It begins with the present ones; with plenty of everything: where two stages hold each other
        up, neither gains by growing alone, but each can do with less; and with large batches alone,
        for where threads take the processors from one another it is they that hold each other up.
        """
        self._climb(start, start)
        for threads in (self._threads[-1], None):
            self._climb(start.with_all(self.free, threads, self._most_rows), start)
        return sorted(
            self._known.values(),
            key=lambda one: (one.score, *(-part for part in one.settings.size)),
            reverse=True,
        )

    def _climb(self, settings: Settings, start: Settings) -> None:
        best = self._look_at(settings)
        for _ in range(_ROUNDS):
            before = best
            # Stages with much to do first: what they gain is seen at once.
            for name in sorted(self.costs, key=partial(self._load, before.settings), reverse=True):
                for other in self._candidates(name, best.settings.stages[name], start.stages[name]):
                    if self._may_be_better(name, other, best):
                        found = self._look_at(best.settings.with_stage(name, other))
                        best = _better(best, found)
            if best.settings == before.settings:
                return

    def _look_at(self, settings: Settings) -> Ranked:
        found = self._known.get(settings)
        if found is None:
            outcome = self.simulated(settings)
            latency = outcome.latency.percentile(self.goal.percent)
            score = self.goal.score(outcome.rate, latency, _MARGIN)
            found = self._known[settings] = Ranked(settings, outcome.rate, latency, score)
        return found

    def _may_be_better(self, name: str, stage: StageSettings, best: Ranked) -> bool:
        """Tells whether a stage could keep up with the best rate so far, if that is wanted."""
        if self.goal.rate is not None or best.score[0] < 1.0:
            return True
        return _capacity(self.costs[name], stage) >= (1 - _SAME) * best.rate

    def _load(self, settings: Settings, name: str) -> float:
        """Returns the share of time that a stage's workers would work at one request a second."""
        cost, stage = self.costs[name], settings.stages[name]
        return cost.visits * cost.seconds(stage.batch_size) / stage.batch_size / stage.threads

    @property
    def _threads(self) -> list[int]:
        return [count for count in _THREADS if count <= self.most_threads]

    def _most_rows(self, name: str) -> int:
        """Returns the largest batch that was seen, or is near to it: more is guesswork."""
        return max((size for size in self.costs[name].table), default=1)

    def _candidates(
        self, name: str, present: StageSettings, start: StageSettings
    ) -> list[StageSettings]:
        """Returns what a stage might be instead."""
        free = self.free.get(name, ())
        threads, batches = [present.threads], [present.batch_size]
        if "threads" in free:
            threads = self._threads
        if "batch_size" in free:
            batches = [n for n in _BATCHES if n <= self._most_rows(name)] or batches
        found = [
            replace(present.with_batch(size, start.queue_size), threads=count)
            for size in batches
            for count in threads
        ]
        if "batch_timeout_ms" in free and present.batch_timeout_ms:
            found.append(replace(present, batch_timeout_ms=0.0))
        return [one for one in found if one != present]


def _capacity(cost: StageCost, stage: StageSettings) -> float:
    """Returns the requests a second that a stage could do with batches as it likes them best."""
    sizes = range(1, stage.batch_size + 1)
    seconds = cost.visits * min(cost.seconds(size) / size for size in sizes)
    return stage.threads / seconds if seconds > 0 else float("inf")


def _better(one: Ranked, other: Ranked) -> Ranked:
    """Returns the better of two; of such that are as good as the same, the smaller."""
    if other.score[0] != one.score[0]:
        return other if other.score[0] > one.score[0] else one
    mine, its = one.score[1], other.score[1]
    if its > mine * (1 + _SAME):
        return other
    if its > mine * (1 - _SAME) and other.settings.size < one.settings.size:
        return other
    return one
