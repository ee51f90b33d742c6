"""A queue of the editor's tasks, which run sequentially and with a time limit for each.

A page may request a check of a text whose unit never returns from its import. A thread cannot be
ended from outside. After the limit the page gets an error, the thread is abandoned, and the next
task runs on a new thread.
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
    """A task.

    Attributes:
        do: Runs the task, on its own thread.
        on_late: Called if ``do`` has not returned in time.
        on_closed: Called if the queue was closed before ``do`` started or returned.
        is_done: Whether ``do`` has returned. Set by the queue.
    """

    do: Callable[[], object]
    on_late: Callable[[], object]
    on_closed: Callable[[], object]
    is_done: bool = False


class TaskQueue:
    """A queue that runs tasks in the order of their arrival. Safe from any thread."""

    def __init__(self, seconds: float, last_seconds: float, clock: Clock = SYSTEM_CLOCK) -> None:
        """Starts the thread, which waits for tasks.

        Args:
            seconds: The time limit of each task.
            last_seconds: The time that `close` waits for the current task.
            clock: The clock of all waits.
        """
        self._seconds = seconds
        self._last_seconds = last_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: deque[Task] = deque()
        self._is_closed = False
        # All threads are daemons: a task that never returns must not keep the program running.
        self._thread = threading.Thread(target=self._main, name=_NAME, daemon=True)
        self._thread.start()

    def take(self, work: Task) -> None:
        """Adds a task, which runs after all earlier tasks have ended or were abandoned."""
        with self._changed:
            if not self._is_closed:
                self._waiting.append(work)
                self._changed.notify_all()
                return
        work.on_closed()

    def close(self) -> None:
        """Refuses further tasks, waits a little for the current task, and drops all others."""
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
        for work in self._waiting:  # closed, so no task is added any more
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
        """Waits for the end of a task; returns False if the task did not end in time."""
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
    except Exception:  # noqa: BLE001 - an error of one task must not stop the other tasks
        _log.exception("the editor: %r raised", callback)
