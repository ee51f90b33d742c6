"""Servers on a cluster: as many as are asked for, each with a listener, replaced when they end."""

import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable

from modelflow.errors import format_error
from modelflow.remote.replica import RemoteProcess
from modelflow.remote.slot import Slot, SlotSettings
from modelflow.runtime.clock import SYSTEM_CLOCK

# Rows that wait at each server, seen so often in a row, before there is one more. And how few wait
# in all for each server that would be left, on average of so many looks, before there is one less.
_BUSY_ROWS, _BUSY_LOOKS = 16, 3
_IDLE_ROWS, _IDLE_LOOKS = 0.5, 30


class Served(RemoteProcess):
    """One server that is to be."""

    address = ""
    """Where it answers, once it has started."""

    @abstractmethod
    def wait(self) -> str:
        """Waits for its end; returns how it has ended."""

    @abstractmethod
    def waiting(self) -> int:
        """Returns how many rows wait there."""

    @abstractmethod
    def leave(self) -> None:
        """Takes note that it is to end; returns at once."""


class ServerSlot(Slot[Served]):
    """The slot of a server, whose end is waited for, and told to people."""

    def __init__(
        self, number: int, terms: SlotSettings[Served], say: Callable[[str], None]
    ) -> None:
        """Begins nothing."""
        super().__init__(number, terms)
        self._say = say
        self._how = ""

    def on_ready(self, replica: Served) -> None:
        """Says where a server answers."""
        self._say(f"server {self.number} answers at {replica.address}")

    def on_failure(self, said: str) -> None:
        """Says why a server does not begin."""
        self._say(f"server {self.number} does not begin: {said}")

    def on_lost(self, _reason: str) -> None:
        """Says nothing: how a server has ended is said when its end was seen."""

    def _wait_for_end(self) -> bool:
        assert self.replica is not None  # it has started
        name = f"modelflow/server end {self.number}"
        watching = threading.Thread(target=self._watch, args=(self.replica,), name=name)
        watching.start()
        is_over = super()._wait_for_end()
        watching.join()
        self._say(f"server {self.number} has ended" + ("" if is_over else f": {self._how}"))
        return is_over

    def _watch(self, served: Served) -> None:
        how = served.wait()
        with self._terms.changed:
            self._how = how
            self.lose()


class Servers:
    """Keeps servers, each in a slot."""

    def __init__(
        self,
        make: Callable[[int], Served],
        replicas: tuple[int, int],
        say: Callable[[str], None],
        start_timeout: float = 300.0,
    ) -> None:
        """Begins nothing.

        Args:
            make: Makes a server of a number.
            replicas: How many at the least and at the most.
            say: Is told what happens, for people; from any thread.
            start_timeout: Seconds that a server may take to begin.
        """
        self._least, self._most = replicas
        self._say = say
        self._changed = threading.Condition()
        self._terms = SlotSettings(
            "server",
            start_timeout,
            make,
            SYSTEM_CLOCK,
            self._changed,
            lambda: self._is_over,
            self._give_up,
            lambda _: None,  # a server has no report
        )
        self._slots: list[Slot[Served]] = []
        self._old: list[Slot[Served]] = []
        self._count = 0
        self._is_over = False
        self._busy = 0
        self._seen: deque[int] = deque(maxlen=_IDLE_LOOKS)

    @property
    def addresses(self) -> list[str]:
        """Where the servers answer that are ready and do not leave."""
        with self._changed:
            return [served.address for served in self._ready()]

    def _ready(self) -> list[Served]:
        """Returns the servers that answer; the lock is held."""
        return [slot.replica for slot in self._slots if slot.is_ready and slot.replica is not None]

    def start(self) -> None:
        """Begins the least number, and waits until all of them answer.

        Raises:
            ModelflowError: one of them cannot begin; none is left.
        """
        with self._changed:
            first = [self._add() for _ in range(self._least)]
            while not self._is_over and not all(slot.is_ready or slot.failure for slot in first):
                self._changed.wait()
            failure = next((slot.failure for slot in first if slot.failure), None)
        if failure is not None:
            self.stop()
            raise failure

    def stop(self) -> None:
        """Has all of them answer what they have taken on, and end; joins every thread."""
        with self._changed:
            self._is_over = True
            slots = [*self._slots, *self._old]
            for slot in slots:
                self._leave(slot)
        for slot in slots:
            slot.thread.join()

    def kill(self) -> None:
        """Ends all at once; from any thread, also while they begin."""
        with self._changed:
            self._is_over = True
            served = [slot.replica for slot in (*self._slots, *self._old)]
            self._changed.notify_all()
        for one in served:
            if one is not None:
                one.kill()

    def roll(self) -> None:
        """Replaces each server by a new one, one after the other.

        The new one answers before the old one leaves; where it cannot begin the old ones stay.
        """
        with self._changed:
            before = list(self._slots)
        for old in before:
            with self._changed:
                if self._is_over:
                    return
                new = self._add()
                self._changed.wait_for(lambda: self._is_over or new.is_ready or new.failure)  # noqa: B023
                if new.failure is not None:
                    self._say(
                        f"not replaced, those that are there stay: {format_error(new.failure)}"
                    )
                    self._leave(new)
                    return
                self._leave(old)

    def look(self) -> None:
        """Asks how many rows wait, and begins or ends a server where that is due."""
        with self._changed:
            ready = self._ready()
        rows = [served.waiting() for served in ready]
        if not rows:
            return
        mean = sum(rows) / len(rows)
        self._busy = self._busy + 1 if mean >= _BUSY_ROWS else 0
        self._seen.append(sum(rows))
        with self._changed:
            count = len(self._slots)
            if self._is_over:
                return
            if self._busy >= _BUSY_LOOKS and len(ready) == count < self._most:
                self._busy = 0
                self._seen.clear()
                self._say(f"{mean:.0f} rows wait at each server: one more begins")
                self._add()
            elif len(self._seen) == _IDLE_LOOKS and count > self._least:
                if sum(self._seen) / _IDLE_LOOKS > (count - 1) * _IDLE_ROWS:
                    return
                self._seen.clear()
                # One that does not begin, for want of a machine, goes before one that answers.
                self._leave(
                    next((slot for slot in self._slots if not slot.is_ready), self._slots[-1])
                )

    def _add(self) -> ServerSlot:
        slot = ServerSlot(self._count, self._terms, self._say)
        self._count += 1
        self._slots.append(slot)
        slot.thread.start()
        return slot

    def _leave(self, slot: Slot[Served]) -> None:
        """Has a server leave: nobody is told of it any more, and it ends in its own time."""
        if slot.is_ready and not slot.is_leaving:
            self._say(f"server {slot.number} leaves")
        slot.is_leaving = True
        if slot.replica is not None:  # now: the next one may be begun before its thread wakes
            slot.replica.leave()
        self._give_up(slot)

    def _give_up(self, slot: Slot[Served]) -> None:
        if slot in self._slots:
            self._slots.remove(slot)
            self._old.append(slot)
        self._changed.notify_all()
