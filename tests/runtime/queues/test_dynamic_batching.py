"""Tests of the end of a batch: full, or its oldest row has waited long enough."""

import functools
import operator
import threading

from tests.runtime.fake_clock import FakeClock, Passing
from tests.runtime.queues.test_inbox import data, inbox, segment, stream


def test_take_waits_for_a_fuller_batch_until_the_time_is_over():
    clock = FakeClock()
    box, s = inbox(clock=clock, batch_size=4, batch_timeout=0.5), stream()
    taken = []
    worker = threading.Thread(target=lambda: taken.append(data(box.take())), name="modelflow/test")
    box.append(0, [segment(s, 0, 1)])
    worker.start()
    clock.until_sleeping()
    box.append(0, [segment(s, 1, 1)])
    assert worker.is_alive()
    clock.advance(0.5)
    worker.join()
    assert taken == [[0, 1]]


def test_take_does_not_wait_for_the_time_once_the_batch_is_full():
    clock = FakeClock()
    box, s = inbox(clock=clock, batch_size=2, batch_timeout=60), stream()
    taken = []
    worker = threading.Thread(target=lambda: taken.append(data(box.take())), name="modelflow/test")
    box.append(0, [segment(s, 0, 1)])
    worker.start()
    clock.until_sleeping()
    box.append(0, [segment(s, 1, 1)])
    worker.join()
    assert taken == [[0, 1]]


def test_one_worker_collects_while_another_sleeps_and_none_is_lost():
    clock = FakeClock()
    box, s = inbox(clock=clock, batch_size=2, batch_timeout=60), stream()
    taken = []

    def work():
        while (batch := box.take()) is not None:
            taken.append(data(batch))
            if sum(map(len, taken)) == 6:
                box.close()

    workers = [threading.Thread(target=work, name=f"modelflow/test/{i}") for i in range(3)]
    for worker in workers:
        worker.start()
    for i in range(6):
        box.append(0, [segment(s, i, 1)])
    for worker in workers:
        worker.join()
    assert sorted(functools.reduce(operator.iadd, taken, [])) == list(range(6))


def test_who_was_woken_for_a_full_batch_is_woken_again_when_it_has_rested():
    clock = FakeClock()
    box, s = inbox(clock=clock, batch_size=2, batch_timeout=60), stream()
    taken, is_taken = [], threading.Semaphore(0)

    def work():
        while (batch := box.take(slot)) is not None:
            taken.append(data(batch))
            is_taken.release()

    slot = box.slot()
    worker = threading.Thread(target=work, name="modelflow/test")
    worker.start()
    try:
        clock.until_waiting()
        box.append(0, [segment(s, 0, 1)])
        clock.until_sleeping()
        box.append(0, [segment(s, 1, 1)])
        assert is_taken.acquire(timeout=60)
        clock.until_waiting()  # the worker rests again
        box.append(0, [segment(s, 2, 2)])
        assert is_taken.acquire(timeout=20)
    finally:
        box.close()
        worker.join()
    assert taken == [[0, 1], [2, 3]]


def test_the_wait_for_a_fuller_batch_counts_from_its_oldest_row():
    clock, s = Passing(), stream()
    box = inbox(clock=clock, batch_size=2, batch_timeout=0.5)
    box.append(0, [segment(s, 0, 1)])
    clock.time += 0.25
    box.append(0, [segment(s, 1, 2)])
    assert data(box.take()) == [0, 1]
    clock.time += 0.25
    assert data(box.take()) == [2]
    assert clock.waits == [0.25]
    box.append(0, [segment(s, 3, 1)])
    clock.time += 0.25
    assert data(box.take()) == [3]
    assert clock.waits == [0.25, 0.25]


def test_what_is_fed_while_rows_wait_does_not_make_them_wait_longer():
    clock, s = Passing(), stream()
    box = inbox(clock=clock, batch_size=4, batch_timeout=0.5)
    box.append(0, [segment(s, 0, 1)])
    clock.time += 0.25
    box.append(0, [segment(s, 1, 1)])
    assert data(box.take()) == [0, 1]
    assert clock.waits == [0.25]


def test_the_wait_of_rows_that_come_back_begins_when_they_do():
    clock, held, other = Passing(), stream(), stream()
    box = inbox(clock=clock, batch_size=4, batch_timeout=0.5)
    box.append(0, [segment(held, 0, 1), segment(other, 7, 1)])
    box.pause(held.session)
    assert data(box.take()) == [7]
    clock.time += 60
    box.resume(held.session)
    assert data(box.take()) == [0]
    assert clock.waits == [0.5, 0.5]


def test_an_end_alone_does_not_wait_for_a_fuller_batch():
    clock, s = Passing(), stream()
    box = inbox(clock=clock, batch_size=4, batch_timeout=0.5)
    box.append(0, [segment(s, 0, 0, is_last=True)])
    assert box.take().spans[0].is_last
    assert clock.waits == []


def test_a_worker_whose_rows_are_dropped_while_it_collects_waits_for_others():
    clock, gone, other, taken = FakeClock(), stream(), stream(), []
    box = inbox(clock=clock, batch_size=2, batch_timeout=60)
    worker = threading.Thread(target=lambda: taken.append(data(box.take())), name="modelflow/test")
    box.append(0, [segment(gone, 0, 1)])
    worker.start()
    clock.until_sleeping()
    box.discard(gone.session)
    clock.advance(60)
    clock.until_waiting()
    box.append(0, [segment(other, 0, 2)])
    worker.join()
    assert taken == [[0, 1]]
