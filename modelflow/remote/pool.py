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
from modelflow.errors import ModelflowError, described
from modelflow.remote.message import Answers, Rows
from modelflow.remote.replica import NoReplicaError, Replica, ReplicaLostError
from modelflow.runtime.clock import SYSTEM_CLOCK, Clock

__all__ = ["Pool", "PoolFigures"]

logger = logging.getLogger(__name__)

# Seconds between two tries to start a replica: doubled from the first to the second.
_PAUSES = (0.5, 5.0)
# Seconds without a call after which a replica beyond the least number is ended.
_IDLE = 60.0


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
    """The replicas of one placement, shared by the far nodes of whoever opened it."""

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
        self._leaving: list[_Seat] = []
        self._users = 0
        self._is_over = True
        self._waiting = self._calls = self._rows = self._lost = 0

    # -- life -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Starts the least number of replicas and waits until they are ready; counts its users.

        Raises:
            ModelflowError: one did not start, or `abort` was called.
        """
        with self._changed:
            self._users += 1
            if self._users == 1:
                self._is_over = False
                for number in range(self.placement.replicas[0]):
                    self._seat(number)
            least = list(self._seats.values())[: self.placement.replicas[0]]
            while not self._is_over and not all(seat.is_ready or seat.failure for seat in least):
                self._changed.wait()
            failure = next((seat.failure for seat in least if not seat.is_ready), None)
            is_over = self._is_over
        if failure is not None or is_over:
            self.close()
            raise self._not_started(failure)

    def _not_started(self, failure: Exception | None) -> ModelflowError:
        name = self.placement.name
        if failure is None:
            return NoReplicaError(
                f"placement {name!r}: the flow ends before its replicas are ready"
            )
        error = NoReplicaError(f"placement {name!r}: no replica: {_said(failure)}")
        error.__cause__ = failure
        return error

    def close(self) -> None:
        """Ends every replica when its last user is gone, and joins every thread."""
        with self._changed:
            self._users -= 1
            if self._users:
                return
            self._is_over = True
            self._changed.notify_all()
            seats = [*self._seats.values(), *self._leaving]
            starting = [seat.replica for seat in seats if seat.replica and not seat.is_ready]
        for replica in starting:
            replica.kill()
        for seat in seats:
            assert seat.thread is not None  # it was started with its seat
            seat.thread.join()
        with self._changed:
            self._seats.clear()
            self._leaving.clear()

    def abort(self) -> None:
        """Ends every replica at once: its user waits for answers no more.

        Where others use them, too, they go on, and calls of this one end as they would.
        """
        with self._changed:
            if self._users > 1:
                return
            self._is_over = True
            replicas = [seat.replica for seat in self._seats.values() if seat.replica]
            self._changed.notify_all()
        for replica in replicas:
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

    def call(self, rows: Rows, *, is_alone: bool = False, patience: float | None = None) -> Answers:
        """Has a batch worked on by the replica that is least busy.

        Args:
            rows: The batch.
            is_alone: Nothing else may be under way there: so that who is lost with the replica is
                whom to blame.
            patience: Seconds to wait for a replica; None: the placement's time-out.

        Raises:
            ReplicaLostError: the replica was lost; the batch may have been worked on or not.
            NoReplicaError: none was ready in time, or the pool ends.
            NotSendableError: something in the batch cannot be sent.
        """
        timeout = self.placement.timeout
        with self._place(is_alone, timeout if patience is None else patience) as seat:
            assert seat.replica is not None  # it is ready
            answers = seat.replica.call(rows, timeout)
            with self._changed:
                self._calls += 1
                self._rows += len(rows)
            return answers

    @contextlib.contextmanager
    def _place(self, is_alone: bool, patience: float) -> Iterator[_Seat]:
        """Takes a place at a replica and gives it back."""
        seat = self._taken(is_alone, patience)
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

    def _taken(self, is_alone: bool, patience: float) -> _Seat:
        due = self._clock.now() + patience
        reserved: _Seat | None = None
        with self._changed:
            self._waiting += 1
            try:
                while not self._is_over:
                    if reserved is not None and not reserved.is_ready:
                        reserved.is_reserved, reserved = False, None
                    seat = reserved or self._free(is_alone)
                    if seat is not None and is_alone and reserved is None:
                        reserved, seat.is_reserved = seat, True
                    if seat is not None and not (is_alone and seat.busy):
                        seat.busy += 1
                        return seat
                    if seat is None:
                        self._grow()
                    left = due - self._clock.now()
                    if left <= 0 or not self._clock.wait(self._changed, left):
                        break
                if reserved is not None:
                    reserved.is_reserved = False
                raise self._none(patience)
            finally:
                self._waiting -= 1

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

    def _none(self, patience: float) -> NoReplicaError:
        name = self.placement.name
        if self._is_over:
            return NoReplicaError(f"placement {name!r}: the flow ends; nothing is sent any more")
        failures = [seat.failure for seat in self._seats.values() if seat.failure is not None]
        last = f"; the last one: {_said(failures[-1])}" if failures else ""
        return NoReplicaError(
            f"placement {name!r}: none of {len(self._seats)} replicas had room within "
            f"{patience:g} s{last}"
        )

    def _lose(self, seat: _Seat) -> None:
        if seat.is_ready:
            seat.is_ready, seat.is_lost = False, True
            self._lost += 1
            self._changed.notify_all()

    def _grow(self) -> None:
        """Begins one more replica, where there may be one and none is about to be ready."""
        if len(self._seats) < self.placement.replicas[1] and all(
            seat.is_ready for seat in self._seats.values()
        ):
            self._seat(next(n for n in range(len(self._seats) + 1) if n not in self._seats))

    # -- replicas -------------------------------------------------------------------------------

    def _seat(self, number: int) -> None:
        seat = self._seats[number] = _Seat(number, self._clock.now())
        name = f"modelflow/placement {self.placement.name}/{number}"
        seat.thread = threading.Thread(target=self._keep, args=(seat,), name=name)
        seat.thread.start()

    def _keep(self, seat: _Seat) -> None:
        """Starts replicas at a seat, one after the other, until it is not needed any more."""
        pause = _PAUSES[0]
        while True:
            if self._start(seat):
                pause = _PAUSES[0]
                is_over = self._wait_for_end(seat)
            else:
                is_over = self._wait(pause)
                pause = min(2 * pause, _PAUSES[1])
            if is_over:
                return

    def _start(self, seat: _Seat) -> bool:
        replica = self._make(seat.number)
        with self._changed:
            if self._is_over:
                return False
            seat.replica, seat.is_lost = replica, False
        try:
            replica.start(self.placement.start_timeout)
        except Exception as error:  # noqa: BLE001 - told to `open`, or to who waits for a replica
            replica.kill()
            replica.close()
            with self._changed:
                seat.failure, seat.replica = error, None
                if not self._is_over:
                    logger.warning(
                        "placement %r: replica %d does not start: %s",
                        self.placement.name,
                        seat.number,
                        _said(error),
                    )
                self._changed.notify_all()
            return False
        with self._changed:
            seat.is_ready, seat.failure, seat.used_at = True, None, self._clock.now()
            self._changed.notify_all()
        return True

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
            is_lost, is_over = seat.is_lost, self._is_over
            seat.is_ready = False
            if not is_lost and not is_over:
                self._leaving.append(self._seats.pop(seat.number))  # not needed
                is_over = True
                self._changed.notify_all()
        if is_lost:
            logger.warning("placement %r: lost replica %d", self.placement.name, seat.number)
            replica.kill()
        with self._changed:
            while seat.busy:  # calls are told that it is lost, and go
                self._changed.wait()
        replica.close()
        with self._changed:
            seat.replica = None
        return is_over

    def _wait(self, seconds: float) -> bool:
        """Waits before the next try; True: there is to be none."""
        with self._changed:
            due = self._clock.now() + seconds
            while not self._is_over and (left := due - self._clock.now()) > 0:
                self._clock.wait(self._changed, left)
            return self._is_over


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, ModelflowError | TimeoutError) else described(error)
