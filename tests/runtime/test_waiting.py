"""Tests of threads and callbacks that wait for one condition."""

import threading

import pytest

from modelflow.runtime.waiting import Waiting
from tests.runtime.fake_clock import FakeClock


class Box:
    def __init__(self):
        self.lock = threading.Lock()
        self.waiting = Waiting(self.lock)

    def add(self, callback):
        with self.lock:
            self.waiting.add(callback)

    def wake(self):
        with self.lock:
            self.waiting.wake()
        self.waiting.call_due()


@pytest.fixture
def box():
    return Box()


def test_a_callback_is_called_once_with_the_lock_free(box):
    calls = []
    box.add(lambda: calls.append(box.lock.locked()))
    assert box.waiting.count == 1
    assert not box.waiting.due
    box.wake()
    box.wake()
    assert calls == [False]
    assert box.waiting.count == 0


def test_a_callback_may_wait_again(box):
    calls = []

    def again():
        calls.append(1)
        box.add(again)

    box.add(again)
    box.wake()
    box.wake()
    assert calls == [1, 1]


class Panic(BaseException):
    """An exception of the kind that Rust extensions raise."""


@pytest.mark.parametrize("error", [ValueError, SystemExit, Panic])
def test_what_a_callback_raises_is_logged_and_the_next_one_is_called(box, caplog, error):
    calls = []

    def fail():
        raise error("of the user's own")

    box.add(fail)
    box.add(lambda: calls.append(1))
    box.wake()
    assert calls == [1]
    (record,) = caplog.records
    assert record.getMessage() == "a callback that waited for a flow raised"
    assert record.exc_info[0] is error


def test_a_ctrl_c_in_a_callback_is_a_ctrl_c(box):
    def interrupt():
        raise KeyboardInterrupt

    box.add(interrupt)
    with pytest.raises(KeyboardInterrupt):
        box.wake()


def test_a_callback_that_was_taken_back_is_not_called(box):
    calls = []

    def call():
        calls.append(1)

    box.add(call)
    box.waiting.remove(call)
    box.waiting.remove(call)  # the callback is no longer registered
    box.wake()
    assert calls == []


def test_wake_wakes_every_thread(box):
    clock, done = FakeClock(), threading.Semaphore(0)

    def wait():
        with box.lock:
            box.waiting.wait(clock, None)
        done.release()

    threads = [threading.Thread(target=wait, name=f"modelflow/test/{i}") for i in range(3)]
    for thread in threads:
        thread.start()
    clock.until_waiting(3)
    with box.lock:
        assert box.waiting.count == 3
        box.waiting.wake()
    for _ in threads:
        assert done.acquire(timeout=60)
    for thread in threads:
        thread.join()


def test_a_wait_that_takes_too_long_says_so(box):
    clock, found = FakeClock(), []

    def wait():
        with box.lock:
            found.append(box.waiting.wait(clock, 2.0))

    thread = threading.Thread(target=wait, name="modelflow/test/wait")
    thread.start()
    clock.until_sleeping()
    clock.advance(2.0)
    thread.join()
    assert found == [False]


def test_those_who_wait_are_counted(box):
    calls = [lambda number=number: None for number in range(4)]
    for call in calls:
        box.add(call)
    box.waiting.remove(calls[0])
    box.waiting.remove(calls[0])
    assert box.waiting.count == 3
    box.waiting.remove(calls[1])
    assert box.waiting.count == 2
    box.wake()
    assert box.waiting.count == 0


def test_what_was_woken_is_not_awaited_any_more(box):
    assert not box.waiting.is_awaited
    box.add(lambda: None)
    assert box.waiting.is_awaited
    box.wake()
    assert not box.waiting.is_awaited
