"""Worker slots, each for use by its worker, or by a thread that borrows the slot for a batch.

Example: a thread of node "decode" emits an image while the only worker of "resize" is idle. Waking
that worker costs two thread switches, and a fast resize costs less. Therefore the thread borrows
the slot of the idle worker, runs the batch itself, and gives the slot back. The batch still uses
the queue, order, limits, statistics and errors of "resize". The worker's own thread stays asleep.
"""

import sys
import threading
from collections import deque
from collections.abc import Sized
from typing import TYPE_CHECKING, Protocol

from modelflow.runtime.stats import WorkerStats

if TYPE_CHECKING:
    from modelflow.runtime.clock import Clock
    from modelflow.runtime.locks import Lock
    from modelflow.unit.unit import FlowUnit


# The longest expected call in seconds that another stage's thread runs, because its own work waits
# meanwhile. This is about the cost of waking a thread on a busy machine. Longer calls would gain
# nothing.
CHEAP = 300e-6


class SlotOwner(Protocol):
    """The owner of a slot: a worker."""

    def stand_in(self, handoff: "Handoff") -> None:
        """Processes one waiting batch on the calling thread, and gives the slot back."""

    def rise(self, handoff: "Handoff", *, is_owing: bool) -> None:
        """Gives back the slot that ``handoff`` has borrowed. A second call has no effect."""


class WorkerSlot:
    """The right to process batches of an inbox, guarded by its lock and held by one thread."""

    __slots__ = (
        "_condition",
        "borrower",
        "is_called",
        "is_leaving",
        "is_lendable",
        "is_owing",
        "stats",
        "worker",
    )

    worker: SlotOwner | None
    """The worker of the slot; None for a caller that only takes batches."""
    is_lendable: bool
    """True if other threads may run the unit."""
    borrower: "Handoff | None"
    """The handoff that has borrowed the slot; the worker's own thread then takes no batch."""
    is_called: bool
    """True if the worker's own thread was woken, and has not checked the inbox yet."""
    is_owing: bool
    """True if the last thread in the slot has not waited for room after the stage."""
    is_leaving: bool
    """True if the worker must end."""
    stats: WorkerStats
    """The counters of the worker."""

    def __init__(
        self, lock: "Lock", worker: SlotOwner | None = None, stats: WorkerStats | None = None
    ) -> None:
        """Makes an unused slot.

        Args:
            lock: The lock of the inbox.
            worker: The worker of the slot, or None for a caller that only takes batches.
            stats: The counters of the worker.
        """
        self.worker = worker
        self.borrower = None
        self.stats = stats or WorkerStats()
        self.is_lendable = self.is_called = self.is_owing = self.is_leaving = False
        self._condition = threading.Condition(lock)

    @property
    def is_cheap(self) -> bool:
        """Returns whether the expected call is cheaper than waking a thread."""
        return self.stats.cost < CHEAP

    def note_part(self) -> None:
        """Notes that the next batch leaves some waiting rows to other workers."""
        self.stats.is_part = True

    def rest(self, clock: "Clock", timeout: float | None, *, is_ordered: bool = False) -> None:
        """Waits until `wake`, or for ``timeout`` seconds. The caller holds the lock.

        Args:
            clock: The clock of the wait.
            timeout: The longest wait in seconds, or None for no limit.
            is_ordered: True if rows are waiting that must come after other rows.
        """
        # the thread has just checked the inbox, so earlier wake-ups are done
        self.is_called = False
        stats = self.stats
        stats.is_ordered = is_ordered
        stats.resting_since = clock.now()
        try:
            clock.wait(self._condition, timeout)
        finally:
            stats.end_rest(clock.now())

    def wake(self) -> None:
        """Wakes the worker's own thread from `rest`. The caller holds the lock."""
        # All waiters, although only one thread waits: a Ctrl-C in an earlier wait may have left a
        # stale waiter, which `notify` could choose. This is `notify_all` without a second call.
        self._condition.notify(sys.maxsize)
        # after the notify, because a Ctrl-C between the two lines must not leave the thread asleep
        self.is_called = True


