"""A replica that is reached by channels: one for each batch that may be under way, and one more.

By that one it is asked what its nodes have done.
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

# Seconds without a sign of life after which a replica is lost; it gives one a second. One whose
# unit holds the interpreter's lock gives none, which few do for so long.
_SILENCE = 30.0
_LEAST = 0.001


class ChannelReplica(Replica):
    """Sends batches by channels whose other side runs `replica_process.answer_all`."""

    def __init__(self, placement: PlacementConfig) -> None:
        """Begins without channels."""
        self._placement = placement
        self._lock = threading.Lock()
        self._channels: list[Channel] = []
        self._free: list[Channel] = []
        self._reporting = ReportSender()
        self._ended = threading.Event()
        self._hung = ""  # how it was seen to hang

    @property
    @abstractmethod
    def _who(self) -> str:
        """What it is, for people."""

    @abstractmethod
    def _describe_end(self) -> str:
        """Returns what is known of its end."""

    def reason(self) -> str:
        """Says why it was lost, as far as is known; see `Replica.reason`."""
        return self._hung or self._describe_end()

    def _kill_hung(self) -> None:
        """Ends it: it is there and does nothing."""
        self.kill()

    @property
    def _is_over(self) -> bool:
        """It is to end, or has ended."""
        return self._ended.is_set()

    @property
    def _channel_count(self) -> int:
        """How many channels there are to it."""
        return self._placement.in_flight + 1

    def _use(self, channels: Sequence[Channel]) -> None:
        """Has batches go through channels, and what it is asked about itself through the last."""
        *others, last = channels
        with self._lock:
            self._channels = others
            self._free = list(others)
        self._reporting.use(last)

    def _leave(self, timeout: float) -> None:
        """Tells the other side that no more will come; no call is under way."""
        for channel in self._channels:
            with contextlib.suppress(OSError):  # it has ended, or hangs
                channel.send(None, timeout)
        self._reporting.end()  # a report that nobody has taken may fill it

    def _close_channels(self) -> None:
        self._reporting.close()
        for channel in self._channels:
            channel.close()
        self._channels = []

    def report(self, timeout: float) -> Report | None:
        """Asks it what its nodes have done; see `Replica.report`."""
        return self._reporting.report(timeout)

    def is_alive(self) -> bool:
        """Tells whether the other side has not ended."""
        with self._lock:
            return not self._is_over and not (self._free and self._free[-1].has_ended())

    def call(self, rows: Rows, timeout: float | None) -> Answers:
        """Has a batch worked on; see `Replica.call`."""
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
        """Waits for an answer; returns it, or what was raised.

        Raises:
            TimeoutError: there is no sign of life, or nothing was done within the time.
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
        except MessageError as error:  # a value's class cannot be found here, say
            text = f"an answer cannot be read here: {error}"
            return NotSendableError(text)
        answer: Answers | Exception = message[1]
        return answer

    def _silence(self, timeout: float | None) -> TimeoutError:
        """Returns how it has hung; None: there was no sign of life."""
        if timeout is None:
            return TimeoutError(f"has given no sign of life for {_SILENCE:g} s")
        name = self._placement.name
        key = "--timeout" if name == UNPLACED else f"[placement.{name}] timeout_ms"
        return TimeoutError(f"has done no row for {timeout:g} s ({key})")

    def _give_back(self, channel: Channel) -> None:
        with self._lock:
            self._free.append(channel)
