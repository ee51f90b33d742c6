"""A replica as its pool knows it, and the figures that it reports.

They are asked for by whoever looks, by a channel of their own: batches do not wait for that, and
who looks waits for no replica that is busy, or hangs, but is given what it has told before.
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


ENDED_EARLY = "it was ended before it had begun"
"""What is said of a process that nobody wants any more while it starts."""

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


class ReportSender:
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


class NotSendableError(ModelflowError):
    """Something in a batch, or in its answer, cannot be sent to another process."""


class PartEndedError(ModelflowError):
    """A unit of a part has ended the flow (`EndFlow`)."""


class RemoteProcess(ABC):
    """Something that runs elsewhere, in a `modelflow.remote.slot.Slot`.

    Its life: `start` once, on the thread of the slot; `kill`, from any thread; `close` once, at the
    end.
    """

    @abstractmethod
    def start(self, timeout: float) -> None:
        """Begins, and waits until every unit is open.

        Args:
            timeout: The longest wait in seconds.

        Raises:
            ModelflowError: it cannot run; the message says why.
            TimeoutError: it was not ready in time.
        """

    def lacking(self) -> str:
        """Says what it waits for while it starts, as in ``waits for GPU=1``; "": nothing else."""
        return ""

    def reason(self) -> str:
        """Says why it was lost, as far as is known; "": nothing is. It may wait a second."""
        return ""

    def report(self, timeout: float) -> Report | None:  # noqa: ARG002
        """Returns what its nodes have done, as far as it tells within a time; from any thread.

        Args:
            timeout: Seconds; after these what it has told before is returned.

        Returns:
            None: it has told nothing.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Ends it in order, where it has not ended, and gives back what it held.

        No call is under way. The units of a replica are closed.
        """

    @abstractmethod
    def kill(self) -> None:
        """Ends it at once; calls that are under way raise `ReplicaLostError`, `start` raises."""


class Replica(RemoteProcess):
    """Runs all parts of one placement; made by a `PlacementEngine`.

    Behind `start` it is called from as many threads at once as the placement's ``in_flight`` says.
    """

    @abstractmethod
    def call(self, rows: Rows, timeout: float | None) -> Answers:
        """Has a batch worked on.

        Args:
            rows: The batch.
            timeout: Seconds without a row that is done after which the replica counts as lost;
                None: it does once it gives no sign of life.

        Raises:
            ReplicaLostError: there is no answer, and there will be none.
            NotSendableError: something in the batch, or in its answer, cannot be sent.
            PartEndedError: a unit there has ended the flow.
        """

    @abstractmethod
    def is_alive(self) -> bool:
        """Tells whether it has not ended, as far as is known here."""
