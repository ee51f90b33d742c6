"""The cost of a stage, learned from measurements of the running graph.

Every measurement counts: batches of 1, 2, 4 and so on, more threads for the stage that limits, and
each trial. Calls of a stage with one thread give its table ``t(n)``. Calls with more threads give
the number of calls that run at the same time.

Example: a call on a device takes 10 ms. Two threads that are always at work measure 20 ms a call,
because each waits for the other. So 2 x 10 / 20 = 1 call runs at a time, and threads do not help.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from modelflow.insight.doctor.case import Case, StageCase
from modelflow.insight.doctor.service_time import ServiceTime

INTERPRETER = "interpreter"
"""The name of the lock that Python code holds."""

_SHARED = "shared"
_LEAST_CALLS = 3
# Above this error the table is used instead of the line, because devices compute in steps.
_MUCH_OFF = 0.15
# An increase of the waiting share by this much, with more threads, shows waiting for a lock.
_MUCH_MORE = 0.2
# Calls that take this many times longer than alone have waited for one another.
_STRETCHED = 1.2
# The share of the time for which calls that wait for each other use their device.
_LEAST_SHARED, _MOST_SHARED = 0.8, 1.1
# Calls that want a processor for this share of their time compute.
_COMPUTES = 0.5
# Threads that are at work for this share of the time always find rows that wait.
_AT_WORK = 0.85


@dataclass(frozen=True)
class StageCost:
    """The cost of a stage's calls.

    Attributes:
        name: The name of the stage.
        visits: Number of rows that the stage receives for each request.
        table: Rows of a call -> mean seconds of the call without contention.
        computing: Share of that time for which the call, or an engine for it, wants processors.
        processors: Number of processors that the call wants during that share.
        lock: The lock that every call holds, and that calls of other stages may hold as well. The
            empty text if there is none.
        at_once: Number of calls that progress at the same time, with any number of threads. For a
            device it is 1. Infinite if no limit was seen. Below 1 if others use the same device.
        spread: Quantiles 50, 90 and 99 % of a call's duration, relative to the mean. They are
            drawn for 80, 18 and 2 % of the calls, and scaled for a mean of 1.
    """

    name: str
    visits: float
    table: Mapping[int, float]
    computing: float = 0.0
    processors: float = 1.0
    lock: str = ""
    at_once: float = math.inf
    spread: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def seconds(self, rows: int) -> float:
        """Returns the duration of a call with this many rows.

        The line through the table is used if its error is small. Else the next larger entry counts.
        Beyond the last entry, the duration grows by the slope of the line.
        """
        known = sorted(self.table.items())
        line = ServiceTime.of({size: (_LEAST_CALLS, _LEAST_CALLS * t) for size, t in known})
        if line is not None and line.error <= _MUCH_OFF:
            return line.seconds(rows)
        if not known:
            return 0.0
        place = bisect_left(known, (rows, 0.0))
        if place == len(known):
            last, seconds = known[-1]
            return seconds + (seconds / last if line is None else line.each) * (rows - last)
        # A step may lie between two entries. The upper entry is the safe choice.
        return known[place][1]

    def scale(self, factor: float) -> "StageCost":
        """Returns the cost with calls that take ``factor`` times as long."""
        return replace(self, table={rows: factor * t for rows, t in self.table.items()})


def costs_of(
    cases: Sequence[Case], visits: Mapping[str, float], calm: Case | None = None
) -> dict[str, StageCost]:
    """Returns the cost of each stage.

    Args:
        cases: The measurements under load, at least one.
        visits: Stage -> number of rows that the stage receives for each request.
        calm: A measurement with one request at a time, in which no call waits for another.
    """
    seen: dict[str, list[StageCase]] = {stage.name: [] for stage in cases[0].stages}
    for case in cases:
        for stage in case.stages:
            seen[stage.name].append(stage)
    alone = {} if calm is None else {stage.name: stage for stage in calm.stages}
    costs = {name: _cost(found, visits[name], alone.get(name)) for name, found in seen.items()}
    # Stages that share a device keep the device busy together, and never for longer than the time.
    shared = {name: cost for name, cost in costs.items() if cost.lock == _SHARED}
    work = sum(_work(cost, cases[0]) for cost in shared.values())
    if len(shared) < 2 or not _LEAST_SHARED < work < _MOST_SHARED:
        costs |= {name: replace(cost, lock="") for name, cost in shared.items()}
    return costs


def _work(cost: StageCost, case: Case) -> float:
    """Returns the share of the time that the calls of a stage would have taken alone."""
    stage = next(stage for stage in case.stages if stage.name == cost.name)
    seconds = sum(count * cost.seconds(rows) for rows, (count, _) in stage.calls.items())
    return seconds / case.interval.seconds


def _cost(seen: Sequence[StageCase], visits: float, calm: StageCase | None) -> StageCost:
    fewest = min(stage.threads for stage in seen)
    single = [stage for stage in seen if stage.threads == fewest]
    more = [stage for stage in seen if stage.threads > fewest]
    one = max(single, key=lambda stage: sum(count for count, _ in stage.calls.values()))
    table, is_held = _table(single), False
    alone = {} if calm is None else _table([calm])
    if alone and 1 in table and table[1] > _STRETCHED * alone[1]:
        # With one thread a stage, calls have waited for other stages. The simulation adds that.
        # Waits for processors or for the interpreter show nothing about a device.
        is_held = one.computing < _COMPUTES
        table = {rows: seconds * alone[1] / table[1] for rows, seconds in table.items()}
    first = one.first
    is_python = first.running > 0.2 and any(
        stage.first.waiting - first.waiting > _MUCH_MORE for stage in more
    )
    cost = StageCost(
        one.name,
        visits=visits,
        table=table,
        computing=one.computing,
        processors=max(1.0, one.wanted / one.computing) if one.computing else 1.0,
        lock=INTERPRETER if is_python else _SHARED if is_held else "",
        spread=_spread(first.service.mean, [first.service.percentile(p) for p in (50, 90, 99)])
        if first.service.count
        else (1.0, 1.0, 1.0),
    )
    return replace(cost, at_once=_at_once(cost, more))


def _table(stages: Sequence[StageCase]) -> dict[int, float]:
    """Returns the mean seconds of a call by its rows.

    The time for which other threads had the processors is left out; the simulation adds it.
    """
    counts: Counter[int] = Counter()
    spent: defaultdict[int, float] = defaultdict(float)
    for stage in stages:
        for rows, (count, seconds) in stage.calls.items():
            counts[rows] += count
            spent[rows] += seconds * (1.0 - stage.first.runnable)
    return {
        rows: spent[rows] / count
        for rows, count in sorted(counts.items())
        if rows and count >= _LEAST_CALLS
    }


def _at_once(cost: StageCost, stages: Sequence[StageCase]) -> float:
    """Returns the number of calls that progress at the same time; see `StageCost`.

    Only threads that are always at work show it. Of several measurements, the most threads count.

    The same few threads may pass an unfair lock again and again. Calls of the others then take
    longer than the measurement, and only the time of the threads at work shows their wait.
    """
    for stage in sorted(stages, key=lambda stage: stage.threads, reverse=True):
        expected = sum(count * cost.seconds(rows) for rows, (count, _) in stage.calls.items())
        ended = sum(seconds for _, seconds in stage.calls.values())
        if stage.occupied < _AT_WORK or expected <= 0:
            continue
        at_work, share = stage.busy * stage.threads, 1.0 - stage.first.runnable
        spent = max(ended, at_work * _seconds_of(stage))
        # The calls of all threads at the end have perhaps nearly ended.
        count = sum(count for count, _ in stage.calls.values())
        nearly = expected * (1.0 + stage.threads / count)
        is_limited = max(ended / expected, spent / nearly) * share > _STRETCHED
        return at_work * expected / (spent * share) if is_limited else math.inf
    return math.inf


def _seconds_of(stage: StageCase) -> float:
    """Returns the duration of the measurement of a stage."""
    rows = sum(rows * count for rows, (count, _) in stage.calls.items())
    return rows / stage.first.rows_per_second if stage.first.rows_per_second else 0.0


def _spread(mean: float, quantiles: list[float]) -> tuple[float, float, float]:
    if mean <= 0:
        return (1.0, 1.0, 1.0)
    # Drawn for 80, 18 and 2 % of the calls, whose total then equals the measured total.
    drawn = sum(
        part * quantile for part, quantile in zip((0.8, 0.18, 0.02), quantiles, strict=True)
    )
    median, nine, last = (quantile / drawn for quantile in quantiles)
    return median, nine, last
