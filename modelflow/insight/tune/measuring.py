"""Measurements of a flow that show the cost of each stage, before any setting is judged.

First all stages get one thread and batches of 1, 2, 4 and so on. Behind a slow stage only small
batches arrive. Therefore the stage that limits then gets more threads, step by step, and the next
stage after it. A stage whose threads bring nothing ends the steps, because it limits the flow.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from modelflow.errors import TuningError
from modelflow.insight.doctor.case import Case
from modelflow.insight.load.options import LoadOptions
from modelflow.insight.load.report import LoadReport
from modelflow.insight.tune.cost import StageCost, costs_of
from modelflow.insight.tune.loaded_flow import LoadedFlow
from modelflow.insight.tune.search import enough_rows
from modelflow.insight.tune.settings import Settings

_SWEEP = (1, 2, 4, 8, 16, 32, 64)
_STEPS = 12
# Larger batch sizes than this are measured only while they still raise the rate by this factor.
_ENOUGH = 8
_BRINGS = 1.1
# A measurement lasts this long, or as long as some requests.
_BRIEF, _REQUESTS, _LONGEST = 0.5, 3.0, 3.0
# The longest call, while a stage gets more threads: several must fit into a measurement.
_CALL = 0.1
# Threads that are at work for this share of the time limit the rate.
_AT_WORK = 0.85
# The least and the most clients: enough for full queues, and all are answered in half a second.
_FEWEST, _MOST = 16, 256
# The share of the time for the measurements.
_SHARE = 0.4


@dataclass
class Measuring:
    """The measurements of a flow, and the costs that they show.

    Attributes:
        load: The flow.
        free: Stage -> the attributes that may change.
        most_rows: Stage -> the largest batch size that its unit accepts.
        most_threads: The most threads of a stage.
        seconds: The duration of a trial; no measurement but for slow requests lasts longer.
        told: Called with each line of the progress.
        cases: The measurements under load, the trials included.
        rates: The settings of the measurements, with their replies a second.
    """

    load: LoadedFlow
    free: Mapping[str, Collection[str]]
    most_rows: Mapping[str, int]
    most_threads: int
    seconds: float
    told: Callable[[str], None]
    cases: list[Case] = field(default_factory=list)
    rates: list[tuple[Settings, float]] = field(default_factory=list)

    def run(self) -> None:
        """Makes all measurements.

        Raises:
            FlowFailed, StreamClosed: The flow ended.
            TuningError: No request succeeded, or the tuning was stopped.
        """
        self._start = self.load.settings
        self._say("rows of a request")
        self._until = (1.0 - _SHARE) * self.load.seconds_left
        self._visits, latency = self._count_visits()
        self._brief = min(_LONGEST, max(min(_BRIEF, self.seconds), _REQUESTS * latency))
        slow = self._all(1, dict.fromkeys(self._start.stages, 1))
        self._say("one request at a time")
        self._calm, _ = self.load.observe(slow, self._brief, clients=1)
        self._sweep()
        self._climb()

    @property
    def costs(self) -> dict[str, StageCost]:
        """The cost of each stage, learned from all measurements."""
        return costs_of(self.cases, self._visits, self._calm)

    def _sweep(self) -> None:
        rate = 0.0
        most = max(
            (self.most_rows[n] for n, keys in self.free.items() if "batch_size" in keys), default=1
        )
        for size in _SWEEP:
            # A batch must fill within half of a second, or few calls are seen.
            if size > 1 and (size > most or size > max(2.0, rate / 2) or self._is_late):
                break
            self._say(f"batches of {size}")
            settings = self._all(1, dict.fromkeys(self._start.stages, size))
            case, report = self._observe(settings, 3 * size + 8)
            rate = max(rate, report.rate)
            if size >= _ENOUGH and not _gains(case, size):
                break

    def _climb(self) -> None:
        costs, rate = self.costs, max(rate for _, rate in self.rates)
        rows = {
            name: enough_rows(cost, self.most_rows[name], _CALL) for name, cost in costs.items()
        }
        settings, grown, before = self._all(1, rows), "", 0.0
        for _ in range(_STEPS):
            if self._is_late:
                return
            threads = settings.stages[grown].threads if grown else 1
            self._say(f"{grown} with {threads} threads" if grown else "one thread a node")
            case, report = self._observe(settings, int(min(_MOST, max(_FEWEST, rate / 2))))
            rate = report.rate
            limit = case.limiting
            if limit is None or limit.occupied < _AT_WORK:  # no stage is always at work
                return
            if limit.name == grown and rate < _BRINGS * before:
                return
            threads = settings.stages[limit.name].threads
            if "threads" not in self.free[limit.name] or threads >= self.most_threads:
                return
            grown, before = limit.name, rate
            threads = min(self.most_threads, 2 if threads == 1 else 4 * threads)
            settings = settings.with_stage(grown, replace(settings.stages[grown], threads=threads))

    def _observe(self, settings: Settings, clients: int) -> tuple[Case, LoadReport]:
        case, report = self.load.observe(settings, self._brief, clients=clients)
        self.cases.append(case)
        self.rates.append((settings, report.rate))
        return case, report

    def _all(self, threads: int, rows: Mapping[str, int]) -> Settings:
        """Returns settings with equal threads for all stages, as far as the stages may change."""
        start = self._start.stages
        at_once = {name: replace(stage, batch_timeout_ms=0.0) for name, stage in start.items()}
        return Settings(at_once).with_all(
            self.free, threads, lambda name: min(rows[name], self.most_rows[name])
        )

    def _count_visits(self) -> tuple[dict[str, float], float]:
        """Returns the rows that each stage receives for a request, and the usual latency."""
        flow = self.load.flow
        before = flow.stats()
        options = LoadOptions(clients=8, seconds=min(1.0, self.seconds), warm_up=0.0)
        report = self.load.send(options)
        after = flow.stats()
        # Late requests are awaited as well, so every request that was sent has passed.
        ended = sum(after.requests.values()) - sum(before.requests.values())
        if not report.ok:
            told = ", ".join(f"{count} {name}" for name, count in report.outcomes.items())
            raise TuningError(f"none of {report.count} requests succeeded ({told})")
        # After a time-out, requests that were sent together have not ended for the flow.
        ended = max(ended, report.ok)
        visits = {
            name: (after[name].buffers - before[name].buffers) / ended
            for name in self._start.stages
        }
        return visits, report.latency.percentile(50)

    @property
    def _is_late(self) -> bool:
        return self.load.seconds_left < self._until

    def _say(self, text: str) -> None:
        self.told(f"measuring: {text} (at most {self.load.seconds_left:.0f} s left)")


def _gains(case: Case, size: int) -> bool:
    """Returns whether a stage still gains rate with batches of this size."""
    for stage in case.stages:
        line, calls = stage.service_time, stage.first.calls
        if size in calls and line is None:
            return True  # only full batches were measured
        if line is not None and line.rate(size) > _BRINGS * line.rate(size / 2):
            return True
    return False
