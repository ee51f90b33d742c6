"""Who runs the next batch of a stage: its worker's own thread, or a thread that has brought it.

A thread of node "decode" emits an image while the only worker of "resize" rests. Waking that one
costs two switches of threads; a resize known to be cheap costs less. So the thread is lent the slot
of the resting worker, runs the batch itself, and gives the slot back. Queue, order, bounds, figures
and errors are those of "resize" all the same; its own thread sleeps on.
"""

import threading
from collections import deque
from collections.abc import Sized
from typing import TYPE_CHECKING, Protocol

from modelflow.runtime.stats import WorkerStats

if TYPE_CHECKING:
    from modelflow.runtime.clock import Clock
    from modelflow.runtime.locks import Lock
    from modelflow.unit.unit import FlowUnit


# Seconds that a call may take on another stage's thread, which its own work then waits for. About
# what it costs to wake a thread on a busy machine; longer calls would gain nothing.
CHEAP = 300e-6


class SlotOwner(Protocol):
    """What a slot belongs to: a worker."""

    def stand_in(self, handoff: "Handoff") -> None:
        """Does one batch of what waits, on the calling thread, and gives the slot back."""

    def rise(self, handoff: "Handoff", *, is_owing: bool) -> None:
        """Gives back the slot that ``handoff`` was lent; harmless where that was done before."""


class WorkerSlot:
    """A worker's place at its inbox, whose lock guards it. One thread at a time is in it."""

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
    """Whose it is; None: of somebody who only takes."""
    is_lendable: bool
    """Other threads may run the unit."""
    borrower: "Handoff | None"
    """Who else is in it, or will be: the worker's own thread must not take anything."""
    is_called: bool
    """The worker's own thread was woken, and has not looked yet."""
    is_owing: bool
    """Who was in it last has not waited for room behind the stage."""
    is_leaving: bool
    """Its worker is to end."""
    stats: WorkerStats
    """What its worker counts."""

    def __init__(
        self, lock: "Lock", worker: SlotOwner | None = None, stats: WorkerStats | None = None
    ) -> None:
        """Takes the inbox's lock, whose it is, and what its calls cost."""
        self.worker = worker
        self.borrower = None
        self.stats = stats or WorkerStats()
        self.is_lendable = self.is_called = self.is_owing = self.is_leaving = False
        self._condition = threading.Condition(lock)

    @property
    def is_cheap(self) -> bool:
        """Tells whether a call is known to be shorter than what it costs to wake a thread."""
        return self.stats.cost < CHEAP

    def note_part(self) -> None:
        """Notes that the batch which is cut now leaves the rest of what waits to other workers."""
        self.stats.is_part = True

    def rest(self, clock: "Clock", timeout: float | None, *, is_ordered: bool = False) -> None:
        """Waits until `wake`, or for ``timeout`` seconds; with the lock held.

        Args:
            clock: What the wait goes by.
            timeout: The longest one; None: as long as it takes.
            is_ordered: There are rows, which others have to come before.
        """
        self.is_called = False  # it has just looked, whoever was to be told something before
        stats = self.stats
        stats.is_ordered = is_ordered
        stats.resting_since = clock.now()
        try:
            clock.wait(self._condition, timeout)
        finally:
            stats.end_rest(clock.now())

    def wake(self) -> None:
        """Wakes the worker's own thread, if it rests; with the lock held."""
        # All, though there is one: a Ctrl-C in an earlier call may have left a waiter who is gone.
        self._condition.notify_all()
        self.is_called = True  # second: a Ctrl-C in between must not leave it asleep


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
    """The slots that a thread was lent, and goes on with when it has emitted. For that thread."""

    __slots__ = ("_home", "_is_in", "_is_laden", "_known", "slots")

    slots: deque[WorkerSlot]
    """Those that it has not given back; it is in the first, or will be."""

    def __init__(self, home: object, known: Sized = ()) -> None:
        """Begins with nothing.

        Args:
            home: True where something waits for the thread's own worker; None: it has none, but is
                a caller's, who works for the answer that it waits for.
            known: The sessions of the flow: the caller's alone, or others wait as well.
        """
        self.slots = deque()
        self._home = home
        self._known = known
        self._is_in = False  # the first of its seats
        self._is_laden = False  # it is to make a call that is not known to be cheap

    def takes(self, slot: WorkerSlot) -> bool:
        """Takes the slot of a worker that rests, or leaves it: then that one is to be woken.

        A worker's does with calls known to be cheap, while nothing waits for it at home: what comes
        there meanwhile waits no longer than for one such call. A caller, who has nothing else to
        do, takes any, as long as nobody else is in the flow with whose rows its own could be one
        batch; but nothing beside a long call, which branches make side by side. With the lock of
        the inbox held.
        """
        home = self._home
        if home or self._is_laden or not slot.is_lendable:
            return False
        if slot.stats.cost >= CHEAP:
            if home is not None or len(self._known) > 1 or len(self.slots) > self._is_in:
                return False
            self._is_laden = True
        self.slots.append(slot)  # first: a seat with a tenant who does not know it is lost
        slot.borrower = self
        return True

    def go_on(self) -> None:
        """Does a batch on each slot that it was lent, and on those that it is lent by them.

        After a Ctrl-C, or a fault of the runtime, `give_back` must follow.
        """
        slots = self.slots
        try:
            while slots:
                self._is_in, self._is_laden = True, False
                worker = slots[0].worker
                assert worker is not None  # no other is lent
                worker.stand_in(self)
                slots.popleft()
        finally:
            self._is_in = False

    def give_back(self) -> None:
        """Gives back every slot, as far as it has gone; harmless where that was done before."""
        while self.slots:
            worker = self.slots[0].worker
            assert worker is not None  # as above
            worker.rise(self, is_owing=True)
            self.slots.popleft()


def is_any_thread(unit: "FlowUnit") -> bool:
    """Tells whether a unit may be called on another thread than the one that has opened it.

    The nearest class that says so counts, or that makes something: a mixin or a dataclass may.
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
