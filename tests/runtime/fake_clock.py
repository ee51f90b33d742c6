"""A clock that tests turn by hand."""

import threading

from modelflow.runtime.clock import Clock


class FakeClock(Clock):
    """Time stands still until `advance`; waits without a limit work as ever."""

    def __init__(self):
        self._now = 1000.0
        self._lock = threading.Condition()
        self._sleepers = {}

    def now(self):
        return self._now

    def wait(self, condition, timeout=None):
        if timeout is None:
            return condition.wait()
        deadline, key = self._now + timeout, object()
        with self._lock:
            self._sleepers[key] = (condition, deadline)
            self._lock.notify_all()
        condition.wait()
        with self._lock:
            del self._sleepers[key]
        return self._now < deadline

    def until_sleeping(self, count=1, timeout=60):
        """Returns when ``count`` threads wait for a time."""
        with self._lock:
            assert self._lock.wait_for(lambda: len(self._sleepers) >= count, timeout)

    def advance(self, seconds):
        """Moves the time on and wakes those whose time has come."""
        self._now += seconds
        with self._lock:
            due = [condition for condition, when in self._sleepers.values() if when <= self._now]
        for condition in due:
            with condition:
                condition.notify_all()
