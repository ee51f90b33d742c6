"""Tests of which idle worker is woken, and of how all are held."""

import threading

from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.locks import make_lock
from modelflow.runtime.queues.idle_workers import IdleWorkers
from modelflow.runtime.worker_slot import WorkerSlot


def resting(count):
    """Starts threads that rest until a wake-up; returns their slots and the woken numbers."""
    lock = make_lock("inbox")
    idle_workers, woken = IdleWorkers(lock, SYSTEM_CLOCK), []
    slots = [WorkerSlot(lock) for _ in range(count)]
    here = threading.Semaphore(0)

    def rest(number):
        with lock:
            here.release()
            idle_workers.rest(slots[number], None, is_ordered=False)
            woken.append(number)

    threads = []
    for number in range(count):
        threads.append(threading.Thread(target=rest, args=(number,)))
        threads[-1].start()
        here.acquire()
        with lock:  # the thread waits by now
            assert len(idle_workers.slots) == number + 1
    return lock, idle_workers, slots, threads, woken


def test_the_last_to_come_is_the_first_to_be_woken():
    lock, idle_workers, _, threads, woken = resting(3)
    with lock:
        idle_workers.offer(None)
    threads[2].join()
    assert woken == [2]
    with lock:
        idle_workers.wake_all()
    for thread in threads:
        thread.join()
    assert not idle_workers.slots


def test_nobody_is_woken_while_all_are_held():
    lock, idle_workers, slots, threads, woken = resting(2)
    with lock:
        idle_workers.is_held = True
        idle_workers.offer(None)
        assert not any(slot.is_called for slot in slots)
        assert idle_workers.is_quiet(2)
        assert not idle_workers.is_quiet(3)
        idle_workers.dismiss(slots[:1])
    threads[0].join()
    assert (woken, slots[0].is_leaving, slots[1].is_leaving) == ([0], True, False)
    with lock:
        idle_workers.wake_all()
    threads[1].join()


def test_a_seat_that_is_lent_is_not_quiet_until_it_is_given_back():
    lock, idle_workers, slots, threads, _ = resting(1)
    with lock:
        slots[0].borrower = object()
        assert not idle_workers.is_quiet(1)
        slots[0].borrower = None
        assert idle_workers.is_quiet(1)
        idle_workers.wake_all()
    threads[0].join()
