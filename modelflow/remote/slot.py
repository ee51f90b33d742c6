"""A slot: where one process runs, and another one after it was lost.

Each slot has a thread, which starts a process, waits until it is lost or not needed any more, and
starts the next one in its place. Replicas of a pool and servers on a cluster have slots.
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
"""Seconds without a call after which a replica beyond the least number is ended; and after one that
could not be started, before another is tried."""

# Seconds in which a replica that ends is to tell what it has done.
_LAST = 0.5
# Seconds between two tries to start a replica: doubled from the first to the second.
_PAUSES = (0.5, 5.0)


Process = TypeVar("Process", bound=RemoteProcess)


@dataclass(frozen=True, eq=False, slots=True)
class SlotSettings(Generic[Process]):
    """What the slots of a pool have in common.

    Attributes:
        name: Whose slots they are, for messages.
        start_timeout: Seconds that a process may take to start.
        make: Makes a process, not started, of the number of a slot.
        clock: Tells the time.
        changed: Guards every slot, and is told of whatever changes.
        is_over: Whether nobody is left who waits for anything; ``changed`` is held.
        give_up: Takes a slot out of the pool, for its thread ends; ``changed`` is held.
        keep_report: Takes the last report of a process that is gone; ``changed`` is held.
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
    """A process and the thread that keeps it. Everything is guarded by ``terms.changed``.

    Attributes:
        number: One for each that is there at the same time.
        is_extra: It is beyond the least number, and ends when it is not needed.
        is_leaving: It is to end, and to have no other in its place.
        replica: What runs, or is about to; None: nothing yet, or nothing any more.
        is_ready: It takes batches.
        busy: How many it works on.
        others: How many of others it had when it last answered.
        is_reserved: Somebody waits to be alone there.
        used_at: When a batch was done last, or it became ready.
        failure: Why the last try to start one failed; None: it has not, or another one goes on.
        is_aborted: Whoever waited for it has gone, and has had it ended: that is no failure.
        thread: Who keeps it.
    """

    def __init__(
        self, number: int, terms: SlotSettings[Process], *, is_extra: bool = False
    ) -> None:
        """Starts nothing: its thread does, when that is started."""
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
        """Has its replica end; returns whether it counts as lost. ``changed`` is held.

        It does not when it was lost before, or when nobody is left who waited for it.
        """
        if not self.is_ready:
            return False
        self.is_ready, self._is_lost = False, not self._is_over
        self._terms.changed.notify_all()
        return self._is_lost

    def _keep(self) -> None:
        """Starts replicas, one after the other, until none is needed any more."""
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
        except Exception as error:  # noqa: BLE001 - told to who waits for a replica
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
        """Waits until the replica is to end, and ends it; True: there is to be no other."""
        terms, replica = self._terms, self.replica
        assert replica is not None  # it has started
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
        if is_lost:  # also when the pool ends just now: it has been counted
            self.on_lost(replica.reason())
        if is_dead:
            _quietly(replica.kill)
        with terms.changed:
            while self.busy:  # calls are told that it is lost, and go
                terms.changed.wait()
        last = replica.report(_LAST)
        _quietly(replica.close)
        with terms.changed:
            self.replica = None
            if last is not None:
                terms.keep_report(last)
        return is_over

    def on_ready(self, replica: Process) -> None:
        """Takes note that a process is ready."""

    def on_failure(self, said: str) -> None:
        """Says why a process did not start."""
        logger.warning("%s: replica %d does not start: %s", self._terms.name, self.number, said)

    def on_lost(self, reason: str) -> None:
        """Says why a process was lost; "": nobody knows."""
        told_of = f": {reason}" if reason else ""
        logger.warning("%s: lost replica %d%s", self._terms.name, self.number, told_of)

    def _wait_to_try(self, seconds: float) -> bool:
        """Waits before the next try; True: there is to be none."""
        terms = self._terms
        with terms.changed:
            due = terms.clock.now() + (0.0 if self.is_aborted else seconds)
            # One beyond the least number was worth one try.
            while not self.is_extra and not self._is_over:
                left = due - terms.clock.now()
                if left <= 0:
                    return False
                terms.clock.wait(terms.changed, left)
            terms.give_up(self)
            return True


def _quietly(end: Callable[[], None]) -> None:
    """Ends a replica; what goes wrong with that is logged, for there is nothing else to be done."""
    try:
        end()
    except Exception:
        logger.exception("a replica could not be ended")
