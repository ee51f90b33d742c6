"""Who of those who rest is woken, and how all are held."""

import threading

from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.locks import make_lock
from modelflow.runtime.queues.idle_workers import IdleWorkers
from modelflow.runtime.worker_slot import WorkerSlot


def resting(count):
    """So many threads that rest, each until it is woken; with what names those who were."""
    lock = make_lock("inbox")
    rests, woken = IdleWorkers(lock, SYSTEM_CLOCK), []
    seats = [WorkerSlot(lock) for _ in range(count)]
    here = threading.Semaphore(0)

    def rest(number):
        with lock:
            here.release()
            rests.rest(seats[number], None, is_ordered=False)
            woken.append(number)

    threads = []
    for number in range(count):
        threads.append(threading.Thread(target=rest, args=(number,)))
        threads[-1].start()
        here.acquire()
        with lock:  # it waits by now
            assert len(rests.seats) == number + 1
    return lock, rests, seats, threads, woken


def test_the_last_to_come_is_the_first_to_be_woken():
    lock, rests, _, threads, woken = resting(3)
    with lock:
        rests.offer(None)
    threads[2].join()
    assert woken == [2]
    with lock:
        rests.wake_all()
    for thread in threads:
        thread.join()
    assert not rests.seats


def test_nobody_is_woken_while_all_are_held():
    lock, rests, seats, threads, woken = resting(2)
    with lock:
        rests.is_held = True
        rests.offer(None)
        assert not any(seat.is_called for seat in seats)
        assert rests.is_quiet(2)
        assert not rests.is_quiet(3)
        rests.dismiss(seats[:1])
    threads[0].join()
    assert (woken, seats[0].is_leaving, seats[1].is_leaving) == ([0], True, False)
    with lock:
        rests.wake_all()
    threads[1].join()


def test_a_seat_that_is_lent_is_not_quiet_until_it_is_given_back():
    lock, rests, seats, threads, _ = resting(1)
    with lock:
        seats[0].tenant = object()
        assert not rests.is_quiet(1)
        seats[0].tenant = None
        assert rests.is_quiet(1)
        rests.wake_all()
    threads[0].join()
