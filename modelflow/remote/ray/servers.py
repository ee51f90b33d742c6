"""A number of servers on a cluster, each with a listener; ended servers are replaced."""

import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable

from modelflow.errors import format_error
from modelflow.remote.replica import RemoteProcess
from modelflow.remote.slot import Slot, SlotSettings
from modelflow.runtime.clock import SYSTEM_CLOCK

# A server is added if each server has this many waiting rows on average, in this many successive
# checks. A server is removed if the others would have at most this many waiting rows each, on
# average of this many checks.
_BUSY_ROWS, _BUSY_LOOKS = 16, 3
_IDLE_ROWS, _IDLE_LOOKS = 0.5, 30


class Served(RemoteProcess):
    """A server in a slot."""

    address = ""
    """The address of the started server."""

    @abstractmethod
    def wait(self) -> str:
        """Waits for the end of the server; returns a description of the end."""

    @abstractmethod
    def waiting(self) -> int:
        """Returns the number of rows in the server's queues."""

    @abstractmethod
    def leave(self) -> None:
        """Marks the server as ending; returns at once."""


class ServerSlot(Slot[Served]):
    """The slot of a server, which waits for the server's end and reports the end."""

    def __init__(
        self, number: int, terms: SlotSettings[Served], say: Callable[[str], None]
    ) -> None:
        """Makes a slot; the server starts with the slot's thread."""
        super().__init__(number, terms)
        self._say = say
        self._how = ""

    def on_ready(self, replica: Served) -> None:
        """Reports the address of a server."""
        self._say(f"server {self.number} answers at {replica.address}")

    def on_failure(self, said: str) -> None:
        """Reports why a server did not start."""
        self._say(f"server {self.number} does not begin: {said}")

    def on_lost(self, _reason: str) -> None:
        """Reports nothing, because `_wait_for_end` reports the end."""

    def _wait_for_end(self) -> bool:
        assert self.replica is not None  # `_start` succeeded
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
    """The servers of a command, each in a slot."""

    def __init__(
        self,
        make: Callable[[int], Served],
        replicas: tuple[int, int],
        say: Callable[[str], None],
        start_timeout: float = 300.0,
    ) -> None:
        """Stores the settings; starts no server.

        Args:
            make: Makes a server with a number.
            replicas: The least and the most servers.
            say: Called with a line for each event, from any thread.
            start_timeout: The longest start of a server in seconds.
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
        """The addresses of the servers that are ready and not ending."""
        with self._changed:
            return [served.address for served in self._ready()]

    def _ready(self) -> list[Served]:
        """Returns the servers that answer; called with the lock held."""
        return [slot.replica for slot in self._slots if slot.is_ready and slot.replica is not None]

    def start(self) -> None:
        """Starts the least number of servers, and waits until all of them answer.

        Raises:
            ModelflowError: A server cannot start. All servers are then stopped.
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
        """Ends all servers after their open requests, and joins every thread."""
        with self._changed:
            self._is_over = True
            slots = [*self._slots, *self._old]
            for slot in slots:
                self._leave(slot)
        for slot in slots:
            slot.thread.join()

    def kill(self) -> None:
        """Kills all servers; from any thread, also during their start."""
        with self._changed:
            self._is_over = True
            served = [slot.replica for slot in (*self._slots, *self._old)]
            self._changed.notify_all()
        for one in served:
            if one is not None:
                one.kill()

    def roll(self) -> None:
        """Replaces each server by a new server, in sequence.

        An old server leaves only after its new server answers. If a new server cannot start, the
        remaining old servers stay.
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
                    self._say(f"not replaced, the old servers stay: {format_error(new.failure)}")
                    self._leave(new)
                    return
                self._leave(old)

    def look(self) -> None:
        """Checks how many rows wait, and starts or ends a server if needed."""
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
                self._say(f"{mean:.0f} rows wait at each server: one more starts")
                self._add()
            elif len(self._seen) == _IDLE_LOOKS and count > self._least:
                if sum(self._seen) / _IDLE_LOOKS > (count - 1) * _IDLE_ROWS:
                    return
                self._seen.clear()
                # A server that lacks a machine is removed before a server that answers.
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
        """Removes a server from `addresses`, and ends the server after its open requests."""
        if slot.is_ready and not slot.is_leaving:
            self._say(f"server {slot.number} leaves")
        slot.is_leaving = True
        if slot.replica is not None:  # now, because its successor may start before its thread wakes
            slot.replica.leave()
        self._give_up(slot)

    def _give_up(self, slot: Slot[Served]) -> None:
        if slot in self._slots:
            self._slots.remove(slot)
            self._old.append(slot)
        self._changed.notify_all()
