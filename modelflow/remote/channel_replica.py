"""A replica that is connected by channels.

Each batch in flight has a channel, and one more channel carries the requests for reports.
"""

import contextlib
import math
import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from modelflow.config.placement import UNPLACED, PlacementConfig
from modelflow.errors import ReplicaLostError
from modelflow.ipc.channel import Channel, MessageError
from modelflow.remote.message import Answers, Rows
from modelflow.remote.replica import NotSendableError, Replica, Report, ReportSender
from modelflow.runtime.clock import SYSTEM_CLOCK

# Seconds without a sign of life after which a replica is lost. A replica sends a sign each second,
# unless its unit holds the interpreter lock. Few units hold it for so long.
_SILENCE = 30.0
_LEAST = 0.001


class ChannelReplica(Replica):
    """A replica behind channels, whose other ends run `replica_process.answer_all`."""

    def __init__(self, placement: PlacementConfig) -> None:
        """Makes a replica without channels."""
        self._placement = placement
        self._lock = threading.Lock()
        self._channels: list[Channel] = []
        self._free: list[Channel] = []
        self._reporting = ReportSender()
        self._ended = threading.Event()
        self._hung = ""  # a description of the hang, if the replica hung

    @property
    @abstractmethod
    def _who(self) -> str:
        """The replica's name for messages."""

    @abstractmethod
    def _describe_end(self) -> str:
        """Returns a description of the replica's end, as far as known."""

    def reason(self) -> str:
        """Returns the reason of the loss, as far as known; see `Replica.reason`."""
        return self._hung or self._describe_end()

    def _kill_hung(self) -> None:
        """Kills the replica, which exists but makes no progress."""
        self.kill()

    @property
    def _is_over(self) -> bool:
        """Whether the replica has ended, or was told to end."""
        return self._ended.is_set()

    @property
    def _channel_count(self) -> int:
        """The number of channels to the replica."""
        return self._placement.in_flight + 1

    def _use(self, channels: Sequence[Channel]) -> None:
        """Sets the channels: the last channel for reports, all others for batches."""
        *others, last = channels
        with self._lock:
            self._channels = others
            self._free = list(others)
        self._reporting.use(last)

    def _leave(self, timeout: float) -> None:
        """Tells the replica that no more batches will come; no call may be in flight."""
        for channel in self._channels:
            with contextlib.suppress(OSError):  # the replica has ended, or hangs
                channel.send(None, timeout)
        self._reporting.end()  # not a message: an unread report may fill this channel

    def _close_channels(self) -> None:
        self._reporting.close()
        for channel in self._channels:
            channel.close()
        self._channels = []

    def report(self, timeout: float) -> Report | None:
        """Requests the statistics of the replica's nodes; see `Replica.report`."""
        return self._reporting.report(timeout)

    def is_alive(self) -> bool:
        """Returns whether the replica has not ended, as far as known."""
        with self._lock:
            return not self._is_over and not (self._free and self._free[-1].has_ended())

    def call(self, rows: Rows, timeout: float | None) -> Answers:
        """Sends a batch and returns its answers; see `Replica.call`."""
        with self._lock:
            channel = None if self._is_over else self._free.pop()
        if channel is None:
            raise ReplicaLostError(self._describe_end())
        try:
            try:
                channel.send(rows, _SILENCE)
            except TimeoutError as error:
                raise self._silence(None) from error
            except MessageError as error:
                self._give_back(channel)
                raise NotSendableError(
                    f"a row cannot be sent to another process: {error}"
                ) from error.reason
            found = self._receive(channel, timeout)
        except TimeoutError as error:
            self._hung = f"{self._who} {error}"
            self._kill_hung()
            raise ReplicaLostError(self._hung) from error
        except (EOFError, OSError) as error:
            raise ReplicaLostError(self._describe_end()) from error
        self._give_back(channel)
        if isinstance(found, Exception):
            raise found
        return found

    def _receive(self, channel: Channel, timeout: float | None) -> Answers | Exception:
        """Waits for the answers, and returns them or the exception of the replica.

        Raises:
            TimeoutError: No sign of life came, or no row was done within the time.
        """
        limit = math.inf if timeout is None else timeout
        due = SYSTEM_CLOCK.now() + limit
        message: Any = False
        try:
            while isinstance(message, bool):
                left = max(_LEAST, due - SYSTEM_CLOCK.now())
                try:
                    message = channel.receive(min(_SILENCE, left))
                except TimeoutError as error:
                    raise self._silence(timeout if left < _SILENCE else None) from error
                if message is True:
                    due = SYSTEM_CLOCK.now() + limit
        except MessageError as error:  # for example, this process cannot import a value's class
            text = f"an answer cannot be read here: {error}"
            return NotSendableError(text)
        answer: Answers | Exception = message[1]
        return answer

    def _silence(self, timeout: float | None) -> TimeoutError:
        """Returns the error of a hang; with None, the replica sent no sign of life."""
        if timeout is None:
            return TimeoutError(f"has given no sign of life for {_SILENCE:g} s")
        name = self._placement.name
        key = "--timeout" if name == UNPLACED else f"[placement.{name}] timeout_ms"
        return TimeoutError(f"has done no row for {timeout:g} s ({key})")

    def _give_back(self, channel: Channel) -> None:
        with self._lock:
            self._free.append(channel)
