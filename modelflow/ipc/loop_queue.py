"""Calls from other threads to a server's, however many with one wake-up."""

import asyncio
from collections import deque
from collections.abc import Callable


class LoopQueue:
    """What other threads want done on the thread of an event loop.

    A batch of thirty-two answers wakes the loop once: while a wake-up is on its way, no other is
    sent.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._is_woken = False

    def post(self, call: Callable[[], None]) -> bool:
        """Has ``call`` called soon; from any thread. False: the loop has ended."""
        self._calls.append(call)
        if not self._is_woken:  # looked at behind the append; `run` clears it before it looks
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self.run)
            except RuntimeError:
                return False
        return True

    def run(self) -> None:
        """Makes the calls that are there, on the loop's thread."""
        self._is_woken = False
        while self._calls:
            call = self._calls.popleft()
            try:
                call()
            except Exception as error:  # noqa: BLE001 - one call's; the others are made all the same
                context = {"message": f"{call!r} raised", "exception": error}
                self._loop.call_exception_handler(context)
