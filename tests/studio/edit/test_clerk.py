"""Tests that work is done in order, and that slow work is abandoned."""

import threading

import pytest

from modelflow.studio.edit.task_queue import Task, TaskQueue
from tests.runtime.fake_clock import FakeClock


class Noted:
    """Pieces of work, and their results in order."""

    def __init__(self):
        self.seen = []
        self.began, self.go, self.over = (threading.Event() for _ in range(3))

    def note(self, what):
        self.seen.append(what)

    def work(self, name):
        return self._work(name, lambda: self.note(f"{name} done"))

    def hanging(self, name):
        def hang():
            self.began.set()
            self.go.wait()
            self.note(f"{name} done")
            self.over.set()

        return self._work(name, hang)

    def last(self):
        """Returns an event, and the work that sets the event."""
        done = threading.Event()
        return done, self._work("last", done.set)

    def _work(self, name, do):
        return Task(do, lambda: self.note(f"{name} late"), lambda: self.note(f"{name} closed"))


@pytest.fixture
def noted():
    noted = Noted()
    yield noted
    noted.go.set()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def clerk(clock, noted):
    clerk = TaskQueue(60.0, 5.0, clock)
    yield clerk
    noted.go.set()
    clerk.close()


def test_work_is_done_in_order(clerk, noted):
    for name in ("a", "b", "c"):
        clerk.take(noted.work(name))
    done, last = noted.last()
    clerk.take(last)
    assert done.wait(60)
    assert noted.seen == ["a done", "b done", "c done"]


def test_what_takes_too_long_is_left_alone_and_the_next_is_done(clerk, noted, clock):
    clerk.take(noted.hanging("a"))
    clerk.take(noted.work("b"))
    done, last = noted.last()
    clerk.take(last)
    assert noted.began.wait(60)
    clock.until_sleeping()
    clock.advance(59)
    clock.until_sleeping()
    assert noted.seen == []
    clock.advance(1)
    assert done.wait(60)
    assert noted.seen == ["a late", "b done"]
    noted.go.set()
    assert noted.over.wait(60)
    assert noted.seen == ["a late", "b done", "a done"]  # and no second notification comes


def test_what_raises_ends_nothing(clerk, noted):
    def fail():
        raise ValueError("no")

    clerk.take(Task(fail, fail, fail))
    done, last = noted.last()
    clerk.take(last)
    assert done.wait(60)


def test_the_end_waits_a_little_for_what_is_being_done_and_does_nothing_else(noted, clock):
    clerk = TaskQueue(60.0, 5.0, clock)
    clerk.take(noted.hanging("a"))
    clerk.take(noted.work("b"))
    assert noted.began.wait(60)
    clock.until_sleeping()
    closing = threading.Thread(target=clerk.close)
    closing.start()
    clock.until_deadline(clock.now() + 5)
    clock.advance(5)
    closing.join(60)
    assert not closing.is_alive()
    assert noted.seen == ["a closed", "b closed"]
    clerk.take(noted.work("c"))
    assert noted.seen == ["a closed", "b closed", "c closed"]


def test_the_end_goes_on_at_once_where_the_work_is_done(noted, clock):
    clerk = TaskQueue(60.0, 5.0, clock)
    clerk.take(noted.hanging("a"))
    assert noted.began.wait(60)
    closing = threading.Thread(target=clerk.close)
    closing.start()
    noted.go.set()
    closing.join(60)
    assert not closing.is_alive()
    assert noted.seen == ["a done"]
