"""The interface of a replica to its pool, and the statistics that a replica reports.

Reports have their own channel; batches do not wait for them. A reader does not wait for a replica
that is busy or hangs, and gets the last report instead.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelflow.errors import ModelflowError
from modelflow.ipc.channel import Channel, MessageError
from modelflow.remote.message import Answers, Rows
from modelflow.runtime.stats import GONE, NodeStats, add_nodes

if TYPE_CHECKING:
    from modelflow.remote.part import PartFlow


ENDED_EARLY = "it was stopped before it had started"
"""The error of a process whose start was interrupted, because no user needs the process."""

# Seconds in which the rest of a report must arrive after its first byte.
_REST = 1.0
# The most ended replicas with separate statistics. A replica with other users may report again.
_MOST_GONE = 32


def this_process() -> str:
    """Returns the name of this process in statistics: its machine and process number."""
    return f"{os.uname().nodename}/{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """The message that asks a replica for a `Report`."""


@dataclass(frozen=True, slots=True)
class Report:
    """The statistics of a replica.

    Attributes:
        replica: The machine and process of the replica: ``gpu-7/4711``.
        parts: Part -> node -> statistics.
    """

    replica: str
    parts: Mapping[str, Mapping[str, NodeStats]]

    @classmethod
    def of(cls, parts: "Mapping[str, PartFlow]") -> "Report":
        """Makes the report of this process."""
        figures = {name: part.figures() for name, part in parts.items()}
        return cls(this_process(), figures)


class ReportSender:
    """The requesting side of a channel for reports; safe for all threads."""

    def __init__(self) -> None:
        """Starts without a channel."""
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._is_asked = False
        self._last: Report | None = None

    def use(self, channel: Channel) -> None:
        """Sets the channel for the requests."""
        with self._lock:
            self._channel = channel

    def report(self, timeout: float) -> Report | None:
        """Returns the present report, or the last report if the replica does not report in time.

        Args:
            timeout: The longest wait in seconds. If the last request has no answer yet, the wait is
                0.

        Returns:
            None if the replica has never reported.
        """
        with self._lock:
            channel = self._channel
            if channel is None:
                return self._last
            try:
                self._hear(channel, timeout)
            except (OSError, EOFError, MessageError):  # the replica has ended, or the channel broke
                self._channel = None
                channel.close()
            return self._last

    def _hear(self, channel: Channel, timeout: float) -> None:
        if self._is_asked and channel.has_come(0.0):  # the late answer to an earlier request
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
        """Ends both directions of the channel; from any thread, also during a request."""
        channel = self._channel
        if channel is not None:
            channel.end()

    def close(self) -> None:
        """Closes the channel."""
        with self._lock:
            channel, self._channel = self._channel, None
            if channel is not None:
                channel.close()


class Reports:
    """The reports of a pool's running and ended replicas; not safe for several threads."""

    def __init__(self) -> None:
        """Starts without reports."""
        self._gone: dict[str, Report] = {}
        self._before: dict[str, dict[str, NodeStats]] = {}

    def clear(self) -> None:
        """Deletes all reports."""
        self._gone.clear()
        self._before.clear()

    def has_gone(self, last: Report) -> None:
        """Keeps the last report of an ended replica."""
        self._gone.pop(last.replica, None)
        self._gone[last.replica] = last
        if len(self._gone) > _MOST_GONE:
            _add(self._before, self._gone.pop(next(iter(self._gone))).parts)

    def of(self, part: str, running: Mapping[str, Report]) -> dict[str, dict[str, NodeStats]]:
        """Returns the statistics of a part: replica (or `GONE`) -> node -> statistics.

        Args:
            part: The name of the part.
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


class NotSendableError(ModelflowError):
    """A value of a batch, or of its answers, cannot be sent to another process."""


class PartEndedError(ModelflowError):
    """A unit of a part has ended the flow (`EndFlow`)."""


class RemoteProcess(ABC):
    """A process that runs elsewhere, in a `modelflow.remote.slot.Slot`.

    The thread of the slot calls `start` once and, at the end, `close` once. Any thread may call
    `kill`.
    """

    @abstractmethod
    def start(self, timeout: float) -> None:
        """Starts the process and waits until every unit is open.

        Args:
            timeout: The longest wait in seconds.

        Raises:
            ModelflowError: The process cannot run; the message says why.
            TimeoutError: The process was not ready in time.
        """

    def lacking(self) -> str:
        """Returns the resources that the start waits for, as in ``waits for GPU=1``, or ""."""
        return ""

    def reason(self) -> str:
        """Returns the reason of the loss, or "" if unknown; may take a second."""
        return ""

    def report(self, timeout: float) -> Report | None:  # noqa: ARG002
        """Returns the statistics of the nodes; from any thread.

        Args:
            timeout: The longest wait in seconds. After that, the last report is returned.

        Returns:
            None if the process has never reported.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Closes the units, ends a running process, and frees its resources.

        No call may be in flight.
        """

    @abstractmethod
    def kill(self) -> None:
        """Kills the process; calls in flight raise `ReplicaLostError`, and `start` raises."""


class Replica(RemoteProcess):
    """A process that runs all parts of one placement; made by a `PlacementEngine`.

    After `start`, at most ``in_flight`` threads (a setting of the placement) call it at once.
    """

    @abstractmethod
    def call(self, rows: Rows, timeout: float | None) -> Answers:
        """Sends a batch and returns the answers.

        Args:
            rows: The batch.
            timeout: Seconds without a finished row after which the replica counts as lost. With
                None, only the lack of a sign of life counts.

        Raises:
            ReplicaLostError: The replica was lost, and will not answer.
            NotSendableError: A value of the batch, or of its answers, cannot be sent.
            PartEndedError: A unit of the part has ended the flow.
        """

    @abstractmethod
    def is_alive(self) -> bool:
        """Returns whether the replica has not ended, as far as known."""
