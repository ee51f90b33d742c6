"""The diagnosis: from two snapshots of a flow to its limit and the suggested changes."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from modelflow.insight.doctor.case import Case, StageCase
from modelflow.insight.doctor.faults import FAULTS
from modelflow.insight.doctor.finding import Finding
from modelflow.insight.doctor.limits import LIMITS, processors, slow_input

_AT_WORK = 0.75
# A stage that starves for a smaller share of the time has enough input.
_NEVER = 0.05
_MUCH_WAITING = 0.3
# Little's law: requests in flight = rate x latency. A larger relative error than this shows that
# the load changed between the snapshots.
_NOT_STATIONARY = 0.2
_LEAST_REQUESTS = 50


@dataclass(frozen=True)
class Diagnosis:
    """The result of the doctor for a flow.

    Attributes:
        findings: The problems that were found: first faults of nodes, then the limit of the rate.
            Empty if the doctor found none.
        headroom: The growth of the rate until the busiest node limits it, as a share of the rate
            now. None if it is unknown, or if the flow is at a limit already.
        busiest: The busiest node, or ``""`` if the flow has none.
        notes: Reasons to doubt the measurement.
    """

    findings: tuple[Finding, ...]
    headroom: float | None
    busiest: str
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Returns the diagnosis as a dict of JSON values."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """A sentence for a flow without findings."""
        if self.headroom is not None:
            busiest = f"{self.busiest} is the busiest node, and could do {self.headroom:.0%} more"
            return f"nothing is wrong: {busiest}"
        if self.busiest:
            return f"{self.busiest} is always at work, and nothing is known that would help it"
        return "nothing is wrong"


def diagnose(case: Case) -> Diagnosis:
    """Runs all rules: first the faults of single nodes, then the limits of the flow."""
    stage = case.limiting
    is_idle = stage is None or stage.load < _AT_WORK
    found = [finding for rule in FAULTS for finding in rule(case)]
    if stage is None or is_idle:
        limit = None if found else _of_idle(case)
    else:
        limit = next((one for rule in LIMITS if (one := rule(case, stage)) is not None), None)
    if limit is not None and all(finding.node != limit.node for finding in found):
        found.append(limit)
    headroom = None
    if is_idle and stage is not None and stage.load > 0:
        headroom = 1.0 / stage.load - 1.0
    return Diagnosis(
        tuple(found),
        headroom,
        "" if stage is None else stage.heaviest.node,
        (*(_riddles(stage) if limit is None and not is_idle else ()), *_notes(case)),
    )


def _of_idle(case: Case) -> Finding | None:
    """Returns the limit of a flow in which no stage is at full load."""
    stages = [stage for stage in case.stages if not stage.is_source]
    if all(stage.first.starved >= _NEVER for stage in stages):
        return slow_input(case)
    return processors(case, min(stages, key=lambda stage: stage.first.starved))


def _riddles(stage: StageCase | None) -> Iterator[str]:
    """Yields a note on a stage that is always at work for no known reason."""
    if stage is not None and stage.first.waiting >= _MUCH_WAITING:
        yield (
            f"{stage.heaviest.node} is at work {stage.occupied:.0%} of the time, and its calls "
            f"spend {stage.first.waiting:.0%} of their time waiting. They may wait for the "
            "interpreter lock, for memory, or for an external call"
        )


def _notes(case: Case) -> list[str]:
    interval, found = case.interval, []
    if interval.seconds < 1.0:
        found.append(f"only {interval.seconds:.2g} s were seen, which says little")
    if not any(node.rows_per_second for node in interval.nodes):
        found.append("no row has passed meanwhile")
    ended = sum(interval.requests.values())
    mean = interval.latency.mean if interval.latency.count else 0.0
    inside = interval.requests_per_second * mean
    if ended >= _LEAST_REQUESTS and interval.in_flight >= 5:
        off = abs(inside - interval.in_flight) / interval.in_flight
        if off > _NOT_STATIONARY:
            found.append(
                f"the load changed meanwhile: {interval.in_flight} requests are in flight, but "
                f"their rate and latency give {inside:.0f}"
            )
    if case.foreign is not None and case.foreign > 0.25 * case.processors:
        found.append(
            f"other programs used {case.foreign:.1f} of {case.processors} processors meanwhile"
        )
    return found
