"""A search for the best settings by simulation, which changes one stage at a time.

Example: 2 processors, 16 clients. Stage ``decode`` computes for 4 ms a row. Stage ``infer`` waits
for its device; its measured calls give ``t(n) = 9 ms + 1 ms n`` for up to 16 rows. The threads of
``decode`` and the batch size of ``infer`` may change. The search simulates these steps::

    decode.threads  infer.batch_size  rate   p99     limit
    1               1                 100/s  160 ms  infer: 1 row in 10 ms
    1               4                 251/s   72 ms  decode: 1 row in 4 ms
    2               4                 308/s   52 ms  infer: 4 rows in 13 ms
    2               8                 474/s   34 ms  infer: 8 rows in 17 ms
    2               16                474/s   34 ms  infer: the other 8 rows are in ``decode``

It changes ``infer`` first, because its load is greater. A batch size of 8 would not help yet, so
the smaller size 4 stays. The second round takes 8, which helps with two threads for ``decode``. A
batch size of 16 gains nothing and is dropped.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from modelflow.insight.tune.cost import StageCost
from modelflow.insight.tune.settings import Settings, StageSettings
from modelflow.insight.tune.simulate import Outcome

_THREADS = (1, 2, 3, 4, 6, 8, 12, 16)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)
_ROUNDS = 4
# Scores that differ by a smaller share count as equal. The smaller settings then win.
_SAME = 0.01
# The loss for which the tuner accepts a smaller change.
_LEAST_LOSS = 0.02
# The simulated latency must be below this share of the bound, because a simulation is not exact.
_MARGIN = 0.9


@dataclass(frozen=True)
class Goal:
    """The goal of a tuning.

    Attributes:
        percent: The percentile of the latency to bound, or to make small.
        bound: The bound of that percentile in seconds; None for no bound.
        rate: Requests a second that arrive, independent of the replies; the goal is then a small
            latency. None if clients wait for replies; the goal is then a high rate.
    """

    percent: float = 99.0
    bound: float | None = None
    rate: float | None = None

    def score(self, rate: float, latency: float, margin: float = 1.0) -> tuple[float, float]:
        """Returns the score of a rate and a latency; a greater score is better.

        The first number is 1 if the demands are met, or a measure of how nearly they are met. The
        second number is the rate, or the inverse of the latency.
        """
        kept = 1.0
        if self.bound is not None and latency > margin * self.bound:
            kept = margin * self.bound / latency
        if self.rate is None:
            return kept, rate
        if rate < 0.97 * self.rate:  # more requests arrive than are answered
            kept = min(kept, rate / self.rate) * 0.97
        return kept, 1.0 / latency if latency > 0 else float("inf")


@dataclass(frozen=True)
class Ranked:
    """Settings with their simulated rate, latency and score."""

    settings: Settings
    rate: float
    latency: float
    score: tuple[float, float]


@dataclass
class Search:
    """A search by simulation, one stage at a time.

    Attributes:
        costs: The cost of each stage.
        free: Stage -> the attributes that may change: ``threads``, ``batch_size``,
            ``batch_timeout_ms``.
        goal: The goal of the tuning.
        simulated: Simulates settings.
        most_threads: The most threads of a stage.
        most_rows: Stage -> the largest batch size that its unit accepts. A size beyond the measured
            ones is a guess, which a trial confirms or refutes.
        lag: The measured latency as a share of the simulated latency.
        is_over: Returns whether the search must end, with the settings found so far.
    """

    costs: Mapping[str, StageCost]
    free: Mapping[str, Collection[str]]
    goal: Goal
    simulated: Callable[[Settings], Outcome]
    most_threads: int
    most_rows: Mapping[str, int]
    lag: float = 1.0
    is_over: Callable[[], bool] = lambda: False
    _known: dict[Settings, Ranked] = field(default_factory=dict)

    def run(self, start: Settings, known: Collection[Settings] = ()) -> list[Ranked]:
        """Returns all simulated settings, the best first; the present settings are among them.

        The search climbs from three starts, because single steps can miss an improvement:

        - the present settings
        - the largest batches with the present threads: threads that compete for the processors slow
          each other down
        - the most threads and the largest batches everywhere: two stages that limit each other gain
          nothing when only one grows, but either can shrink

        Args:
            start: The present settings.
            known: Good settings of an earlier search; if given, the search climbs from them alone.
        """
        deep, wide = (
            start.with_all(self.free, threads, self._enough_rows)
            for threads in (None, self._threads[-1])
        )
        for settings in known or (start, deep, wide):
            self._climb(settings, start)
        return sorted(
            self._known.values(),
            key=lambda one: (one.score, *(-part for part in one.settings.size)),
            reverse=True,
        )

    def reduce(self, settings: Settings, start: Settings) -> Settings:
        """Returns the least change from ``start`` that is nearly as good as some settings.

        Each changed value goes back to its former value, or to the smallest other value between,
        unless the simulation then loses more than `_LEAST_LOSS`.
        """
        enough = self.look_at(settings).score

        def is_enough(other: Settings) -> bool:
            kept, wanted = self.look_at(other).score
            return kept >= enough[0] and wanted >= (1 - _LEAST_LOSS) * enough[1]

        for name, before in start.stages.items():
            for key, values in (
                ("batch_timeout_ms", ()),
                ("batch_size", _BATCHES),
                ("threads", _THREADS),
            ):
                now = settings.stages[name]
                old, new = getattr(before, key), getattr(now, key)
                for value in (old, *(value for value in values if old < value < new)):
                    stage = replace(now, **{key: value})
                    stage = stage.with_batch(stage.batch_size, before.queue_size)
                    if value != new and is_enough(settings.with_stage(name, stage)):
                        settings = settings.with_stage(name, stage)
                        break
        return settings

    def _climb(self, settings: Settings, start: Settings) -> None:
        best = self.look_at(settings)
        for _ in range(_ROUNDS):
            before = best
            # The stages with the greatest load first, because their gain shows at once.
            for name in sorted(self.costs, key=partial(self._load, before.settings), reverse=True):
                for other in self._candidates(name, best.settings.stages[name], start.stages[name]):
                    if self.is_over():
                        return
                    if self._may_be_better(name, other, best):
                        found = self.look_at(best.settings.with_stage(name, other))
                        best = _better(best, found)
            if best.settings == before.settings:
                return

    def look_at(self, settings: Settings) -> Ranked:
        """Returns settings with their simulated rate, latency and score."""
        found = self._known.get(settings)
        if found is None:
            outcome = self.simulated(settings)
            latency = self.lag * outcome.latency.percentile(self.goal.percent)
            score = self.goal.score(outcome.rate, latency, _MARGIN)
            found = self._known[settings] = Ranked(settings, outcome.rate, latency, score)
        return found

    def _may_be_better(self, name: str, stage: StageSettings, best: Ranked) -> bool:
        """Returns whether a stage could keep up with the best rate, if the goal is a high rate."""
        if self.goal.rate is not None or best.score[0] < 1.0:
            return True
        return _capacity(self.costs[name], stage) >= (1 - _SAME) * best.rate

    def _load(self, settings: Settings, name: str) -> float:
        """Returns the share of time that a stage's threads work at one request a second."""
        cost, stage = self.costs[name], settings.stages[name]
        return cost.visits * cost.seconds(stage.batch_size) / stage.batch_size / stage.threads

    @property
    def _threads(self) -> list[int]:
        return [count for count in _THREADS if count <= self.most_threads]

    def _enough_rows(self, name: str) -> int:
        """Returns the batch size from which a row gets no cheaper."""
        return enough_rows(self.costs[name], self.most_rows[name])

    def _candidates(
        self, name: str, present: StageSettings, start: StageSettings
    ) -> list[StageSettings]:
        """Returns the alternatives for the settings of a stage."""
        free = self.free.get(name, ())
        threads, batches = [present.threads], [present.batch_size]
        if "threads" in free:
            threads = self._threads
        if "batch_size" in free:
            batches = [n for n in _BATCHES if n <= self._enough_rows(name)] or batches
        found = [replace(present, threads=count) for count in threads]
        found += [present.with_batch(size, start.queue_size) for size in batches]
        if "batch_timeout_ms" in free and present.batch_timeout_ms:
            found.append(replace(present, batch_timeout_ms=0.0))
        return [one for one in found if one != present]


