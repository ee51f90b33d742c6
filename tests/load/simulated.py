"""A clock that jumps to the next event, and targets on that clock: no test waits."""

import heapq
import itertools

from modelflow.runtime.clock import Clock


class Simulated(Clock):
    """A clock that advances while a thread waits, to the next event or to the end of the wait."""

    def __init__(self):
        self.time = 100.0
        self._events = []
        self._numbers = itertools.count()

    def now(self):
        return self.time

    def at(self, time, call):
        """Schedules a call at a time."""
        heapq.heappush(self._events, (time, next(self._numbers), call))

    def wait(self, condition, timeout=None):
        end = float("inf") if timeout is None else self.time + timeout
        if self._events and self._events[0][0] <= end:
            self._happen()
            return True
        assert timeout is not None, "the wait has no end, and no event is scheduled"
        self.time = end
        return False

    def pass_by(self, seconds):
        """Advances the time as for a busy thread, and runs the events of that time."""
        end = self.time + seconds
        while self._events and self._events[0][0] <= end:
            self._happen()
        self.time = end

    def _happen(self):
        time, _, call = heapq.heappop(self._events)
        self.time = max(self.time, time)
        call()


class Answering:
    """A target that answers each request after a time."""

    name = "answering"

    def __init__(self, clock, service=0.0, outcome="ok"):
        self.clock, self.service, self.outcome = clock, service, outcome
        self.submitted, self.cancelled = [], []

    def submit(self, attempts, on_room):
        for attempt in attempts:
            self.take(attempt)
        return len(attempts)

    def take(self, attempt):
        self.submitted.append(attempt)
        self.clock.at(self.clock.now() + self.service, lambda: attempt.on_end(self.outcome))

    def cancel(self, attempt):
        self.cancelled.append(attempt)


class Standing(Answering):
    """A target that blocks its caller for a second, once."""

    def __init__(self, clock, at, service=0.001):
        super().__init__(clock, service)
        self._at = at

    def submit(self, attempts, on_room):
        if self._at is not None and self.clock.now() >= self._at:
            self._at = None
            self.clock.pass_by(1.0)
        return super().submit(attempts, on_room)


class OneByOne(Answering):
    """A server with one worker, in which requests wait for each other."""

    def __init__(self, clock, service):
        super().__init__(clock, service)
        self._free = clock.now()

    def take(self, attempt):
        self.submitted.append(attempt)
        self._free = max(self._free, self.clock.now()) + self.service
        self.clock.at(self._free, attempt.on_end)


class Narrow(Answering):
    """A target with a bounded number of places; calls back when a place is free again."""

    def __init__(self, clock, service, room):
        super().__init__(clock, service)
        self._room, self._told, self.lots = room, None, []

    def submit(self, attempts, on_room):
        taken = min(self._room, len(attempts))
        self.lots.append(len(attempts))
        for attempt in attempts[:taken]:
            self.submitted.append(attempt)
            self._room -= 1
            self.clock.at(self.clock.now() + self.service, lambda one=attempt: self._end(one))
        if taken < len(attempts):
            self._told = on_room
        return taken

    def _end(self, attempt):
        self._room += 1
        attempt.on_end()
        told, self._told = self._told, None
        if told is not None:
            told()
