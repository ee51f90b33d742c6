"""The workers of an inbox that rest: who is woken, whose seat is lent, and when all are held.

Three workers rest when a batch comes: the last to have come is woken, or its seat is lent to the
thread that has brought the batch. Held, nobody is: whoever holds waits until all of them rest.
"""

import threading
from collections.abc import Sequence

from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import Lock
from modelflow.runtime.worker_slot import Handoff, WorkerSlot


class IdleWorkers:
    """Those who rest at an inbox, whose lock guards it."""

    __slots__ = ("_clock", "_quiet", "is_held", "seats")

    seats: list[WorkerSlot]
    """Those who rest; the last to come is the first to be woken."""
    is_held: bool
    """Nobody is given anything."""

    def __init__(self, lock: Lock, clock: Clock) -> None:
        """Takes the inbox's lock, and what the waits go by."""
        self.seats = []
        self.is_held = False
        self._quiet = threading.Condition(lock)
        self._clock = clock

    def rest(self, seat: WorkerSlot, timeout: float | None, *, is_ordered: bool) -> None:
        """Waits in a seat until it is woken; see `WorkerSlot.rest`."""
        self.seats.append(seat)
        if self.is_held:
            self._quiet.notify_all()
        try:
            seat.rest(self._clock, timeout, is_ordered=is_ordered)
        finally:
            self.seats.remove(seat)

    def offer(self, relay: Handoff | None) -> None:
        """Has one of those who rest woken, or its seat lent to who has brought what there is."""
        if self.is_held:
            return
        for seat in reversed(self.seats):
            if seat.tenant is None and not seat.is_called:
                if relay is None or not relay.takes(seat):
                    seat.wake()
                return

    def look_again(self) -> None:
        """Has who waits for all to rest look again: a seat was given back."""
        self._quiet.notify_all()

    def wake_all(self) -> None:
        """Wakes all of them, and who waits for them to rest."""
        for seat in self.seats:
            seat.wake()
        self._quiet.notify_all()

    def is_quiet(self, workers: int) -> bool:
        """Tells whether so many rest, all in their own seats."""
        return len(self.seats) >= workers and not any(seat.tenant for seat in self.seats)

    def wait(self) -> None:
        """Waits until somebody rests, a seat is given back, or all are woken."""
        self._clock.wait(self._quiet, None)

    def dismiss(self, seats: Sequence[WorkerSlot]) -> None:
        """Has the workers of these seats end, which rest."""
        for seat in seats:
            seat.is_leaving = True
            seat.wake()
