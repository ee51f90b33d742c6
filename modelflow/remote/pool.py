"""The replicas of one placement, as many as are needed: each has a `Slot`, which keeps it.

Calls are made on the callers' threads: each takes a place at a replica that is ready, and gives it
back.
"""

import contextlib
import logging
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from modelflow.config.placement import PlacementConfig
from modelflow.errors import NoReplicaError, ReplicaLostError, format_error
from modelflow.remote.message import Answers, Rows
from modelflow.remote.replica import Replica, Reports
from modelflow.remote.slot import IDLE, Slot, SlotSettings
from modelflow.runtime.clock import SYSTEM_CLOCK, Clock
from modelflow.runtime.stats import NodeStats

logger = logging.getLogger(__name__)

MESSAGE = 0.05
"""Seconds that a replica is to work on what crosses together: some fifty times what a way costs."""

TOLD = 1.0
"""Seconds for which a replica counts as being as busy as it told when it answered."""

WAITED = 0.5
"""Seconds that a call has waited for a place when another replica begins."""

# Of what rows took before, what counts when more are done.
_KEPT = 0.8
# Seconds after which who waits for the first replicas is told of it, then twice as many, ...
_TOLD_AFTER = 10.0
# Seconds that a call waits for a replica that could not be started, where no time-out is set.
_WITHOUT = 30.0


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """One moment of a pool.

    Attributes:
        replicas: How many are ready.
        starting: How many are about to be.
        busy: Calls that are under way.
        waiting: Calls that wait for a replica.
        calls, rows: How many were answered.
        lost: How many replicas were lost.
    """

    replicas: int
    starting: int
    busy: int
    waiting: int
    calls: int
    rows: int
    lost: int


@dataclass(eq=False, slots=True)
class User:
    """Who uses a pool: one far node of one flow."""

    part: str = ""
    """The far node."""
    is_gone: bool = False
    """It waits for nothing any more."""


