"""A slot of a pool: where one replica runs, and another one after it was lost.

Each slot has a thread, which starts a replica, waits until it is lost or not needed any more, and
starts the next one in its place.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from modelflow.config.placement import PlacementConfig
from modelflow.errors import format_error
from modelflow.remote.replica import Replica, Reports
from modelflow.runtime.clock import Clock

logger = logging.getLogger(__name__)

IDLE = 60.0
"""Seconds without a call after which a replica beyond the least number is ended; and after one that
could not be started, before another is tried."""

# Seconds in which a replica that ends is to tell what it has done.
_LAST = 0.5
# Seconds between two tries to start a replica: doubled from the first to the second.
_PAUSES = (0.5, 5.0)


@dataclass(frozen=True, eq=False, slots=True)
class SlotSettings:
    """What the slots of a pool have in common.

    Attributes:
        placement: How many replicas there are, and how they are asked.
        make: Makes a replica, not started, of a number from 0 on.
        clock: Tells the time.
        changed: Guards every slot, and is told of whatever changes.
        is_over: Whether nobody is left who waits for anything; ``changed`` is held.
        give_up: Takes a slot out of the pool, for its thread ends; ``changed`` is held.
        reports: What replicas that are gone had told of themselves; ``changed`` is held.
    """

    placement: PlacementConfig
    make: Callable[[int], Replica]
    clock: Clock
    changed: threading.Condition
    is_over: Callable[[], bool]
    give_up: Callable[["Slot"], None]
    reports: Reports


class Slot:
    """A replica and the thread that keeps it. Everything is guarded by ``terms.changed``.

    Attributes:
        number: From 0 on, one for each that is there at the same time.
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

    def __init__(self, number: int, terms: SlotSettings) -> None:
        """Starts nothing: its thread does, when that is started."""
        self.number = number
        self.replica: Replica | None = None
        self.is_ready = False
        self.busy = self.others = 0
        self.is_reserved = False
        self.used_at = terms.clock.now()
        self.failure: Exception | None = None
        self.is_aborted = False
        name = f"modelflow/placement {terms.placement.name}/{number}"
        self.thread = threading.Thread(target=self._keep, name=name)
        self._terms = terms
        self._is_lost = False

    @property
    def is_extra(self) -> bool:
        """It is beyond the least number, and ends when it is not needed."""
        return self.number >= self._terms.placement.replicas[0]

    def lose(self) -> bool:
        """Has its replica count as lost; returns whether it has not before. ``changed`` is held."""
        if not self.is_ready:
            return False
        self.is_ready, self._is_lost = False, True
        self._terms.changed.notify_all()
        return True

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
        replica: Replica | None = None
        try:
            replica = terms.make(self.number)
            with terms.changed:
                if terms.is_over():
                    return False
                self.replica, self._is_lost = replica, False
                self.failure, self.is_aborted = None, False
            replica.start(terms.placement.start_timeout)
        except Exception as error:  # noqa: BLE001 - told to who waits for a replica
            self._has_not_started(replica, error)
            return False
        with terms.changed:
            self.is_ready, self.failure, self.used_at = True, None, terms.clock.now()
            terms.changed.notify_all()
        return True

    def _has_not_started(self, replica: Replica | None, error: Exception) -> None:
        if replica is not None:
            _quietly(replica.kill)
            _quietly(replica.close)
        terms = self._terms
        with terms.changed:
            is_wanted = not self.is_aborted and not terms.is_over()
            self.failure, self.replica = error if is_wanted else None, None
            terms.changed.notify_all()
        if is_wanted:
            name, said = terms.placement.name, format_error(error)
            logger.warning("placement %r: replica %d does not start: %s", name, self.number, said)

    def _wait_for_end(self) -> bool:
        """Waits until the replica is to end, and ends it; True: there is to be no other."""
        terms, replica = self._terms, self.replica
        assert replica is not None  # it has started
        with terms.changed:
            while not terms.is_over() and not self._is_lost:
                left = self.used_at + IDLE - terms.clock.now() if self.is_extra else None
                if left is not None and left <= 0 and not self.busy and not self.is_reserved:
                    break
                terms.clock.wait(terms.changed, None if left is None else max(left, 1.0))
            is_lost = self._is_lost
            self.is_ready = False
            is_left = terms.is_over()  # whoever waited for it has gone: nothing is lost
            is_over = is_left or not is_lost
            if is_over:
                terms.give_up(self)
        if is_lost:
            if not is_left:
                self._tell_of_loss(replica)
            _quietly(replica.kill)
        with terms.changed:
            while self.busy:  # calls are told that it is lost, and go
                terms.changed.wait()
        last = replica.report(_LAST)
        _quietly(replica.close)
        with terms.changed:
            self.replica = None
            if last is not None:
                terms.reports.has_gone(last)
        return is_over

    def _tell_of_loss(self, replica: Replica) -> None:
        reason = replica.reason()
        told_of = f": {reason}" if reason else ""
        name = self._terms.placement.name
        logger.warning("placement %r: lost replica %d%s", name, self.number, told_of)

    def _wait_to_try(self, seconds: float) -> bool:
        """Waits before the next try; True: there is to be none."""
        terms = self._terms
        with terms.changed:
            due = terms.clock.now() + (0.0 if self.is_aborted else seconds)
            # One beyond the least number was worth one try.
            while not self.is_extra and not terms.is_over():
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
