"""What a replica tells of itself: the figures of the nodes that it runs.

They are asked for by whoever looks, by a channel of their own: batches do not wait for that, and
who looks waits for no replica that is busy, or hangs, but is given what it has told before.
"""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelflow.ipc.channel import Channel, MessageError
from modelflow.runtime.stats import GONE, NodeStats, add_nodes

if TYPE_CHECKING:
    from modelflow.remote.part import PartFlow

__all__ = ["Inquiry", "Report", "Reporting", "Reports", "this_process"]

# Seconds in which what has begun to come of a report must be there.
_REST = 1.0
# Replicas that are gone whose figures are kept apart: one that others use too may come again.
_MOST_GONE = 32


def this_process() -> str:
    """Returns the name of a replica that runs here: its machine and process."""
    return f"{os.uname().nodename}/{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Asks a replica for a `Report`."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a replica has done, for whoever asked it.

    Attributes:
        replica: Its machine and process: ``gpu-7/4711``.
        parts: Part -> node -> figures.
    """

    replica: str
    parts: Mapping[str, Mapping[str, NodeStats]]

    @classmethod
    def of(cls, parts: "Mapping[str, PartFlow]") -> "Report":
        """Makes that of this process."""
        figures = {name: part.figures() for name, part in parts.items()}
        return cls(this_process(), figures)


class Reporting:
    """One side of the channel by which a replica is asked for reports; from any thread."""

    def __init__(self) -> None:
        """Begins without a channel."""
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._is_asked = False
        self._last: Report | None = None

    def use(self, channel: Channel) -> None:
        """Asks by a channel from now on."""
        with self._lock:
            self._channel = channel

    def report(self, timeout: float) -> Report | None:
        """Returns the present report, or the one before where it does not come within a time.

        Args:
            timeout: Seconds. A replica that has not answered the last time is not waited for.

        Returns:
            None: it has told nothing yet.
        """
        with self._lock:
            channel = self._channel
            if channel is None:
                return self._last
            try:
                self._hear(channel, timeout)
            except (OSError, EOFError, MessageError):  # it has ended; or is of no use any more
                self._channel = None
                channel.close()
            return self._last

    def _hear(self, channel: Channel, timeout: float) -> None:
        if self._is_asked and channel.has_come(0.0):  # to what was asked before: late, not lost
            self._take(channel)
        if not self._is_asked:
            channel.send(Inquiry(), timeout or _REST)
            self._is_asked = True
            if channel.has_come(timeout):
                self._take(channel)

    def _take(self, channel: Channel) -> None:
        _, self._last = channel.receive(_REST)
        self._is_asked = False

    def end(self) -> None:
        """Has both sides see the end; from any thread, while another one asks."""
        channel = self._channel
        if channel is not None:
            channel.end()

    def close(self) -> None:
        """Gives the channel back."""
        with self._lock:
            channel, self._channel = self._channel, None
            if channel is not None:
                channel.close()


class Reports:
    """What the replicas of a pool have told, also those that are gone. Not locked."""

    def __init__(self) -> None:
        """Begins with nothing."""
        self._gone: dict[str, Report] = {}
        self._before: dict[str, dict[str, NodeStats]] = {}

    def clear(self) -> None:
        """Forgets all of it."""
        self._gone.clear()
        self._before.clear()

    def has_gone(self, last: Report) -> None:
        """Keeps the last report of a replica that ends."""
        self._gone.pop(last.replica, None)
        self._gone[last.replica] = last
        if len(self._gone) > _MOST_GONE:
            _add(self._before, self._gone.pop(next(iter(self._gone))).parts)

    def of(self, part: str, running: Mapping[str, Report]) -> dict[str, dict[str, NodeStats]]:
        """Returns what was done for a part: replica (or `GONE`) -> node -> figures.

        Args:
            part: Its name.
            running: The present reports, by replica.
        """
        gone: dict[str, dict[str, NodeStats]] = {}
        _add(gone, self._before)
        for name, report in self._gone.items():
            if name not in running:
                _add(gone, report.parts)
        found = {name: dict(report.parts.get(part, {})) for name, report in running.items()}
        past = {node: stats.past for node, stats in gone.get(part, {}).items()}
        return {**found, GONE: past} if past else found


def _add(
    total: dict[str, dict[str, NodeStats]], more: Mapping[str, Mapping[str, NodeStats]]
) -> None:
    for part, nodes in more.items():
        add_nodes(total.setdefault(part, {}), nodes)
