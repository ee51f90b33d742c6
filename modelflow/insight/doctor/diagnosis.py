"""The diagnosis: from two snapshots of a flow to its limit and the suggested changes."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from modelflow.insight.doctor.bounds import BOUNDS
from modelflow.insight.doctor.case import Case, StageCase
from modelflow.insight.doctor.faults import FAULTS, WASTES
from modelflow.insight.doctor.finding import Cause, Confidence, Finding
from modelflow.insight.doctor.limits import find_stage_limit, foreign_load, processors, slow_input

AT_WORK = 0.75
"""The load above which a stage may be the limit of the flow."""

# A stage that starves for a smaller share of the time has enough input.
_NEVER = 0.05
_MUCH_WAITING = 0.3
# Figures of fewer seconds say little.
_LEAST_SECONDS = 1.0
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
        is_idle: Whether no row has passed.
        experiments: The tried changes, each with the rate without and with it, as sentences.
    """

    findings: tuple[Finding, ...]
    headroom: float | None
    busiest: str
    notes: tuple[str, ...]
    is_idle: bool = False
    experiments: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Returns the diagnosis as a dict of JSON values."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """A sentence for a flow without findings."""
        if self.is_idle:
            return "idle: no row has passed"
        if self.headroom is not None:
            could = f"could do {self.headroom:.0%} more" if self.headroom >= 0.01 else "is full"
            return f"nothing is wrong: {self.busiest} is the busiest node, and {could}"
        if self.busiest:
            return f"{self.busiest} is always at work, and nothing is known that would help it"
        return "nothing is wrong"


def diagnose(case: Case) -> Diagnosis:
    """Runs all rules: faults of nodes, foreign load, bounds, wasted time, limits.

    A flow that holds nobody back has no limit, however busy its nodes are. Its faults are found
    all the same.
    """
    stage = case.limiting
    found = [finding for rule in FAULTS for finding in rule(case)]
    if not case.has_passed:
        busiest = "" if stage is None else stage.name
        return Diagnosis(tuple(found), None, busiest, _notes(case), is_idle=not found)
    is_unread = any(finding.cause is Cause.UNREAD_RESULTS for finding in found)
    limit = None if is_unread else find_limit(case)
    if limit is not None and case.interval.seconds < _LEAST_SECONDS:
        limit = replace(limit, confidence=Confidence.LOW)
    if limit is not None and all(finding.node != limit.node for finding in found):
        found.append(limit)
    headroom = None
    if limit is None and stage is not None and stage.load > 0:
        headroom = max(0.0, 1.0 / stage.load - 1.0)
        if case.is_held_back and stage.load >= AT_WORK:
            headroom = None
    riddles = () if stage is None or headroom is not None or limit else _riddles(case, stage)
    busiest = "" if stage is None else stage.heaviest.node
    return Diagnosis(tuple(found), headroom, busiest, (*riddles, *_notes(case)))


def find_limit(case: Case) -> Finding | None:
    """Returns the limit of a flow's rate; None if the flow keeps up, or for an unknown limit."""
    stage = case.limiting
    if not case.is_held_back:
        return slow_input(case)
    own = _own_limit(case, stage)
    foreign = foreign_load(case, stage)
    # A server's clients may run on its machine, and leave its HTTP thread a whole processor.
    is_front = own is not None and own.cause is Cause.FRONT_END and case.front_end_runnable < 0.3
    if foreign is not None and not is_front:
        told = "" if own is None else f"{own.cause} of {own.node}; look again on a quiet machine"
        return replace(foreign, second=told)
    if own is not None and case.has_foreign_load:
        return replace(own, confidence=Confidence.LOW)
    return own


def _own_limit(case: Case, stage: StageCase | None) -> Finding | None:
    for bound in BOUNDS:
        if (found := bound(case)) is not None:
            return found
    if stage is None:
        return None
    wastes = [found for waste in WASTES for found in waste(case)]
    if wastes:
        return wastes[0]
    if stage.load >= AT_WORK:
        return find_stage_limit(case, stage)
    fed = min((one for one in case.stages if not one.is_source), key=lambda one: one.first.starved)
    return slow_input(case) if fed.first.starved >= _NEVER else processors(case, fed)


def _riddles(case: Case, stage: StageCase) -> Iterator[str]:
    """Yields a note on a stage that is always at work for no known reason."""
    if stage.first.waiting >= _MUCH_WAITING:
        yield (
            f"{stage.heaviest.node} is at work {stage.occupied:.0%} of the time, and its calls "
            f"spend {stage.first.waiting:.0%} of their time waiting. They may wait for "
            f"{'the interpreter lock, for ' if case.has_lock else ''}memory, or for an external "
            "call"
        )


def _notes(case: Case) -> tuple[str, ...]:
    interval, found = case.interval, []
    if interval.seconds < _LEAST_SECONDS:
        found.append(f"only {interval.seconds:.2g} s were seen, which says little")
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
    if case.has_foreign_load:
        found.append(
            f"other programs used {case.foreign:.1f} of {case.processors} processors meanwhile"
        )
    return tuple(found)
