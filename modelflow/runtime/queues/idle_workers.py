"""The workers of an inbox that rest: who is woken, whose slot is lent, and when all are held.

Three workers rest when a batch comes: the last to have come is woken, or its slot is lent to the
thread that has brought the batch. Held, nobody is: whoever holds waits until all of them rest.
"""

import threading
from collections.abc import Sequence

from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import Lock
from modelflow.runtime.worker_slot import Handoff, WorkerSlot


class IdleWorkers:
    """Those who rest at an inbox, whose lock guards it."""

    __slots__ = ("_clock", "_quiet", "is_held", "slots")

    slots: list[WorkerSlot]
    """Those who rest; the last to come is the first to be woken."""
    is_held: bool
    """Nobody is given anything."""

    def __init__(self, lock: Lock, clock: Clock) -> None:
        """Takes the inbox's lock, and what the waits go by."""
        self.slots = []
        self.is_held = False
        self._quiet = threading.Condition(lock)
        self._clock = clock

    def rest(self, slot: WorkerSlot, timeout: float | None, *, is_ordered: bool) -> None:
        """Waits in a slot until it is woken; see `WorkerSlot.rest`."""
        self.slots.append(slot)
        if self.is_held:
            self._quiet.notify_all()
        try:
            slot.rest(self._clock, timeout, is_ordered=is_ordered)
        finally:
            self.slots.remove(slot)

    def offer(self, handoff: Handoff | None) -> None:
        """Has one of those who rest woken, or its slot lent to who has brought what there is."""
        if self.is_held:
            return
        for slot in reversed(self.slots):
            if slot.borrower is None and not slot.is_called:
                if handoff is None or not handoff.takes(slot):
                    slot.wake()
                return

    def look_again(self) -> None:
        """Has who waits for all to rest look again: a slot was given back."""
        self._quiet.notify_all()

    def wake_all(self) -> None:
        """Wakes all of them, and who waits for them to rest."""
        for slot in self.slots:
            slot.wake()
        self._quiet.notify_all()

    def is_quiet(self, workers: int) -> bool:
        """Tells whether so many rest, all in their own slots."""
        return len(self.slots) >= workers and not any(slot.borrower for slot in self.slots)

    def wait(self) -> None:
        """Waits until somebody rests, a slot is given back, or all are woken."""
        self._clock.wait(self._quiet, None)

    def dismiss(self, slots: Sequence[WorkerSlot]) -> None:
        """Has the workers of these slots end, which rest."""
        for slot in slots:
            slot.is_leaving = True
            slot.wake()
