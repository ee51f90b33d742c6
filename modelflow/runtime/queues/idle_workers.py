"""The idle workers of an inbox: which worker is woken, and which slot is lent.

Three workers are idle when a batch arrives. The inbox wakes the worker that became idle last, or
lends its slot to the thread that brought the batch. During `Inbox.hold` the inbox does neither.
"""

import threading
from collections.abc import Sequence

from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import Lock
from modelflow.runtime.worker_slot import Handoff, WorkerSlot


class IdleWorkers:
    """The idle workers of an inbox, guarded by the inbox's lock."""

    __slots__ = ("_clock", "_quiet", "is_held", "slots")

    slots: list[WorkerSlot]
    """The slots of the idle workers. The last one is woken first."""
    is_held: bool
    """True while no worker gets a batch; see `Inbox.hold`."""

    def __init__(self, lock: Lock, clock: Clock) -> None:
        """Creates an empty list of idle workers.

        Args:
            lock: The inbox's lock.
            clock: The clock of the waits.
        """
        self.slots = []
        self.is_held = False
        self._quiet = threading.Condition(lock)
        self._clock = clock

    def rest(self, slot: WorkerSlot, timeout: float | None, *, is_ordered: bool) -> None:
        """Waits until ``slot`` is woken; see `WorkerSlot.rest`."""
        self.slots.append(slot)
        if self.is_held:
            self._quiet.notify_all()
        try:
            slot.rest(self._clock, timeout, is_ordered=is_ordered)
        finally:
            self.slots.remove(slot)

    def offer(self, handoff: Handoff | None) -> None:
        """Wakes an idle worker, or lends its slot to the calling thread.

        Args:
            handoff: The slots of the calling thread, or None if the thread may borrow no slot.
        """
        if self.is_held:
            return
        for slot in reversed(self.slots):
            if slot.borrower is None and not slot.is_called:
                if handoff is None or not handoff.takes(slot):
                    slot.wake()
                return

    def look_again(self) -> None:
        """Wakes the thread in `hold` to check again, because a slot was given back."""
        self._quiet.notify_all()

    def wake_all(self) -> None:
        """Wakes all idle workers, and the thread that waits in `hold`."""
        for slot in self.slots:
            slot.wake()
        self._quiet.notify_all()

    def is_quiet(self, workers: int) -> bool:
        """Returns whether at least ``workers`` workers are idle and no slot is lent."""
        return len(self.slots) >= workers and not any(slot.borrower for slot in self.slots)

    def wait(self) -> None:
        """Waits until a worker becomes idle, a slot is given back, or all are woken."""
        self._clock.wait(self._quiet, None)

    def dismiss(self, slots: Sequence[WorkerSlot]) -> None:
        """Ends the idle workers of these slots."""
        for slot in slots:
            slot.is_leaving = True
            slot.wake()
