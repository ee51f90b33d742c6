"""Work of the editor's pages, one piece after the other, with a limit on the time of each.

A page asks to look at a text whose unit never returns when it is imported. No thread can be ended
from outside: after the limit the page is told so, the thread is left alone, and the next piece has
a new thread.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from modelflow.runtime.clock import SYSTEM_CLOCK, Clock

_log = logging.getLogger(__name__)
_NAME = "modelflow-studio/clerk"


@dataclass(eq=False)
class Task:
    """A piece of work.

    Attributes:
        do: Does it; on a thread of its own.
        on_late: Called where ``do`` has not returned in time.
        on_closed: Called where the clerk was closed before ``do`` has begun, or has returned.
        is_done: ``do`` has returned; for the clerk.
    """

    do: Callable[[], object]
    on_late: Callable[[], object]
    on_closed: Callable[[], object]
    is_done: bool = False


class TaskQueue:
    """Does work in the order in which it came. Safe from any thread."""

    def __init__(self, seconds: float, last_seconds: float, clock: Clock = SYSTEM_CLOCK) -> None:
        """Begins to wait for work.

        Args:
            seconds: How long each piece may take.
            last_seconds: How long `close` waits for the piece that is being done.
            clock: What the waits go by.
        """
        self._seconds = seconds
        self._last_seconds = last_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: deque[Task] = deque()
        self._is_closed = False
        # Daemons, all of them: what never returns must not keep the program from its end.
        self._thread = threading.Thread(target=self._main, name=_NAME, daemon=True)
        self._thread.start()

    def take(self, work: Task) -> None:
        """Takes work, which is done when all that came before is done or given up."""
        with self._changed:
            if not self._is_closed:
                self._waiting.append(work)
                self._changed.notify_all()
                return
        work.on_closed()

    def close(self) -> None:
        """Takes no more; waits a little for what is being done, and does nothing else."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _main(self) -> None:
        while (work := self._next()) is not None:
            doing = threading.Thread(target=self._do, args=(work,), name=_NAME, daemon=True)
            doing.start()
            if self._wait_for(work):
                doing.join()
            else:
                _call(work.on_closed if self._is_closed else work.on_late)
        for work in self._waiting:  # closed: nobody adds to it any more
            _call(work.on_closed)

    def _next(self) -> Task | None:
        with self._changed:
            while not (self._waiting or self._is_closed):
                self._clock.wait(self._changed)
            return None if self._is_closed else self._waiting.popleft()

    def _do(self, work: Task) -> None:
        try:
            _call(work.do)
        finally:
            with self._changed:
                work.is_done = True
                self._changed.notify_all()

    def _wait_for(self, work: Task) -> bool:
        """Waits until work is done; False: it was not done in time."""
        end = self._clock.now() + self._seconds
        was_closed = False
        with self._changed:
            while not work.is_done:
                now = self._clock.now()
                if self._is_closed and not was_closed:
                    was_closed, end = True, min(end, now + self._last_seconds)
                if now >= end:
                    return False
                self._clock.wait(self._changed, end - now)
        return True


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:  # noqa: BLE001 - of one piece of work; the others are done all the same
        _log.exception("the editor: %r raised", callback)
