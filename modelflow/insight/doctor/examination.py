"""The examination of a running flow: an observation, then experiments that separate the causes.

An observation shows where rows wait, and seldom why. For the node with the greatest load, larger
batches and more threads are tried. For bounds outside of nodes, the bound is tried. The cause is
the one whose change gains. If none gains, the way in which the calls wait tells the cause.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from modelflow.insight.doctor.bounds import BOUNDS
from modelflow.insight.doctor.case import Case, StageCase
from modelflow.insight.doctor.diagnosis import AT_WORK, Diagnosis, diagnose
from modelflow.insight.doctor.experiments import WORTH, Experiment, Laboratory
from modelflow.insight.doctor.finding import Cause, Confidence, Finding
from modelflow.insight.doctor.limits import (
    find_stage_limit,
    one_at_a_time,
    one_stream,
    processors,
    python_code,
)
from modelflow.profile.process import LockProbe
from modelflow.profile.snapshot import Snapshot
from modelflow.runtime.stages.executors.process_unit import explain_immobility
from modelflow.signals import Undisturbed

if TYPE_CHECKING:
    from modelflow.flow import Flow
    from modelflow.plan import StagePlan

# The causes whose figures are exact. An experiment would show nothing more.
_COUNTED = frozenset(
    {
        Cause.ERRORS,
        Cause.UNREAD_RESULTS,
        Cause.FOREIGN_LOAD,
        Cause.TRANSFER,
        Cause.GARBAGE_COLLECTION,
        Cause.PADDING,
        Cause.UNEVEN_SHAPES,
        Cause.COPIES,
        Cause.ONE_STREAM,
        Cause.FRONT_END,
    }
)
# The faults with which a flow has another limit all the same.
_FAULTS = frozenset({Cause.BATCH_TIMEOUT})
# The factors by which batches, threads and bounds grow from step to step.
_LARGER = 4
_MOST_ROWS = 64
_MOST_THREADS = 32
_STEPS = 4
# A batch may be the limit if the calls have this share of its rows.
_FULL = 0.8
# Below this share of a processor the engine's threads take no part in the limit.
_MUCH_ENGINE = 0.5


@dataclass
class Examination:
    """An examination of a running flow under load.

    Attributes:
        flow: The flow, without other users.
        wait: Waits for so many seconds, and returns True if the load or the user has ended.
        seconds: The length of the observation.
        is_driven: Whether the sender sends as fast as the flow accepts.
        has_experiments: Whether changes are tried.
        told: Called with each line of the progress.
    """

    flow: "Flow"
    wait: Callable[[float], bool] = field(default_factory=lambda: threading.Event().wait)
    seconds: float = 5.0
    is_driven: bool = False
    has_experiments: bool = True
    told: Callable[[str], None] = lambda _: None

    def run(self, first: Snapshot | None = None) -> tuple[Diagnosis, Case]:
        """Observes the flow, and tries changes.

        Args:
            first: The snapshot from which the observation counts; None for the present.

        Returns:
            The diagnosis, and the observed case.

        Raises:
            FlowFailed: The flow has failed meanwhile.
        """
        before = Snapshot.of_flow(self.flow) if first is None else first
        with Undisturbed(LockProbe()) as probe:
            is_over = self.wait(self.seconds)
        after = Snapshot.of_flow(self.flow)
        after = replace(after, process={**after.process, **probe.figures})
        case = Case.between(before, after, is_driven=self.is_driven)
        found = diagnose(case)
        if is_over or not self.has_experiments or not self._is_open(case, found):
            return found, case
        return self._experiment(case, found), case

    def _is_open(self, case: Case, found: Diagnosis) -> bool:
        """Returns whether experiments can tell more than the figures."""
        stage = case.limiting
        if found.is_idle or stage is None or not case.is_held_back:
            return False
        if any(one.cause in _COUNTED for one in found.findings):
            return False
        return stage.load >= AT_WORK or any(bound(case) for bound in BOUNDS)

    def _experiment(self, case: Case, seen: Diagnosis) -> Diagnosis:
        stage = case.limiting
        assert stage is not None
        laboratory = Laboratory(self.flow, stage.name, self.wait, self.told)
        tried: list[Experiment] = []
        finding = self._try_bounds(case, laboratory, tried)
        if finding is None and stage.load >= AT_WORK:
            finding = self._try_stage(case, stage, seen, laboratory, tried)
        if finding is None and stage.load < AT_WORK:
            finding = _doubt(seen)
        if laboratory.is_over:
            note = "the load ended before the experiments, so the cause is less certain"
            return replace(seen, notes=(*seen.notes, note))
        return replace(
            seen,
            findings=self._merge(seen, finding),
            notes=(*seen.notes, *dict.fromkeys(laboratory.notes)),
            experiments=tuple(map(str, tried)),
        )

    def _merge(self, seen: Diagnosis, finding: Finding | None) -> tuple[Finding, ...]:
        """Returns the faults of the observation, and the limit of the experiments."""
        faults = [one for one in seen.findings if one.cause in _FAULTS]
        if finding is None:
            return tuple(faults)
        return (*(one for one in faults if one.node != finding.node), finding)

    # -- bounds -----------------------------------------------------------------------------------

    def _try_bounds(
        self, case: Case, laboratory: Laboratory, tried: list[Experiment]
    ) -> Finding | None:
        """Returns the first bound whose change gains."""
        for bound in BOUNDS:
            found = bound(case)
            if found is None or not found.change:
                continue
            steps = [found.change, {key: 4 * value for key, value in found.change.items()}]
            done = laboratory.try_steps(found.cause, steps)
            if done is not None:
                tried.append(done)
                if done.is_gain:
                    return _add_gain(found, done)
        return None

    # -- a stage at work --------------------------------------------------------------------------

    def _try_stage(
        self,
        case: Case,
        stage: StageCase,
        seen: Diagnosis,
        laboratory: Laboratory,
        tried: list[Experiment],
    ) -> Finding | None:
        plan = self.flow.scheduler.plan.stages[stage.name]
        alone = one_stream(case, stage)
        if alone is not None:
            return replace(alone, confidence=Confidence.HIGH)
        is_whole = True
        for cause, steps in self._steps(case, stage, plan):
            done = laboratory.try_steps(cause, steps)
            if done is not None:
                tried.append(done)
            elif steps:
                is_whole = False
        best = max((one for one in tried if one.is_gain), key=lambda one: one.gain, default=None)
        if best is not None:
            return _add_gain(self._of_gain(case, stage, best), best)
        if not is_whole:  # the other changes may gain
            return _limit_of(seen)
        waits = [one.lock_wait for one in tried if one.cause is Cause.CAPACITY]
        late = max([case.lock_wait or 0.0, *waits])
        return self._without_gain(replace(case, lock_wait=late), stage, plan)

    def _steps(
        self, case: Case, stage: StageCase, plan: "StagePlan"
    ) -> Iterator[tuple[Cause, list[dict[str, Any]]]]:
        """Yields the changes to try, with the cause that each would show."""
        if stage.first.mean_batch_size >= _FULL * plan.batch_size and not plan.is_one_by_one:
            yield Cause.SMALL_BATCH, list(_larger_batches(plan))
        if not plan.unit.spec.kind.is_plain:
            return
        crowd = stage.threads > case.processors or stage.engine >= _MUCH_ENGINE
        if crowd and stage.threads > 1 and stage.wanted * stage.threads > case.processors:
            fewer = sorted({case.processors, 1} - {stage.threads}, reverse=True)
            for threads in fewer if stage.engine >= _MUCH_ENGINE else fewer[:1]:
                yield Cause.OVERSUBSCRIPTION, [{f"{stage.name}.threads": threads}]
            return
        if processors(case, stage) is None:
            yield Cause.CAPACITY, list(self._more_threads(case, stage))

    def _more_threads(self, case: Case, stage: StageCase) -> Iterator[dict[str, Any]]:
        """Yields steps with more threads for the stage and for stages with the same load."""
        stages = [
            one
            for one in case.equals(stage, WORTH)
            if self.flow.scheduler.plan.stages[one.name].unit.spec.kind.is_plain
        ]
        for step in range(1, _STEPS + 1):
            found = {}
            for one in stages:
                most = case.processors if one.is_computing else _MOST_THREADS
                found[f"{one.name}.threads"] = max(
                    one.threads + 1, min(2**step * one.threads, most)
                )
            yield found
            if all(one.is_computing for one in stages):
                return

    def _of_gain(self, case: Case, stage: StageCase, best: Experiment) -> Finding:
        """Returns the finding whose change has gained."""
        node = stage.first
        if best.cause is Cause.SMALL_BATCH:
            told = f"its batches of {node.batch_size} are full, and larger ones cost less a row"
        elif best.cause is Cause.OVERSUBSCRIPTION:
            told = (
                f"its {stage.threads} threads, and those of its engine, take the "
                f"{case.processors} processors from each other"
            )
        else:
            told = "its threads are always at work, and the others wait for it"
        seen = find_stage_limit(case, stage)
        evidence = seen.evidence if seen is not None and seen.cause is best.cause else ()
        return Finding(
            stage.heaviest.node, best.cause, told, evidence or (f"busy {stage.busy:.0%}",)
        )

    def _without_gain(self, case: Case, stage: StageCase, plan: "StagePlan") -> Finding | None:
        """Returns the cause for a stage that neither larger batches nor more threads help."""
        heavy = self.flow.scheduler.plan.stages[case.busiest_in_python.name]
        is_mobile = heavy.executor == "thread" and heavy.unit.spec.kind.is_plain
        reasons = [explain_immobility(unit) for unit in heavy.units] if is_mobile else [""]
        python = python_code(case, is_mobile=is_mobile and not any(reasons))
        if python is not None:
            told = next(filter(None, reasons), "")
            more = (f"workers=process is not possible: {told}",) if told else ()
            return replace(python, evidence=(*python.evidence, *more), confidence=Confidence.HIGH)
        full = processors(case, stage)
        if full is not None:
            return replace(full, confidence=Confidence.HIGH)
        if not plan.unit.spec.kind.is_plain:
            return replace(
                one_at_a_time(stage),
                sentence=f"it is always at work, and a {plan.unit.spec.kind} unit has one thread",
            )
        return replace(one_at_a_time(stage), confidence=Confidence.HIGH)


def _limit_of(seen: Diagnosis) -> Finding | None:
    return next((one for one in seen.findings if one.cause not in _FAULTS), None)


def _doubt(seen: Diagnosis) -> Finding | None:
    """Returns the limit that the figures show, although its change has gained nothing."""
    found = _limit_of(seen)
    if found is None or not found.change:
        return found
    second = "something else: its change gained nothing when it was tried"
    return replace(found, change={}, gain=None, confidence=Confidence.LOW, second=second)


def _add_gain(finding: Finding, done: Experiment) -> Finding:
    """Returns the finding with the change of an experiment and its gain."""
    return replace(
        finding,
        change=dict(done.change),
        # Threads that take processors from each other do so more at one time than at another.
        gain=done.gain * (0.5 if done.cause is Cause.OVERSUBSCRIPTION else 1.0),
        is_measured=True,
        is_least=done.is_last,
        confidence=Confidence.HIGH,
        evidence=(*finding.evidence, f"tried: {done}"),
        then="",
    )


def _larger_batches(plan: "StagePlan") -> Iterator[dict[str, Any]]:
    most = min(_MOST_ROWS, plan.unit.largest_batch or _MOST_ROWS)
    size = plan.batch_size
    while size < most:
        size = min(_LARGER * size, most)
        found: dict[str, Any] = {f"{plan.name}.batch_size": size}
        if min(plan.bounds, default=2 * size) < 2 * size:
            found[f"{plan.name}.queue_size"] = 2 * size
        yield found
