"""What a stage costs: measured in the running graph, at several batch sizes and threads.

All nodes get the same batch size for a moment, 1, 2, 4 and so on, and are loaded with as much as
they take; the time of their calls gives for each the table ``t(n)``. With two threads instead of
one, what waits and does not only wait for its own device has waited for the interpreter.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from modelflow.insight.doctor.case import Case
from modelflow.insight.doctor.service_time import ServiceTime

_LEAST_CALLS = 3
# Beyond, a line through the table says less than the table itself: a device computes in steps.
_MUCH_OFF = 0.15
# So much more waiting with more threads is waiting for a lock.
_MUCH_MORE = 0.2


@dataclass(frozen=True)
class StageCost:
    """What calls of a stage take.

    Attributes:
        name: The stage's.
        visits: Rows that it is given for each request.
        table: Rows of a call -> seconds that it took on average, alone.
        computing: Share of that time in which it, or an engine for it, wants processors.
        processors: How many it wants then.
        is_locked: What it computes only one thread at a time can.
        spread: How much longer than usual calls take: the quantiles 50, 90 and 99 %, so
            scaled that drawn for 80, 18 and 2 % of the calls they make 1 on average.
    """

    name: str
    visits: float
    table: Mapping[int, float]
    computing: float = 0.0
    processors: float = 1.0
    is_locked: bool = False
    spread: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def seconds(self, rows: int) -> float:
        """Returns how long a call with so many rows takes.

        By the line through the table, if that is near; else between its entries, and beyond the
        last one as the line goes on.
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
        # A step lies between two entries: the upper one is on the safe side.
        return self._known[place][1]

    @property
    def _known(self) -> list[tuple[int, float]]:
        return sorted(self.table.items())


def costs_of(
    sweep: Mapping[int, Case], alone: Case, together: Case, visits: Mapping[str, float]
) -> dict[str, StageCost]:
    """Returns what each stage costs.

    Args:
        sweep: Batch size -> what was seen with it.
        alone: What was seen with one thread a stage.
        together: With several.
        visits: Stage -> rows that it is given for each request.
    """
    found = {}
    for name in [stage.name for stage in alone.stages]:
        table: dict[int, float] = {}
        for size, case in sweep.items():
            stage = next(one for one in case.stages if one.name == name)
            for rows_of_call, (count, seconds) in stage.calls.items():
                is_whole = count >= _LEAST_CALLS and rows_of_call
                if is_whole and (rows_of_call == size or rows_of_call not in table):
                    # Without what others took of the processors: that is for the simulation.
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
    # Drawn for 80, 18 and 2 % of the calls, which together last as long as was measured.
    drawn = sum(
        part * quantile for part, quantile in zip((0.8, 0.18, 0.02), quantiles, strict=True)
    )
    median, nine, last = (quantile / drawn for quantile in quantiles)
    return median, nine, last
