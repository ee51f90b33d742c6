"""A slot, which runs one process at a time and replaces a lost process.

Each slot has a thread. The thread starts a process and waits until the process is lost or no longer
needed. After a loss it starts the next process. Replicas of a pool and servers on a cluster have
slots.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from modelflow.errors import format_error
from modelflow.remote.replica import RemoteProcess, Report
from modelflow.runtime.clock import Clock

logger = logging.getLogger(__name__)

IDLE = 60.0
"""Seconds without a call after which a replica beyond the least number is ended.

Also the pause after such a replica failed to start, before another is tried.
"""

# Seconds to wait for the last report of a replica that ends.
_LAST = 0.5
# The first and the longest pause between two tries to start a replica; each pause doubles.
_PAUSES = (0.5, 5.0)


Process = TypeVar("Process", bound=RemoteProcess)


@dataclass(frozen=True, eq=False, slots=True)
class SlotSettings(Generic[Process]):
    """The common settings of a pool's slots.

    Attributes:
        name: The owner of the slots, for messages.
        start_timeout: The longest start of a process in seconds.
        make: Makes a process for the number of a slot; does not start the process.
        clock: The clock.
        changed: Guards every slot, and is notified of every change.
        is_over: Returns whether no user waits any more; called with ``changed`` held.
        give_up: Removes a slot from the pool when its thread ends; called with ``changed`` held.
        keep_report: Keeps the last report of an ended process; called with ``changed`` held.
    """

    name: str
    start_timeout: float
    make: Callable[[int], Process]
    clock: Clock
    changed: threading.Condition
    is_over: Callable[[], bool]
    give_up: Callable[["Slot[Process]"], None]
    keep_report: Callable[[Report], None]


class Slot(Generic[Process]):
    """A process and the thread that starts and replaces the process.

    All attributes are guarded by ``terms.changed``.

    Attributes:
        number: The number of the slot. Slots that exist at the same time have different numbers.
        is_extra: Whether the slot is beyond the least number, and ends when it is not needed.
        is_leaving: Whether the process is to end without a replacement.
        replica: The process that runs or starts, or None.
        is_ready: Whether the process accepts batches.
        busy: Number of batches in flight.
        others: Number of batches of other users, from the last answer.
        is_reserved: Whether a call waits to be the only one in the process.
        used_at: The time at which the last batch ended, or the process became ready.
        failure: The error of the last start, or None if it did not fail or a new start runs.
        is_aborted: Whether the start was ended because its users had gone. That is no failure.
        thread: The thread of the slot.
    """

    def __init__(
        self, number: int, terms: SlotSettings[Process], *, is_extra: bool = False
    ) -> None:
        """Makes a slot; the process starts with the slot's thread."""
        self.number = number
        self.is_extra = is_extra
        self.is_leaving = False
        self.replica: Process | None = None
        self.is_ready = False
        self.busy = self.others = 0
        self.is_reserved = False
        self.used_at = terms.clock.now()
        self.failure: Exception | None = None
        self.is_aborted = False
        self.thread = threading.Thread(target=self._keep, name=f"modelflow/{terms.name}/{number}")
        self._terms = terms
        self._is_lost = False

    @property
    def _is_over(self) -> bool:
        return self.is_leaving or self._terms.is_over()

    def lose(self) -> bool:
        """Marks the process as lost; returns whether the loss counts. ``changed`` is held.

        The slot's thread then ends the process. A loss does not count if the process was lost
        before, or if no user waits any more.
        """
        if not self.is_ready:
            return False
        self.is_ready, self._is_lost = False, not self._is_over
        self._terms.changed.notify_all()
        return self._is_lost

    def _keep(self) -> None:
        """Starts replicas, each after the end of the last, while the slot is needed."""
        pause = _PAUSES[0]
        is_over = False
        while not is_over:
            if self._start():
                pause = _PAUSES[0]
                is_over = self._wait_for_end()
            else:
                is_over = self._wait_to_try(pause)
                pause = min(2 * pause, _PAUSES[1])

    def _start(self) -> bool:
        terms = self._terms
        replica: Process | None = None
        try:
            replica = terms.make(self.number)
            with terms.changed:
                if self._is_over:
                    return False
                self.replica, self._is_lost = replica, False
                self.failure, self.is_aborted = None, False
            replica.start(terms.start_timeout)
        except Exception as error:  # noqa: BLE001 - reported to the waiting users
            self._has_not_started(replica, error)
            return False
        with terms.changed:
            self.is_ready, self.failure, self.used_at = True, None, terms.clock.now()
            terms.changed.notify_all()
        self.on_ready(replica)
        return True

    def _has_not_started(self, replica: Process | None, error: Exception) -> None:
        if replica is not None:
            _quietly(replica.kill)
            _quietly(replica.close)
        terms = self._terms
        with terms.changed:
            is_wanted = not self.is_aborted and not self._is_over
            self.failure, self.replica = error if is_wanted else None, None
            terms.changed.notify_all()
        if is_wanted:
            self.on_failure(format_error(error))

    def _wait_for_end(self) -> bool:
        """Waits for the replica's end; returns whether the slot ends as well."""
        terms, replica = self._terms, self.replica
        assert replica is not None  # `_start` succeeded
        with terms.changed:
            while not self._is_over and self.is_ready:
                left = self.used_at + IDLE - terms.clock.now() if self.is_extra else None
                if left is not None and left <= 0 and not self.busy and not self.is_reserved:
                    break
                terms.clock.wait(terms.changed, None if left is None else max(left, 1.0))
            is_lost, is_dead = self._is_lost, not self.is_ready
            self.is_ready = False
            is_over = self._is_over or not is_dead
            if is_over:
                terms.give_up(self)
        if is_lost:  # logged even if the pool ends right now, because the loss has been counted
            self.on_lost(replica.reason())
        if is_dead:
            _quietly(replica.kill)
        with terms.changed:
            while self.busy:  # calls get `ReplicaLostError` and return
                terms.changed.wait()
        last = replica.report(_LAST)
        _quietly(replica.close)
        with terms.changed:
            self.replica = None
            if last is not None:
                terms.keep_report(last)
        return is_over

    def on_ready(self, replica: Process) -> None:
        """Handles a process that became ready; does nothing here."""

    def on_failure(self, said: str) -> None:
        """Logs why a process did not start."""
        logger.warning("%s: replica %d does not start: %s", self._terms.name, self.number, said)

    def on_lost(self, reason: str) -> None:
        """Logs why a process was lost; the reason may be unknown ("")."""
        told_of = f": {reason}" if reason else ""
        logger.warning("%s: lost replica %d%s", self._terms.name, self.number, told_of)

    def _wait_to_try(self, seconds: float) -> bool:
        """Waits before the next try; returns whether the slot ends instead."""
        terms = self._terms
        with terms.changed:
            due = terms.clock.now() + (0.0 if self.is_aborted else seconds)
            # A slot beyond the least number gets only one try.
            while not self.is_extra and not self._is_over:
                left = due - terms.clock.now()
                if left <= 0:
                    return False
                terms.clock.wait(terms.changed, left)
            terms.give_up(self)
            return True


def _quietly(end: Callable[[], None]) -> None:
    """Ends a replica; logs an error, because nothing else can be done."""
    try:
        end()
    except Exception:
        logger.exception("a replica could not be ended")