# Example: "decode" feeds "resize". Each has one thread. A call of "resize" takes 50 µs, less than
# `CHEAP`, and no rows wait for "decode"::
#
#     thread of "decode"                          slot of "resize"    thread of "resize"
#     Worker.run: emits an image                  free                asleep in Inbox.take
#       Inbox.append -> offer -> takes(slot)      lent                asleep, not woken
#     Handoff.go_on -> Worker.stand_in
#       take_nowait, run: resizes the image       lent                asleep
#       rise -> Inbox.give_back                   free                asleep, or woken
#     Inbox.take: waits for the next batch
#
# `give_back` wakes the thread of "resize" if more rows wait for "resize". It also does if the queue
# behind "resize" is full. Then the thread of "resize" waits for room, and "decode" goes on.
class Handoff:
    """The slots that a thread has borrowed to process their batches after its own results.

    Only that thread may use this object.
    """

    __slots__ = ("_home", "_is_in", "_is_laden", "_known", "slots")

    slots: deque[WorkerSlot]
    """The borrowed slots; the thread is in the first of them, or will be next."""

    def __init__(self, home: object, known: Sized = ()) -> None:
        """Starts without borrowed slots.

        Args:
            home: An object that is true if rows wait for the thread's own worker. None for a
                caller's thread, which processes the rows of its own request.
            known: The open sessions of the flow: that of the caller, and perhaps others.
        """
        self.slots = deque()
        self._home = home
        self._known = known
        self._is_in = False  # True while the thread is in the first slot
        self._is_laden = False  # True if the thread will make a call that may be long

    def takes(self, slot: WorkerSlot) -> bool:
        """Borrows the slot of an idle worker, or returns False if that worker must be woken.

        The thread of a worker borrows slots with cheap calls only, while no rows wait for its own
        worker. Rows that arrive there meanwhile wait for at most one such call. A caller's thread
        has no other work, so it also borrows slots with long calls. It does so only if no other
        session could share a batch. It borrows nothing in addition to a long call, because branches
        of the graph make long calls in parallel. The caller holds the lock of the inbox.
        """
        home = self._home
        if home or self._is_laden or not slot.is_lendable:
            return False
        if slot.stats.cost >= CHEAP:
            if home is not None or len(self._known) > 1 or len(self.slots) > self._is_in:
                return False
            self._is_laden = True
        # before `borrower`, because a Ctrl-C between the two lines would lose a slot that has a
        # borrower but is not in `slots`
        self.slots.append(slot)
        slot.borrower = self
        return True

    def go_on(self) -> None:
        """Processes a batch on each borrowed slot, including slots that are borrowed meanwhile.

        After a Ctrl-C, or an error of the runtime, the caller must call `give_back`.
        """
        slots = self.slots
        try:
            while slots:
                self._is_in, self._is_laden = True, False
                worker = slots[0].worker
                assert worker is not None  # only slots with a worker are lent
                worker.stand_in(self)
                slots.popleft()
        finally:
            self._is_in = False

    def give_back(self) -> None:
        """Gives back every slot that is still borrowed. A second call has no effect."""
        while self.slots:
            worker = self.slots[0].worker
            assert worker is not None  # as in `go_on`
            worker.rise(self, is_owing=True)
            self.slots.popleft()


def is_any_thread(unit: "FlowUnit") -> bool:
    """Returns whether a unit may be called on another thread than its opening thread.

    The nearest class in the MRO that sets ``is_any_thread`` decides. If a nearer class has an
    ``open`` or ``__init__`` of its own, the answer is False, because these may create objects of
    one thread.
    """
    if unit.spec is not None and unit.spec.is_compute_bound:
        return True
    for kind in type(unit).__mro__:
        own = vars(kind)
        if "is_any_thread" in own:
            return bool(own["is_any_thread"])
        if "open" in own or "__init__" in own:
            break
    return False
