"""Experiments: a change of a running flow for a moment, and its effect on the rate.

Example: node ``infer`` is always at work, and its calls wait. Only a trial shows whether more
threads help. The rate is measured as it is (170 rows/s), with two threads (171 rows/s), and as it
is again. More threads gain nothing, so its calls wait for something that serves one at a time.

All changes are those of `Flow.reconfigure`, and are taken back.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modelflow.errors import FlowFailed, ModelflowError, StreamClosed
from modelflow.insight.doctor.finding import Cause, format_changes
from modelflow.profile.process import LockProbe
from modelflow.signals import Undisturbed

if TYPE_CHECKING:
    from modelflow.flow import Flow

WORTH = 0.1
"""The least gain of a change that counts."""

# Seconds until queues and threads have adapted, of a measurement, and of the longest measurement.
_SETTLING, _SECONDS, _MOST_SECONDS = 0.3, 1.0, 3.0
# Bursts and slow calls are seldom, and threads that take processors from each other do so more at
# one time than at another. These need a longer measurement.
_SELDOM_SECONDS = 2.0
_SELDOM = (Cause.STRAGGLERS, Cause.SMALL_QUEUE, Cause.OVERSUBSCRIPTION)
# A measurement goes on until the node had this many calls.
_LEAST_CALLS = 16
# A gain below this share is measured twice, and the smaller one counts.
_DOUBTFUL = 0.3
# A smaller change is chosen if it reaches this share of the best rate.
_NEARLY = 0.95


@dataclass(frozen=True)
class Experiment:
    """A tried change.

    Attributes:
        cause: The cause that the change would show, if it gains.
        change: The best of the tried changes.
        before: The measured rates without the change, in rows a second of the measured node.
        after: The measured rates with the change.
        is_last: Whether the change is the strongest one. A stronger change may then gain more.
        lock_wait: The longest median of the waits for the interpreter lock, in seconds, over the
            measurements with changes.
    """

    cause: Cause
    change: Mapping[str, Any]
    before: Sequence[float]
    after: Sequence[float]
    lock_wait: float
    is_last: bool = False

    @property
    def gain(self) -> float:
        """The growth of the rate, as a share: from the best rate before to the worst after."""
        return min(self.after) / max(self.before) - 1.0

    @property
    def is_gain(self) -> bool:
        """Whether the gain is worth the change."""
        return self.gain >= WORTH

    def __str__(self) -> str:
        return (
            f"{format_changes(self.change)}: {max(self.before):.1f} -> {min(self.after):.1f} rows/s"
        )


class Laboratory:
    """Tries changes of a running flow under load."""

    def __init__(
        self,
        flow: "Flow",
        node: str,
        wait: Callable[[float], bool],
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Takes a running flow.

        Args:
            flow: The flow, under steady load, without other users.
            node: The node whose rows are counted.
            wait: Waits for so many seconds, and returns True if the load or the user has ended.
            told: Called with each line of the progress.
        """
        self._flow = flow
        self._node = node
        self._wait = wait
        self._told = told
        self.notes: list[str] = []
        self.is_over = False
        self._lock_waits = [0.0]
        self._seconds = _SECONDS

    def try_steps(self, cause: Cause, steps: Sequence[Mapping[str, Any]]) -> Experiment | None:
        """Tries a change, and stronger ones while they gain.

        Args:
            cause: The cause that the change would show.
            steps: The changes, each stronger than the one before.

        Returns:
            The experiment with the least change that has nearly the best rate. None if nothing
            could be measured.
        """
        self._seconds = _SELDOM_SECONDS if cause in _SELDOM else _SECONDS
        first = 0.0 if not steps or self.is_over else self._rate()
        if not first:
            if steps and not self.is_over:
                self.notes.append(f"no row passed {self._node}, so no change was tried")
            return None
        rates: list[float] = []
        self._lock_waits = [0.0]
        back = self._inverse(key for step in steps for key in step)
        try:
            for step in steps:
                self._told(", ".join(f"{key}={value}" for key, value in step.items()))
                if not self._make(step):
                    break
                rates.append(self._rate())
                if self.is_over or rates[-1] < (1 + WORTH) * max([first, *rates[:-1]]):
                    break
        finally:
            self._take_back(back)
        seen = max(self._lock_waits)
        last = self._rate()
        if not rates or not last:
            return None
        best = max(rates)
        place = next(place for place, rate in enumerate(rates) if rate >= _NEARLY * best)
        before, after = [first, last], [rates[place]]
        gain = after[0] / max(before) - 1.0
        if gain >= WORTH and (gain < _DOUBTFUL or cause in _SELDOM):
            self._repeat(steps[place], back, before, after)
        if self.is_over:
            return None
        is_last = place > 0 and place == len(steps) - 1
        return Experiment(cause, steps[place], before, after, seen, is_last)

    def _repeat(
        self,
        step: Mapping[str, Any],
        back: Mapping[str, Any],
        before: list[float],
        after: list[float],
    ) -> None:
        """Measures a change once more, and the unchanged rate again."""
        try:
            if self._make(step):
                after.append(self._rate())
        finally:
            self._take_back(back)
        before.append(self._rate())

    def _make(self, changes: Mapping[str, Any]) -> bool:
        """Makes changes, and returns whether the flow runs with them."""
        try:
            self._flow.reconfigure(changes)
        except StreamClosed:  # it ended meanwhile, perhaps while a unit of a new thread opened
            self.is_over = True
        except (ModelflowError, FlowFailed) as error:
            if not self._flow.is_running:
                raise
            self.notes.append(f"could not be tried: {error}")
        else:
            return True
        return False

    def _take_back(self, back: Mapping[str, Any]) -> None:
        if self._flow.is_running:
            with contextlib.suppress(StreamClosed):  # it ended meanwhile
                self._flow.reconfigure(back)

    def _rate(self) -> float:
        """Returns the rows a second of the measured node, over enough calls."""
        if self._pause(_SETTLING):
            return 0.0
        before = after = self._flow.stats()
        with Undisturbed(LockProbe()) as probe:
            while after.time - before.time < _MOST_SECONDS:
                if self._pause(self._seconds):
                    return 0.0
                after = self._flow.stats()
                if after[self._node].batches - before[self._node].batches >= _LEAST_CALLS:
                    break
        self._lock_waits.append(probe.figures.get("lock_wait_seconds", 0.0))
        rows = after[self._node].buffers - before[self._node].buffers
        return rows / (after.time - before.time)

    def _pause(self, seconds: float) -> bool:
        if self._wait(seconds) or not self._flow.is_running:
            self.is_over = True
        return self.is_over

    def _inverse(self, targets: Iterable[str]) -> dict[str, Any]:
        """Returns the changes that lead back to the present plan."""
        plan, found = self._flow.scheduler.plan, {}
        for target in targets:
            node, _, key = target.rpartition(".")
            if not node:
                found[target] = plan.max_in_flight
            elif key == "queue_size":
                # A port with its own size keeps this size.
                stage = plan.stages[node]
                ports = zip(stage.unit.inputs, stage.bounds, strict=True)
                own = stage.unit.settings.queue_sizes
                found[target] = next((n for port, n in ports if port not in own), stage.bounds[0])
            else:
                found[target] = getattr(plan.stages[node], key)
        return found
