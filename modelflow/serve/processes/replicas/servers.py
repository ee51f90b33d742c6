"""Servers on a cluster: as many as are asked for, each with a listener, replaced when they end."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from modelflow.errors import format_error

_PAUSES = (0.5, 10.0)  # seconds between two tries to begin
# Rows that wait at each server, seen so often in a row, before there is one more. And how few wait
# in all for each server that would be left, on average of so many looks, before there is one less.
_BUSY_ROWS, _BUSY_LOOKS = 16, 3
_IDLE_ROWS, _IDLE_LOOKS = 0.5, 30


class Served(Protocol):
    """One server that is to be: it begins once."""

    def open(self) -> str:
        """Begins; returns its address when everything is loaded, and answers."""

    def wait(self) -> str:
        """Waits for its end; returns how it has ended."""

    def waiting(self) -> int:
        """Returns how many rows wait there."""

    def leave(self) -> None:
        """Takes note that it is to end; returns at once. `stop` follows if it has begun."""

    def stop(self) -> None:
        """Has it answer what it has taken on, and end."""

    def kill(self) -> None:
        """Ends it at once."""


@dataclass
class _Slot:
    """The place of a server; guarded by the lock of all."""

    number: int
    served: Served | None = None
    address: str = ""
    failure: Exception | None = None
    is_leaving: bool = False
    thread: threading.Thread | None = None


class Servers:
    """Keeps servers; each has a thread, which begins it, waits for its end, and begins the next."""

    def __init__(
        self, make: Callable[[int], Served], replicas: tuple[int, int], say: Callable[[str], None]
    ) -> None:
        """Begins nothing.

        Args:
            make: Makes a server of a number.
            replicas: How many at the least and at the most.
            say: Is told what happens, for people; from any thread.
        """
        self._make = make
        self._least, self._most = replicas
        self._say = say
        self._changed = threading.Condition()
        self._posts: list[_Slot] = []
        self._old: list[_Slot] = []
        self._count = 0
        self._is_over = False
        self._busy = 0
        self._seen: deque[int] = deque(maxlen=_IDLE_LOOKS)

    @property
    def addresses(self) -> list[str]:
        """Where the servers answer that are ready and do not leave."""
        with self._changed:
            return [post.address for post in self._posts if post.address]

    def start(self) -> None:
        """Begins the least number, and waits until all of them answer.

        Raises:
            ModelflowError: one of them cannot begin; none is left.
        """
        with self._changed:
            first = [self._add() for _ in range(self._least)]
            while not self._is_over and not all(post.address or post.failure for post in first):
                self._changed.wait()
            failure = next((post.failure for post in first if post.failure), None)
        if failure is not None:
            self.stop()
            raise failure

    def stop(self) -> None:
        """Has all of them answer what they have taken on, and end; joins every thread."""
        with self._changed:
            self._is_over = True
            posts = [*self._posts, *self._old]
            for post in posts:
                self._leave(post)
        for post in posts:
            assert post.thread is not None  # begun with its post
            post.thread.join()

    def kill(self) -> None:
        """Ends all at once; from any thread, also while they begin."""
        with self._changed:
            self._is_over = True
            served = [post.served for post in (*self._posts, *self._old)]
            self._changed.notify_all()
        for one in served:
            if one is not None:
                one.kill()

    def roll(self) -> None:
        """Replaces each server by a new one, one after the other.

        The new one answers before the old one leaves; where it cannot begin the old ones stay.
        """
        with self._changed:
            before = list(self._posts)
        for old in before:
            with self._changed:
                if self._is_over:
                    return
                new = self._add()
                self._changed.wait_for(lambda: self._is_over or new.address or new.failure)  # noqa: B023
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
            ready = [post for post in self._posts if post.address]
        known = [post.served for post in ready]  # one that has just ended is none
        rows = [served.waiting() for served in known if served is not None]
        if not rows:
            return
        mean = sum(rows) / len(rows)
        self._busy = self._busy + 1 if mean >= _BUSY_ROWS else 0
        self._seen.append(sum(rows))
        with self._changed:
            count = len(self._posts)
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
                    next((post for post in self._posts if not post.address), self._posts[-1])
                )

    # -- one server -----------------------------------------------------------------------------

    def _add(self) -> _Slot:
        post = _Slot(self._count)
        self._count += 1
        self._posts.append(post)
        name = f"modelflow/ray server {post.number}"
        post.thread = threading.Thread(target=self._keep, args=(post,), name=name)
        post.thread.start()
        return post

    def _leave(self, post: _Slot) -> None:
        """Has a server leave: nobody is told of it any more, and it ends in its own time."""
        if post.address and not post.is_leaving:
            self._say(f"server {post.number} leaves")
        post.is_leaving = True
        if post.served is not None:  # now: the next one may be begun before its thread wakes
            post.served.leave()
        if post in self._posts:
            self._posts.remove(post)
            self._old.append(post)
        self._changed.notify_all()

    def _keep(self, post: _Slot) -> None:
        pause = _PAUSES[0]
        while True:
            served = self._make(post.number)
            with self._changed:
                if post.is_leaving or self._is_over:
                    return
                post.served = served
            try:
                address = served.open()
            except Exception as error:  # noqa: BLE001 - told to `start`, or to people
                served.kill()
                if self._has_failed(post, error, pause):
                    return
                pause = min(2 * pause, _PAUSES[1])
                continue
            pause = _PAUSES[0]
            with self._changed:
                post.address, post.failure = address, None
                self._changed.notify_all()
            self._say(f"server {post.number} answers at {address}")
            if self._has_left(post, served):
                return

    def _has_failed(self, post: _Slot, error: Exception, pause: float) -> bool:
        """Notes that a server did not begin, and waits; True: there is to be no other."""
        with self._changed:
            post.failure = error
            self._changed.notify_all()
            is_over = post.is_leaving or self._is_over
            if not is_over:
                self._say(f"server {post.number} does not begin: {format_error(error)}")
                self._changed.wait_for(lambda: post.is_leaving or self._is_over, pause)
            return post.is_leaving or self._is_over

    def _has_left(self, post: _Slot, served: Served) -> bool:
        """Waits for the end of a server, told to or not; True: there is to be no other."""
        ender = threading.Thread(
            target=self._end_when_told, args=(post, served), name=f"modelflow/ray end {post.number}"
        )
        ender.start()
        how = served.wait()
        with self._changed:
            is_meant = post.is_leaving or self._is_over
            post.address, post.served = "", None
            self._changed.notify_all()
        ender.join()
        self._say(f"server {post.number} has ended" + ("" if is_meant else f": {how}"))
        return is_meant

    def _end_when_told(self, post: _Slot, served: Served) -> None:
        with self._changed:
            self._changed.wait_for(lambda: post.is_leaving or post.served is not served)
            is_there = post.served is served
        if is_there:
            served.stop()