def enough_rows(cost: StageCost, most: int, seconds: float = float("inf")) -> int:
    """Returns the smallest batch size whose rate is within 5 % of the largest rate.

    Args:
        cost: The cost of the stage.
        most: The largest batch size that its unit accepts.
        seconds: The longest duration of a call, if more than one row is in it.
    """
    sizes = [n for n in _BATCHES if n == 1 or (n <= most and cost.seconds(n) <= seconds)]
    each = {n: cost.seconds(n) / n for n in sizes}
    return next(n for n in sizes if each[n] <= 1.05 * min(each.values()))


def _capacity(cost: StageCost, stage: StageSettings) -> float:
    """Returns the most requests a second of a stage, with its best batch size."""
    sizes = range(1, stage.batch_size + 1)
    seconds = cost.visits * min(cost.seconds(size) / size for size in sizes)
    return min(stage.threads, cost.at_once) / seconds if seconds > 0 else float("inf")


def _better(one: Ranked, other: Ranked) -> Ranked:
    """Returns the better of two settings, or the smaller if their scores are nearly equal."""
    if other.score[0] != one.score[0]:
        return other if other.score[0] > one.score[0] else one
    mine, its = one.score[1], other.score[1]
    if its > mine * (1 + _SAME):
        return other
    if its > mine * (1 - _SAME) and other.settings.size < one.settings.size:
        return other
    return one