class Pool:
    """The replicas of one placement, shared by all far nodes that joined it."""

    def __init__(
        self,
        placement: PlacementConfig,
        make: Callable[[int], Replica],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Starts nothing.

        Args:
            placement: How many there are, and how they are asked.
            make: Makes a replica, not started, of a number from 0 on.
            clock: Tells the time.
        """
        self.placement = placement
        self._clock = clock
        self._changed = threading.Condition()
        self._reports = Reports()
        self._terms = SlotSettings(
            f"placement {placement.name!r}",
            placement.start_timeout,
            make,
            clock,
            self._changed,
            lambda: self._is_over,
            self._give_up,
            self._reports.has_gone,
        )
        self._slots: dict[int, Slot[Replica]] = {}
        self._old: list[Slot[Replica]] = []  # whose threads end
        self._users: dict[User, None] = {}  # who came first is first
        self._is_closing = False
        self._grow_from = clock.now()
        self._row_seconds: dict[str, float] = {}
        self._waiting = self._calls = self._rows = self._lost = 0

    @property
    def _is_over(self) -> bool:
        """Nobody is left who waits for anything."""
        return all(user.is_gone for user in self._users)

    # -- users ----------------------------------------------------------------------------------

    def join(self, part: str = "") -> User:
        """Takes part: the first one has the least number of replicas begin; waits for none.

        What could not start before is no failure of this user's: it waits for the next try.

        Args:
            part: The far node.
        """
        user = User(part)
        with self._changed:
            self._changed.wait_for(lambda: not self._is_closing)
            if not self._users:  # what was done for those before is none of its figures
                self._reports.clear()
                self._calls = self._rows = self._lost = 0
            self._users[user] = None
            for slot in self._slots.values():
                slot.failure = None
            for number in range(self.placement.replicas[0]):
                if number not in self._slots:
                    self._fill(number)
        return user

    def wait(self, user: User) -> None:
        """Waits until the least number of replicas is ready.

        Raises:
            NoReplicaError: one did not start, or `abort` was called.
        """
        least = range(self.placement.replicas[0])

        def is_settled() -> bool:
            slots = [self._slots.get(number) for number in least]
            return user.is_gone or all(s is None or s.is_ready or s.failure for s in slots)

        pause = _TOLD_AFTER
        while not self._is_so_within(pause, is_settled):
            self._tell_of_start(least)
            pause *= 2
        with self._changed:
            failures = [
                slot.failure
                for slot in self._slots.values()
                if slot.number in least and not slot.is_ready and slot.failure
            ]
            is_gone = user.is_gone
        name = self.placement.name
        if is_gone:
            raise NoReplicaError(f"placement {name!r}: the flow ends before its replicas are ready")
        if failures:
            raise NoReplicaError(
                f"placement {name!r}: no replica: {format_error(failures[0])}"
            ) from failures[0]

    def _is_so_within(self, seconds: float, is_so: Callable[[], bool]) -> bool:
        with self._changed:
            due = self._clock.now() + seconds
            while not is_so():
                left = due - self._clock.now()
                if left <= 0:
                    return False
                self._clock.wait(self._changed, left)
            return True

    def _tell_of_start(self, least: range) -> None:
        """Says how many replicas are ready, and what those need that are not: it takes long."""
        with self._changed:
            late = [slot.replica for slot in self._slots.values() if not slot.is_ready]
            ready = sum(slot.is_ready for slot in self._slots.values())
        needed = next(filter(None, (one.lacking() for one in late if one is not None)), "")
        name, told_of = self.placement.name, f"; the next one {needed}" if needed else ""
        logger.warning(
            "placement %r: %d of %d replicas are ready%s", name, ready, len(least), told_of
        )

    def leave(self, user: User) -> None:
        """Ends every replica when the last user leaves, and joins every thread."""
        with self._changed:
            self._users.pop(user, None)
            user.is_gone = True
            self._changed.notify_all()
            if self._users:
                return
            self._is_closing = True
            slots = list(self._slots.values())
            threads = [slot.thread for slot in (*self._old, *slots)]
            starting = [slot.replica for slot in slots if not slot.is_ready]
        try:
            for replica in starting:
                if replica is not None:
                    replica.kill()
            for thread in threads:
                thread.join()
        finally:
            with self._changed:
                self._old.clear()
                self._is_closing = False
                self._changed.notify_all()

    def abort(self, user: User) -> None:
        """Has a user wait no more; where that was the last one who did, every replica ends.

        Those that work on something, or start, end at once; of the others the units are closed.
        Where other users go on, calls of this one that are under way end as they would.
        """
        with self._changed:
            user.is_gone = True
            self._changed.notify_all()
            if not self._is_over:
                return
            slots = list(self._slots.values())
            for slot in slots:
                slot.is_aborted = not slot.is_ready
            replicas = [slot.replica for slot in slots if slot.busy or not slot.is_ready]
        for replica in replicas:
            if replica is not None:
                replica.kill()

    def figures(self) -> PoolFigures:
        """Returns the figures of this moment."""
        with self._changed:
            slots = self._slots.values()
            return PoolFigures(
                replicas=sum(slot.is_ready for slot in slots),
                starting=sum(not slot.is_ready for slot in slots),
                busy=sum(slot.busy for slot in slots),
                waiting=self._waiting,
                calls=self._calls,
                rows=self._rows,
                lost=self._lost,
            )

    def reports(self, user: User, timeout: float) -> dict[str, dict[str, NodeStats]]:
        """Returns what its replicas have done for a part: replica (or `GONE`) -> node -> figures.

        Of several flows that have the part the first one is told: what they have done is counted
        once.

        Args:
            user: Whose part it is; it may have left.
            timeout: Seconds in which they are to tell; of one that does not it is what it has told
                before.
        """
        with self._changed:
            if next((one for one in self._users if one.part == user.part), user) is not user:
                return {}
            replicas = [slot.replica for slot in (*self._slots.values(), *self._old)]
        due = SYSTEM_CLOCK.now() + timeout
        told_of = [
            replica.report(max(0.0, due - SYSTEM_CLOCK.now()))
            for replica in replicas
            if replica is not None
        ]
        running = {report.replica: report for report in told_of if report is not None}
        with self._changed:
            return self._reports.of(user.part, running)

    # -- calls ----------------------------------------------------------------------------------

    def call(
        self, user: User, rows: Rows, *, is_alone: bool = False, patience: float | None = None
    ) -> Answers:
        """Has a batch worked on by the replica that is least busy.

        While one is ready, it waits for a place there as long as it takes; while none is, for what
        a start may take, or, where that has failed, for the placement's time-out.

        Args:
            user: Whose it is.
            rows: The batch.
            is_alone: Nothing else may be under way there: so that who is lost with the replica is
                whom to blame.
            patience: Seconds to wait for a place at the most; None: any.

        Raises:
            ReplicaLostError: the replica was lost; the batch may have been worked on or not.
            NoReplicaError: none was ready in time, or the user is gone.
            NotSendableError: something in the batch cannot be sent.
            PartEndedError: a unit there has ended the flow.
        """
        with self._place(user, is_alone, patience) as slot:
            assert slot.replica is not None  # it is ready
            answers = slot.replica.call(rows, self.placement.timeout)
            with self._changed:
                self._calls += 1
                self._rows += len(rows)
                self._note_pace(rows, answers)
                slot.others = max(0, answers.under_way - (slot.busy - 1))
            return answers

    def _note_pace(self, rows: Rows, answers: Answers) -> None:
        """Notes what a row has taken, where the replica did as much for others meanwhile.

        One that takes less counts at once: what came first may have waited for what is loaded.
        """
        now = answers.seconds / max(1, len(rows)) / (answers.under_way + 1)
        before = self._row_seconds.get(rows.part, now)
        self._row_seconds[rows.part] = min(now, _KEPT * before + (1 - _KEPT) * now)

    def rows_at_once(self, part: str) -> int:
        """Returns how many rows of a part take a replica `MESSAGE` seconds; 1: nobody knows yet.

        More would keep a replica busy while others have nothing to do, fewer cost a way each.
        """
        seconds = self._row_seconds.get(part)
        return 1 if seconds is None else max(1, int(MESSAGE / max(seconds, 1e-9)))

    @contextlib.contextmanager
    def _place(self, user: User, is_alone: bool, patience: float | None) -> Iterator[Slot[Replica]]:
        """Takes a place at a replica and gives it back."""
        slot = self._take(user, is_alone, patience)
        is_lost = False
        try:
            yield slot
        except ReplicaLostError:
            is_lost = True
            raise
        finally:
            with self._changed:
                slot.busy -= 1
                slot.used_at = self._clock.now()
                if is_alone:
                    slot.is_reserved = False
                if is_lost:
                    self._lost += slot.lose()
                self._changed.notify_all()

    def _take(self, user: User, is_alone: bool, patience: float | None) -> Slot[Replica]:
        begun = without = self._clock.now()
        reserved: Slot[Replica] | None = None
        with self._changed:
            self._waiting += 1
            try:
                while not user.is_gone:
                    if reserved is not None and not reserved.is_ready:
                        reserved.is_reserved, reserved = False, None
                    slot = reserved or self._free(is_alone)
                    if slot is not None and is_alone and reserved is None:
                        reserved, slot.is_reserved = slot, True
                    if slot is not None and not (is_alone and slot.busy):
                        slot.busy += 1
                        reserved = None
                        return slot
                    now = self._clock.now()
                    growing = None if slot is not None else self._grow(now - begun)
                    if any(slot.is_ready for slot in self._slots.values()):
                        without = now
                    left = self._remaining(now - begun, now - without, patience)
                    if left is not None and left <= 0:
                        break
                    waits = [wait for wait in (left, growing) if wait is not None]
                    self._clock.wait(self._changed, min(waits, default=None))
                raise self._none(user, self._clock.now() - begun)
            finally:
                if reserved is not None:
                    reserved.is_reserved = False
                self._waiting -= 1

    def _remaining(self, waited: float, without: float, patience: float | None) -> float | None:
        """Returns how long a call may still wait; None: until something changes.

        Args:
            waited: How long it has.
            without: How long no replica has been ready.
            patience: How long it may wait at the most.
        """
        bounds = [] if patience is None else [patience - waited]
        if not any(slot.is_ready for slot in self._slots.values()):
            is_new = any(slot.failure is None for slot in self._slots.values())
            terms = self.placement
            bounds.append((terms.start_timeout if is_new else terms.timeout or _WITHOUT) - without)
        return min(bounds, default=None)

    def _free(self, is_alone: bool) -> Slot[Replica] | None:
        """Returns the least busy replica that has room; None: none has.

        Of all, and with what others have there as far as it has told: of two it would wait longer
        (benchmarks/replica_choice.py).
        """
        most = self.placement.in_flight
        found = []
        for slot in self._slots.values():
            if slot.is_ready and slot.replica is not None and not slot.replica.is_alive():
                self._lost += slot.lose()
            if slot.is_ready and not slot.is_reserved and (is_alone or slot.busy < most):
                found.append(slot)
        now = self._clock.now()

        def load(slot: Slot[Replica]) -> tuple[int, float]:
            others = slot.others if now - slot.used_at < TOLD else 0
            return slot.busy + others, random.random()

        return min(found, key=load, default=None)

    def _none(self, user: User, waited: float) -> NoReplicaError:
        name = self.placement.name
        if user.is_gone:
            return NoReplicaError(f"placement {name!r}: the flow ends; nothing is sent any more")
        failures = [slot.failure for slot in self._slots.values() if slot.failure is not None]
        last = f"; the last one: {format_error(failures[-1])}" if failures else ""
        return NoReplicaError(
            f"placement {name!r}: none of {len(self._slots)} replicas had room within "
            f"{waited:.3g} s{last}"
        )

    def _grow(self, waited: float) -> float | None:
        """Begins one more replica, where a call has waited long enough and none is about to be.

        Args:
            waited: How long the call has waited for a place.

        Returns:
            Seconds after which it is to be asked again; None: there may be no other one.
        """
        if len(self._slots) >= self.placement.replicas[1]:
            return None
        left = max(WAITED - waited, self._grow_from - self._clock.now())
        if left > 0:
            return left
        if all(slot.is_ready for slot in self._slots.values()):
            self._fill(next(n for n in range(len(self._slots) + 1) if n not in self._slots))
        return None  # whoever waits is told when it is ready

    def _fill(self, number: int) -> None:
        """Has a slot of a number begin."""
        self._old = [slot for slot in self._old if slot.thread.is_alive()]
        is_extra = number >= self.placement.replicas[0]
        slot = self._slots[number] = Slot(number, self._terms, is_extra=is_extra)
        slot.thread.start()

    def _give_up(self, slot: Slot[Replica]) -> None:
        """Has a slot be none any more; its thread ends soon."""
        if slot.failure is not None and slot.is_extra:
            self._grow_from = self._clock.now() + IDLE
        if self._slots.get(slot.number) is slot:
            del self._slots[slot.number]
            self._old.append(slot)
            self._changed.notify_all()
