"""The replicas of one placement: as many as are needed, those that were lost begun again.

Each replica has a thread, which starts it, waits until it is lost or not needed any more, and
starts the next one in its place. Calls are made on the callers' threads: each takes a place at a
replica that is ready, and gives it back.
"""

import contextlib
import logging
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from modelflow.config.placement import PlacementConfig
from modelflow.remote.message import Answers, Rows
from modelflow.remote.replica import NoReplicaError, Replica, ReplicaLostError, told
from modelflow.runtime.clock import SYSTEM_CLOCK, Clock

__all__ = ["Pool", "PoolFigures", "User"]

logger = logging.getLogger(__name__)

# Seconds between two tries to start a replica: doubled from the first to the second.
_PAUSES = (0.5, 5.0)
# Seconds without a call after which a replica beyond the least number is ended; and after one that
# could not be started, before another is tried.
_IDLE = 60.0
# Seconds after which who waits for the first replicas is told of it, then twice as many, ...
_TOLD_AFTER = 10.0


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


class User:
    """Who uses a pool: one far node of one flow."""

    __slots__ = ("is_gone",)

    def __init__(self) -> None:
        self.is_gone = False
        """It waits for nothing any more."""


class _Seat:
    """The place of a replica; guarded by the pool's lock."""

    def __init__(self, number: int, now: float) -> None:
        self.number = number
        self.replica: Replica | None = None
        self.is_ready = False
        self.is_lost = False
        self.busy = 0
        self.is_reserved = False
        self.used_at = now
        self.failure: Exception | None = None
        self.thread: threading.Thread | None = None


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
        self._make = make
        self._clock = clock
        self._changed = threading.Condition()
        self._seats: dict[int, _Seat] = {}
        self._old: list[threading.Thread] = []
        self._users: set[User] = set()
        self._is_closing = False
        self._grow_from = clock.now()
        self._waiting = self._calls = self._rows = self._lost = 0

    @property
    def _is_over(self) -> bool:
        """Nobody is left who waits for anything."""
        return all(user.is_gone for user in self._users)

    # -- users ----------------------------------------------------------------------------------

    def join(self) -> User:
        """Takes part: the first one has the least number of replicas begin; waits for none."""
        user = User()
        with self._changed:
            self._changed.wait_for(lambda: not self._is_closing)
            self._users.add(user)
            for number in range(self.placement.replicas[0]):
                if number not in self._seats:
                    self._seat(number)
        return user

    def wait(self, user: User) -> None:
        """Waits until the least number of replicas is ready.

        Raises:
            NoReplicaError: one did not start, or `abort` was called.
        """
        least = range(self.placement.replicas[0])

        def is_settled() -> bool:
            seats = [self._seats.get(number) for number in least]
            return user.is_gone or all(s is None or s.is_ready or s.failure for s in seats)

        pause = _TOLD_AFTER
        while not self._is_so_within(pause, is_settled):
            self._tell_of_start(least)
            pause *= 2
        with self._changed:
            failures = [
                seat.failure
                for seat in self._seats.values()
                if seat.number in least and not seat.is_ready and seat.failure
            ]
            is_gone = user.is_gone
        name = self.placement.name
        if is_gone:
            message = f"placement {name!r}: the flow ends before its replicas are ready"
            raise NoReplicaError(message)
        if failures:
            message = f"placement {name!r}: no replica: {told(failures[0])}"
            raise NoReplicaError(message) from failures[0]

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
            late = [seat.replica for seat in self._seats.values() if not seat.is_ready]
            ready = sum(seat.is_ready for seat in self._seats.values())
        needed = next(filter(None, (one.lacking() for one in late if one is not None)), "")
        name, told_of = self.placement.name, f"; the next one {needed}" if needed else ""
        logger.warning(
            "placement %r: %d of %d replicas are ready%s", name, ready, len(least), told_of
        )

    def leave(self, user: User) -> None:
        """Ends every replica when the last user leaves, and joins every thread."""
        with self._changed:
            self._users.discard(user)
            user.is_gone = True
            self._changed.notify_all()
            if self._users:
                return
            self._is_closing = True
            seats = list(self._seats.values())
            threads = [*self._old, *(seat.thread for seat in seats if seat.thread is not None)]
            starting = [seat.replica for seat in seats if not seat.is_ready]
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
        """Has a user wait no more; where that was the last one who did, ends every replica at once.

        Where others go on, calls of this one that are under way end as they would.
        """
        with self._changed:
            user.is_gone = True
            self._changed.notify_all()
            if not self._is_over:
                return
            replicas = [seat.replica for seat in self._seats.values()]
        for replica in replicas:
            if replica is not None:
                replica.kill()

    def figures(self) -> PoolFigures:
        """Returns the figures of this moment."""
        with self._changed:
            seats = self._seats.values()
            return PoolFigures(
                replicas=sum(seat.is_ready for seat in seats),
                starting=sum(not seat.is_ready for seat in seats),
                busy=sum(seat.busy for seat in seats),
                waiting=self._waiting,
                calls=self._calls,
                rows=self._rows,
                lost=self._lost,
            )

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
        with self._place(user, is_alone, patience) as seat:
            assert seat.replica is not None  # it is ready
            answers = seat.replica.call(rows, self.placement.timeout)
            with self._changed:
                self._calls += 1
                self._rows += len(rows)
            return answers

    @contextlib.contextmanager
    def _place(self, user: User, is_alone: bool, patience: float | None) -> Iterator[_Seat]:
        """Takes a place at a replica and gives it back."""
        seat = self._taken(user, is_alone, patience)
        is_lost = False
        try:
            yield seat
        except ReplicaLostError:
            is_lost = True
            raise
        finally:
            with self._changed:
                seat.busy -= 1
                seat.used_at = self._clock.now()
                if is_alone:
                    seat.is_reserved = False
                if is_lost:
                    self._lose(seat)
                self._changed.notify_all()

    def _taken(self, user: User, is_alone: bool, patience: float | None) -> _Seat:
        begun = without = self._clock.now()
        reserved: _Seat | None = None
        with self._changed:
            self._waiting += 1
            try:
                while not user.is_gone:
                    if reserved is not None and not reserved.is_ready:
                        reserved.is_reserved, reserved = False, None
                    seat = reserved or self._free(is_alone)
                    if seat is not None and is_alone and reserved is None:
                        reserved, seat.is_reserved = seat, True
                    if seat is not None and not (is_alone and seat.busy):
                        seat.busy += 1
                        reserved = None
                        return seat
                    if seat is None:
                        self._grow()
                    now = self._clock.now()
                    if any(seat.is_ready for seat in self._seats.values()):
                        without = now
                    left = self._left(now - begun, now - without, patience)
                    if left is not None and left <= 0:
                        break
                    self._clock.wait(self._changed, left)
                raise self._none(user, self._clock.now() - begun)
            finally:
                if reserved is not None:
                    reserved.is_reserved = False
                self._waiting -= 1

    def _left(self, waited: float, without: float, patience: float | None) -> float | None:
        """Returns how long a call may still wait; None: until something changes.

        Args:
            waited: How long it has.
            without: How long no replica has been ready.
            patience: How long it may wait at the most.
        """
        bounds = [] if patience is None else [patience - waited]
        if not any(seat.is_ready for seat in self._seats.values()):
            is_new = any(seat.failure is None for seat in self._seats.values())
            terms = self.placement
            bounds.append((terms.start_timeout if is_new else terms.timeout) - without)
        return min(bounds, default=None)

    def _free(self, is_alone: bool) -> _Seat | None:
        """Returns the less busy of two replicas that have room; None: none has."""
        most = self.placement.in_flight
        found = []
        for seat in self._seats.values():
            if seat.is_ready and seat.replica is not None and not seat.replica.is_alive():
                self._lose(seat)
            if seat.is_ready and not seat.is_reserved and (is_alone or seat.busy < most):
                found.append(seat)
        if len(found) > 2:
            found = random.sample(found, 2)
        return min(found, key=lambda seat: seat.busy, default=None)

    def _none(self, user: User, waited: float) -> NoReplicaError:
        name = self.placement.name
        if user.is_gone:
            return NoReplicaError(f"placement {name!r}: the flow ends; nothing is sent any more")
        failures = [seat.failure for seat in self._seats.values() if seat.failure is not None]
        last = f"; the last one: {told(failures[-1])}" if failures else ""
        return NoReplicaError(
            f"placement {name!r}: none of {len(self._seats)} replicas had room within "
            f"{waited:.3g} s{last}"
        )

    def _lose(self, seat: _Seat) -> None:
        if seat.is_ready:
            seat.is_ready, seat.is_lost = False, True
            self._lost += 1
            self._changed.notify_all()

    def _grow(self) -> None:
        """Begins one more replica, where there may be one and none is about to be ready."""
        if (
            len(self._seats) < self.placement.replicas[1]
            and self._clock.now() >= self._grow_from
            and all(seat.is_ready for seat in self._seats.values())
        ):
            self._seat(next(n for n in range(len(self._seats) + 1) if n not in self._seats))

    # -- replicas -------------------------------------------------------------------------------

    def _seat(self, number: int) -> None:
        self._old = [thread for thread in self._old if thread.is_alive()]
        seat = self._seats[number] = _Seat(number, self._clock.now())
        name = f"modelflow/placement {self.placement.name}/{number}"
        seat.thread = threading.Thread(target=self._keep, args=(seat,), name=name)
        seat.thread.start()

    def _keep(self, seat: _Seat) -> None:
        """Starts replicas at a seat, one after the other, until it is not needed any more."""
        pause = _PAUSES[0]
        is_over = False
        while not is_over:
            if self._start(seat):
                pause = _PAUSES[0]
                is_over = self._wait_for_end(seat)
            else:
                is_over = self._wait_to_try(seat, pause)
                pause = min(2 * pause, _PAUSES[1])

    def _start(self, seat: _Seat) -> bool:
        replica: Replica | None = None
        try:
            replica = self._make(seat.number)
            with self._changed:
                if self._is_over:
                    return False
                seat.replica, seat.is_lost = replica, False
            replica.start(self.placement.start_timeout)
        except Exception as error:  # noqa: BLE001 - told to `wait`, or to who waits for a replica
            self._has_not_started(seat, replica, error)
            return False
        with self._changed:
            seat.is_ready, seat.failure, seat.used_at = True, None, self._clock.now()
            self._changed.notify_all()
        return True

    def _has_not_started(self, seat: _Seat, replica: Replica | None, error: Exception) -> None:
        if replica is not None:
            _quietly(replica.kill)
            _quietly(replica.close)
        with self._changed:
            seat.failure, seat.replica = error, None
            is_over = self._is_over
            self._changed.notify_all()
        if not is_over:
            name, said = self.placement.name, told(error)
            logger.warning("placement %r: replica %d does not start: %s", name, seat.number, said)

    def _wait_for_end(self, seat: _Seat) -> bool:
        """Waits until the seat's replica is to end, and ends it; True: there is to be no other."""
        is_extra = seat.number >= self.placement.replicas[0]
        replica = seat.replica
        assert replica is not None  # it has started
        with self._changed:
            while not self._is_over and not seat.is_lost:
                left = seat.used_at + _IDLE - self._clock.now() if is_extra else None
                if left is not None and left <= 0 and not seat.busy and not seat.is_reserved:
                    break
                self._clock.wait(self._changed, None if left is None else max(left, 1.0))
            is_lost = seat.is_lost
            seat.is_ready = False
            is_over = self._is_over or not is_lost
            if is_over:
                self._give_up(seat)
        if is_lost:
            logger.warning("placement %r: lost replica %d", self.placement.name, seat.number)
            _quietly(replica.kill)
        with self._changed:
            while seat.busy:  # calls are told that it is lost, and go
                self._changed.wait()
        _quietly(replica.close)
        with self._changed:
            seat.replica = None
        return is_over

    def _give_up(self, seat: _Seat) -> None:
        """Has the seat be no seat any more; its thread ends soon."""
        if self._seats.get(seat.number) is seat:
            del self._seats[seat.number]
            if seat.thread is not None:
                self._old.append(seat.thread)
            self._changed.notify_all()

    def _wait_to_try(self, seat: _Seat, seconds: float) -> bool:
        """Waits before the next try; True: there is to be none."""
        with self._changed:
            now = self._clock.now()
            if seat.number >= self.placement.replicas[0]:  # it was worth a try
                self._grow_from = now + _IDLE
                self._give_up(seat)
                return True
            while not self._is_over and (left := now + seconds - self._clock.now()) > 0:
                self._clock.wait(self._changed, left)
            if self._is_over:
                self._give_up(seat)
            return self._is_over


def _quietly(end: Callable[[], None]) -> None:
    """Ends a replica; what goes wrong with that is logged, for there is nothing else to be done."""
    try:
        end()
    except Exception:
        logger.exception("a replica could not be ended")
