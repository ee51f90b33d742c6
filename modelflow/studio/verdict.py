"""The doctor's sentence about a flow that a page shows, and its change over time.

The figures of ten seconds vary, and so does the doctor's opinion. A page that changes its sentence
each second helps nobody. A sentence is therefore kept until another one has been right for ten
seconds without a break. The other one is shown beside it meanwhile. Only "idle" gives way at once,
because the first row refutes it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from modelflow.insight.doctor import Case, Cause, diagnose, format_changes
from modelflow.profile.snapshot import Snapshot

VERDICT_SECONDS = 10.0
"""The seconds that a verdict covers. Older snapshots are not needed."""

# The doctor needs snapshots of at least so many seconds.
_LEAST_SECONDS = 1.5
# The seconds for which another verdict must be right before it is shown.
_HELD_SECONDS = 10.0
# The seconds after which a verdict that was never right again is shown no longer.
_LONGEST_SECONDS = 30.0
# A node without rows is inside a call if calls take at least this share of one thread's time.
_STUCK = 0.95


@dataclass(frozen=True)
class Verdict:
    """A sentence about a flow.

    Attributes:
        text: The sentence.
        node: The node that it is about, or ``""``.
        level: ``finding`` for a problem, ``good`` if nothing is wrong, else ``idle``.
        change: The change to make, as for ``--set``; or ``""``.
        cause: The cause of a finding. Verdicts with the same level, cause and node are the same
            opinion, although their figures differ.
        runner_up: Another opinion that may follow, or the second cause of the doctor; or ``""``.
    """

    text: str
    node: str = ""
    level: str = "idle"
    change: str = ""
    cause: str = ""
    runner_up: str = ""

    def document(self) -> dict[str, Any]:
        """Returns the verdict as a dict of JSON values."""
        return asdict(self)

    def equals(self, other: "Verdict") -> bool:
        """Returns whether both are the same opinion."""
        is_finding = self.level == "finding"
        node = self.node == other.node or not is_finding
        return self.level == other.level and self.cause == other.cause and node


LOOKING = Verdict("looking")
"""The verdict before the doctor has enough snapshots."""


def verdict_of(moments: Sequence[Snapshot]) -> Verdict:
    """Returns the doctor's opinion of the last seconds.

    Args:
        moments: The snapshots of the last seconds, the newest last; at least one.
    """
    first, last = moments[0], moments[-1]
    if last.stats.time - first.stats.time < _LEAST_SECONDS:
        return LOOKING
    case = Case.between(first, last)
    nodes = case.interval.nodes
    found = diagnose(case)
    if found.findings:
        finding = found.findings[0]
        change, cause = format_changes(finding.change), str(finding.cause)
        # Nothing is wrong with the flow itself if other programs use the processors.
        is_foreign = finding.cause is Cause.FOREIGN_LOAD
        node, level = ("", "idle") if is_foreign else (finding.node, "finding")
        return Verdict(finding.headline, node, level, change, cause, finding.second)
    if found.is_idle:
        stuck = next((node.node for node in nodes if node.busy >= _STUCK / node.threads), None)
        if stuck is not None:
            text = f"{stuck} is in the middle of a call, and nothing else moves"
            return Verdict(text, stuck, cause="stuck")
        return Verdict("idle: nothing has come in for the last seconds")
    return Verdict(found.sentence, found.busiest, "good")


class SteadyVerdict:
    """The shown verdict, which changes only after ten seconds of another opinion."""

    def __init__(self) -> None:
        """Begins without a verdict."""
        self._shown = LOOKING
        self._other = LOOKING
        self._since = self._right = 0.0  # of the other one, and the last time of the shown one

    def follow(self, moments: Sequence[Snapshot]) -> Verdict:
        """Returns the verdict to show after new snapshots; see `verdict_of`."""
        return self.take(verdict_of(moments), moments[-1].stats.time)

    def take(self, found: Verdict, time: float) -> Verdict:
        """Returns the verdict to show.

        Args:
            found: The present opinion.
            time: The time of the last snapshot, in seconds.
        """
        is_refuted = self._shown.level == "idle" and not self._shown.cause
        if is_refuted or found == LOOKING or found.equals(self._shown):
            self._shown, self._other, self._right = found, found, time
            return found
        if not found.equals(self._other):
            self._since = time
        self._other = found
        if time - self._since >= _HELD_SECONDS or time - self._right >= _LONGEST_SECONDS:
            self._shown, self._right = found, time
            return found
        return replace(self._shown, runner_up=found.text)
