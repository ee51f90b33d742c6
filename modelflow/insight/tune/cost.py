"""The cost of a stage, measured in the running graph at several batch sizes and threads.

All nodes get the same batch size, 1, 2, 4 and so on, each for a short time under full load. The
duration of the calls gives the table ``t(n)`` of each stage. A second measurement has two threads a
stage. Calls that wait much longer with two threads wait for the interpreter lock.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from modelflow.insight.doctor.case import Case
from modelflow.insight.doctor.service_time import ServiceTime

_LEAST_CALLS = 3
# Above this error the table is used instead of the line, because devices compute in steps.
_MUCH_OFF = 0.15
# An increase of the waiting share by this much, with more threads, shows waiting for a lock.
_MUCH_MORE = 0.2


@dataclass(frozen=True)
class StageCost:
    """The cost of a stage's calls.

    Attributes:
        name: The name of the stage.
        visits: Number of rows that the stage receives for each request.
        table: Rows of a call -> mean seconds of the call without contention.
        computing: Share of that time for which the call, or an engine for it, wants processors.
        processors: Number of processors that the call wants during that share.
        is_locked: Whether the calls hold the interpreter lock, when one thread at a time computes.
        spread: Quantiles 50, 90 and 99 % of a call's duration, relative to the mean. They are
            drawn for 80, 18 and 2 % of the calls, and scaled for a mean of 1.
    """

    name: str
    visits: float
    table: Mapping[int, float]
    computing: float = 0.0
    processors: float = 1.0
    is_locked: bool = False
    spread: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def seconds(self, rows: int) -> float:
        """Returns the duration of a call with this many rows.

        The line through the table is used if its error is small. Else the next larger entry counts.
        Beyond the last entry, the duration grows in proportion to the rows.
        """
        line = ServiceTime.of({size: (_LEAST_CALLS, _LEAST_CALLS * t) for size, t in self._known})
        if line is not None and line.error <= _MUCH_OFF:
            return line.seconds(rows)
        sizes = [size for size, _ in self._known]
        if not sizes:
            return 0.0
        place = bisect_left(sizes, rows)
        if place == len(sizes):
            last, seconds = self._known[-1]
            return seconds * rows / last
        # A step may lie between two entries. The upper entry is the safe choice.
        return self._known[place][1]

    @property
    def _known(self) -> list[tuple[int, float]]:
        return sorted(self.table.items())


def costs_of(
    sweep: Mapping[int, Case], alone: Case, together: Case, visits: Mapping[str, float]
) -> dict[str, StageCost]:
    """Returns the cost of each stage.

    Args:
        sweep: Batch size -> the measurement with that batch size.
        alone: The measurement with one thread a stage.
        together: The measurement with several threads a stage.
        visits: Stage -> number of rows that the stage receives for each request.
    """
    found = {}
    for name in [stage.name for stage in alone.stages]:
        table: dict[int, float] = {}
        for size, case in sweep.items():
            stage = next(one for one in case.stages if one.name == name)
            for rows_of_call, (count, seconds) in stage.calls.items():
                is_whole = count >= _LEAST_CALLS and rows_of_call
                if is_whole and (rows_of_call == size or rows_of_call not in table):
                    # Without the time for which other threads had the processors. The simulation
                    # adds that time.
                    alone_part = 1.0 - stage.first.runnable
                    table[rows_of_call] = seconds / count * alone_part
        one = next(stage for stage in alone.stages if stage.name == name)
        more = next(stage for stage in together.stages if stage.name == name)
        first = one.first
        found[name] = StageCost(
            name,
            visits=visits[name],
            table=table,
            computing=one.computing,
            processors=max(1.0, one.wanted / one.computing) if one.computing else 1.0,
            is_locked=more.first.waiting - first.waiting > _MUCH_MORE and first.running > 0.2,
            spread=_spread(first.service.mean, [first.service.percentile(p) for p in (50, 90, 99)])
            if first.service.count
            else (1.0, 1.0, 1.0),
        )
    return found


def _spread(mean: float, quantiles: list[float]) -> tuple[float, float, float]:
    if mean <= 0:
        return (1.0, 1.0, 1.0)
    # Drawn for 80, 18 and 2 % of the calls, whose total then equals the measured total.
    drawn = sum(
        part * quantile for part, quantile in zip((0.8, 0.18, 0.02), quantiles, strict=True)
    )
    median, nine, last = (quantile / drawn for quantile in quantiles)
    return median, nine, last
