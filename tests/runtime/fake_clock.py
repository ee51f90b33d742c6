"""Two clocks for tests: `FakeClock` advances by hand, and `Passing` while a thread waits."""

import threading

from modelflow.runtime.clock import Clock


class FakeClock(Clock):
    """A clock whose time changes only in `advance`; waits without a limit behave as usual."""

    def __init__(self):
        self._now = 1000.0
        self._lock = threading.Condition()
        self._sleepers = {}
        self._waiting = 0

    def now(self):
        return self._now

    def wait(self, condition, timeout=None):
        if timeout is None:
            with self._lock:
                self._waiting += 1
                self._lock.notify_all()
            try:
                return condition.wait()
            finally:
                with self._lock:
                    self._waiting -= 1
        deadline, key = self._now + timeout, object()
        with self._lock:
            self._sleepers[key] = (condition, deadline)
            self._lock.notify_all()
        condition.wait()
        with self._lock:
            del self._sleepers[key]
        return self._now < deadline

    def until_waiting(self, count=1, timeout=60):
        """Returns when ``count`` threads wait without a limit, for example for a lock."""
        with self._lock:
            assert self._lock.wait_for(lambda: self._waiting >= count, timeout)

    def until_sleeping(self, count=1, timeout=60):
        """Returns when ``count`` threads wait with a limit."""
        with self._lock:
            assert self._lock.wait_for(lambda: len(self._sleepers) >= count, timeout)

    def until_deadline(self, when, timeout=60):
        """Returns when a thread waits until ``when``."""
        with self._lock:
            assert self._lock.wait_for(
                lambda: any(deadline == when for _, deadline in self._sleepers.values()), timeout
            )

    def advance(self, seconds):
        """Advances the time and wakes the threads whose time limit is reached."""
        self._now += seconds
        with self._lock:
            due = [condition for condition, when in self._sleepers.values() if when <= self._now]
        for condition in due:
            with condition:
                condition.notify_all()


class Passing(Clock):
    """A clock that advances only while a thread waits; nothing else wakes the thread."""

    def __init__(self, longest=float("inf")):
        """Takes the number of seconds after which a waiting thread is woken too early."""
        self.time, self.waits = 1000.0, []
        self._longest = longest

    def now(self):
        return self.time

    def wait(self, condition, timeout=None):
        assert timeout is not None, "nobody would ever end this wait"
        self.waits.append(min(timeout, self._longest))
        assert len(self.waits) < 10
        self.time += self.waits[-1]
        return self.waits[-1] < timeout
