"""The replicas of a placement, as many as needed, each kept running by a `Slot`.

A call runs on the caller's thread. It takes a place at a ready replica and gives it back.
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
"""Seconds of work for a replica in one batch: about fifty times the cost of the transfer."""

TOLD = 1.0
"""Seconds for which the load in a replica's last answer is taken as its present load."""

WAITED = 0.5
"""Seconds of waiting for a place after which another replica is started."""

# Weight of the earlier measurements in the mean time of a row.
_KEPT = 0.8
# Seconds until the first warning about missing replicas; each further wait is twice as long.
_TOLD_AFTER = 10.0
# Seconds that a call waits for a replica that failed to start, if the placement has no time-out.
_WITHOUT = 30.0


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """The state of a pool at one time.

    Attributes:
        replicas: Number of ready replicas.
        starting: Number of replicas that are starting.
        busy: Number of calls in flight.
        waiting: Number of calls that wait for a replica.
        calls, rows: Numbers of answered calls and rows.
        lost: Number of lost replicas.
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
    """A user of a pool: a remote node of a flow."""

    part: str = ""
    """The name of the remote node."""
    is_gone: bool = False
    """Whether the user has stopped waiting for replicas and answers."""


class Pool:
    """The replicas of a placement, shared by all remote nodes that joined the pool."""

    def __init__(
        self,
        placement: PlacementConfig,
        make: Callable[[int], Replica],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Makes an empty pool.

        Args:
            placement: The number of replicas, and the settings of calls.
            make: Makes a replica with a number from 0, without starting it.
            clock: The clock.
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
        self._old: list[Slot[Replica]] = []  # slots whose threads are ending
        self._users: dict[User, None] = {}  # in the order of `join`
        self._is_closing = False
        self._grow_from = clock.now()
        self._row_seconds: dict[str, float] = {}
        self._waiting = self._calls = self._rows = self._lost = 0

    @property
    def _is_over(self) -> bool:
        """Whether every user has stopped waiting."""
        return all(user.is_gone for user in self._users)

    # -- users ----------------------------------------------------------------------------------

    def join(self, part: str = "") -> User:
        """Adds a user; the first user starts the least number of replicas. Does not wait for them.

        A failed start before does not fail this user. The user waits for the next try.

        Args:
            part: The name of the remote node.
        """
        user = User(part)
        with self._changed:
            self._changed.wait_for(lambda: not self._is_closing)
            if not self._users:  # statistics of earlier users do not count for the new ones
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
            NoReplicaError: A replica did not start, or `abort` was called.
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
        """Logs how many replicas are ready, and the resources that the others wait for."""
        with self._changed:
            late = [slot.replica for slot in self._slots.values() if not slot.is_ready]
            ready = sum(slot.is_ready for slot in self._slots.values())
        needed = next(filter(None, (one.lacking() for one in late if one is not None)), "")
        name, told_of = self.placement.name, f"; the next one {needed}" if needed else ""
        logger.warning(
            "placement %r: %d of %d replicas are ready%s", name, ready, len(least), told_of
        )

    def leave(self, user: User) -> None:
        """Removes a user; the last user ends every replica and joins every thread."""
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
        """Ends the waiting of a user; without other waiting users, every replica ends.

        Replicas that are busy or starting are killed at once. The units of the others are closed.
        If other users remain, the calls of this user in flight end normally.
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
        """Returns the state of the pool now."""
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
        """Returns the statistics of a part: replica (or `GONE`) -> node -> statistics.

        Several flows may have the same part. Only the first flow gets the statistics, which are
        then counted once.

        Args:
            user: The user with the part; the user may have left.
            timeout: Seconds to wait for reports. Late reports are replaced by earlier ones.
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
        """Sends a batch to the least busy replica and returns the answers.

        While a replica is ready, the call waits for a place without limit. While none is ready, it
        waits for the start time-out. After a failed start it waits for the placement's time-out.

        Args:
            user: The user that sends the batch.
            rows: The batch.
            is_alone: Whether the batch must be the only one in its replica. If the replica is then
                lost, the batch is the cause.
            patience: The longest wait for a place in seconds; None for no limit.

        Raises:
            ReplicaLostError: The replica was lost. Its units may have processed the batch.
            NoReplicaError: No replica was ready in time, or the user is gone.
            NotSendableError: A value of the batch cannot be sent.
            PartEndedError: A unit of the part has ended the flow.
        """
        with self._place(user, is_alone, patience) as slot:
            assert slot.replica is not None  # the slot is ready
            answers = slot.replica.call(rows, self.placement.timeout)
            with self._changed:
                self._calls += 1
                self._rows += len(rows)
                self._note_pace(rows, answers)
                slot.others = max(0, answers.under_way - (slot.busy - 1))
            return answers

    def _note_pace(self, rows: Rows, answers: Answers) -> None:
        """Updates the time of a row, for a replica that shares its time among all batches.

        A shorter time counts at once, because the first batches may have waited for data to load.
        """
        now = answers.seconds / max(1, len(rows)) / (answers.under_way + 1)
        before = self._row_seconds.get(rows.part, now)
        self._row_seconds[rows.part] = min(now, _KEPT * before + (1 - _KEPT) * now)

    def rows_at_once(self, part: str) -> int:
        """Returns how many rows keep a replica busy for `MESSAGE` seconds; 1 if unknown.

        Larger batches keep one replica busy while others are idle. Smaller ones cost more
        transfers.
        """
        seconds = self._row_seconds.get(part)
        return 1 if seconds is None else max(1, int(MESSAGE / max(seconds, 1e-9)))

    @contextlib.contextmanager
    def _place(self, user: User, is_alone: bool, patience: float | None) -> Iterator[Slot[Replica]]:
        """Takes a place at a replica, and gives the place back at the end."""
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
        """Returns how long a call may still wait, or None for no limit.

        Args:
            waited: Seconds that the call has waited.
            without: Seconds for which no replica was ready.
            patience: The longest wait in seconds; None for no limit.
        """
        bounds = [] if patience is None else [patience - waited]
        if not any(slot.is_ready for slot in self._slots.values()):
            is_new = any(slot.failure is None for slot in self._slots.values())
            terms = self.placement
            bounds.append((terms.start_timeout if is_new else terms.timeout or _WITHOUT) - without)
        return min(bounds, default=None)

    def _free(self, is_alone: bool) -> Slot[Replica] | None:
        """Returns the least busy replica that has room, or None.

        It compares all replicas, with the load of other users from their last answers. A choice
        between two random replicas makes calls wait longer (benchmarks/replica_choice.py).
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
        """Starts another replica if a call has waited long enough and no replica is starting.

        Args:
            waited: Seconds that the call has waited for a place.

        Returns:
            Seconds after which to try again, or None if no further replica is allowed or needed.
        """
        if len(self._slots) >= self.placement.replicas[1]:
            return None
        left = max(WAITED - waited, self._grow_from - self._clock.now())
        if left > 0:
            return left
        if all(slot.is_ready for slot in self._slots.values()):
            self._fill(next(n for n in range(len(self._slots) + 1) if n not in self._slots))
        return None  # the waiting call is woken when the replica is ready

    def _fill(self, number: int) -> None:
        """Starts the slot with this number."""
        self._old = [slot for slot in self._old if slot.thread.is_alive()]
        is_extra = number >= self.placement.replicas[0]
        slot = self._slots[number] = Slot(number, self._terms, is_extra=is_extra)
        slot.thread.start()

    def _give_up(self, slot: Slot[Replica]) -> None:
        """Removes a slot whose thread will soon end."""
        if slot.failure is not None and slot.is_extra:
            self._grow_from = self._clock.now() + IDLE
        if self._slots.get(slot.number) is slot:
            del self._slots[slot.number]
            self._old.append(slot)
            self._changed.notify_all()
