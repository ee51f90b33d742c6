"""Tests of a deadline for the next data."""

from modelflow.http.connections import IdleTimer


class Loop:
    """A loop whose time the test sets."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def time(self):
        return self.now

    def call_at(self, when, call):
        self.timers.append(Timer(when, call))
        return self.timers[-1]

    def go(self, now):
        """Advances the time."""
        self.now = now
        due = [one for one in self.timers if one.at <= now]
        self.timers = [one for one in self.timers if one.at > now]
        for one in due:
            one.run()


class Timer:
    def __init__(self, at, call):
        self.at, self._call, self._is_cancelled = at, call, False

    def when(self):
        return self.at

    def cancel(self):
        self._is_cancelled = True

    def run(self):
        if not self._is_cancelled:
            self._call()


def made():
    loop, told = Loop(), []
    return loop, IdleTimer(loop, lambda: told.append(loop.now)), told


def test_the_moment_is_told_once_when_it_has_come():
    loop, expiry, told = made()
    expiry.wait(2)
    loop.go(1)
    assert told == []
    loop.go(2)
    loop.go(9)
    assert told == [2]


def test_a_moment_that_is_put_off_sets_no_timer_until_the_first_one_is_due():
    loop, expiry, told = made()
    expiry.wait(2)
    loop.go(1)
    expiry.wait(2)
    assert len(loop.timers) == 1
    loop.go(2)
    assert (told, [one.at for one in loop.timers]) == ([], [3])
    loop.go(3)
    assert told == [3]


def test_a_moment_that_is_brought_forward_comes_earlier_and_once():
    loop, expiry, told = made()
    expiry.wait(9)
    expiry.wait(1)
    loop.go(1)
    loop.go(9)
    assert told == [1]


def test_nothing_is_told_where_there_is_no_moment_any_more():
    loop, expiry, told = made()
    expiry.wait(1)
    expiry.due = None
    loop.go(1)
    expiry.wait(1)
    expiry.cancel()
    loop.go(9)
    assert told == []
