"""Calls from other threads to a server's thread, with a single wake-up for many."""

import asyncio
from collections import deque
from collections.abc import Callable


class LoopQueue:
    """A queue of calls from other threads to the thread of an event loop.

    While a wake-up is pending, no other is sent. A batch of 32 answers therefore wakes the loop
    once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._is_woken = False

    def post(self, call: Callable[[], None]) -> bool:
        """Schedules ``call`` on the loop, from any thread. Returns False if the loop has ended."""
        self._calls.append(call)
        if not self._is_woken:  # tested after the append; see `run`
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self.run)
            except RuntimeError:
                return False
        return True

    def run(self) -> None:
        """Runs all queued calls, on the loop's thread."""
        # Cleared before the queue is read. A call that arrives later wakes the loop again, so no
        # call is lost.
        self._is_woken = False
        while self._calls:
            call = self._calls.popleft()
            try:
                call()
            except Exception as error:  # noqa: BLE001 - the other calls still run
                context = {"message": f"{call!r} raised", "exception": error}
                self._loop.call_exception_handler(context)
