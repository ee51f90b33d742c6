"""The last hour of a flow as samples, and the changes of its settings.

The history exists while no page is open. A page begins with it.
"""

from collections.abc import Mapping, Sequence

from modelflow.profile.interval import Interval
from modelflow.profile.snapshot import Snapshot
from modelflow.studio.figures import Figures
from modelflow.studio.moments import event

SAMPLE_SECONDS = 10.0
"""The seconds that a sample covers, at least."""

# An hour of samples, and as many changes as a page can list.
_MOST_SAMPLES, _MOST_CHANGES = 360, 50
# Of a row of the plan: the settings that can change while the flow runs.
_SETTINGS = ("threads", "batch", "queue")


class History:
    """The last hour of a flow, in bounded memory. Written by one thread, read by any thread.

    Attributes:
        changes: The changes of the flow as an event, the oldest first. Empty without changes.
    """

    def __init__(self) -> None:
        """Begins without samples."""
        self.changes = b""
        self._samples: tuple[list[float | None], ...] = ()
        self._changes: tuple[tuple[float, str], ...] = ()
        self._last: tuple[Snapshot, int] | None = None  # with its version
        self._first: Snapshot | None = None  # of the next sample

    def add(self, snapshot: Snapshot, version: int = 0) -> None:
        """Adds a moment: a sample every ten seconds, and each change.

        Args:
            snapshot: The flow now.
            version: The version of a served model, or 0.
        """
        last, self._last = self._last, (snapshot, version)
        if last is not None:
            before, old_version = last
            if snapshot.stats.time < before.stats.time:  # the clock of another machine
                self._samples, self._changes, self._first = (), (), None
                self.changes = event("changes", [])
            if version != old_version or snapshot.stats.seconds < before.stats.seconds:
                self._first = None
            self._note(_changes_between(before, old_version, snapshot, version), snapshot)
        self._sample(snapshot)

    def event(self) -> bytes:
        """Returns the samples as an event, or nothing without samples."""
        return event("history", self._samples) if self._samples else b""

    def _sample(self, snapshot: Snapshot) -> None:
        first = self._first
        if first is None:
            self._first = snapshot
        elif snapshot.stats.time - first.stats.time >= SAMPLE_SECONDS:
            interval = Interval.between(first.stats, snapshot.stats)
            figures = Figures.between(first, snapshot, interval)
            kept = self._samples[1 - _MOST_SAMPLES :]
            self._samples = (*kept, figures.sample(snapshot.stats.time))
            self._first = snapshot

    def _note(self, texts: Sequence[str], snapshot: Snapshot) -> None:
        if texts:
            new = tuple((snapshot.stats.time, text) for text in texts)
            self._changes = (*self._changes, *new)[-_MOST_CHANGES:]
            self.changes = event("changes", self._changes)


def _changes_between(before: Snapshot, old_version: int, now: Snapshot, version: int) -> list[str]:
    """Returns the changes of a flow between two moments, as sentences without an end."""
    if version != old_version:
        return [f"version {version}"]
    if now.stats.seconds < before.stats.seconds:
        return ["started again"]
    old = {row["node"]: row for row in before.plan}
    return [
        f"{row['node']}: {name} {_value(old[row['node']], name)} → {_value(row, name)}"
        for row in now.plan
        if row["node"] in old
        for name in _SETTINGS
        if _value(old[row["node"]], name) != _value(row, name)
    ]


def _value(row: Mapping[str, str], name: str) -> str:
    """Returns a setting of a plan's row without its reason in brackets."""
    return row.get(name, "").partition(" (")[0]
