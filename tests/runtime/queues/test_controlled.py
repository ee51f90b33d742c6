"""Tests of a queue that is held, changed and released."""

import queue
import threading
from dataclasses import replace

from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.session.segment import Batch
from modelflow.runtime.worker_slot import Handoff
from tests.runtime.fake_clock import FakeClock
from tests.runtime.queues.test_inbox import data, inbox, segment, stream


def workers_of(box, count):
    """Starts workers that take every batch; returns their slots, threads and taken data."""
    given, slots = [], [box.slot() for _ in range(count)]

    def work(slot):
        while (batch := box.take(slot)) is not None:
            given.append(data(batch))

    threads = [threading.Thread(target=work, args=(slot,)) for slot in slots]
    for thread in threads:
        thread.start()
    return slots, threads, given


def end(box, threads):
    box.close()
    for thread in threads:
        thread.join()


def test_what_is_held_gives_out_nothing_until_it_is_let_go():
    box, s = inbox(clock=SYSTEM_CLOCK, batch_size=4), stream()
    _, threads, given = workers_of(box, 2)
    assert box.hold(2)  # both rest
    box.append(0, [segment(s, 0, 2)])
    assert box.take_nowait() is None
    assert given == []
    box.release()
    while not given:
        pass
    assert given == [[0, 1]]
    end(box, threads)


def test_who_is_dismissed_ends_and_the_others_go_on():
    box, s = inbox(clock=SYSTEM_CLOCK), stream()
    slots, threads, given = workers_of(box, 3)
    assert box.hold(3)
    box.dismiss(slots[1:])
    threads[1].join()
    threads[2].join()
    box.release()
    box.append(0, [segment(s, 0, 1)])
    while not given:
        pass
    end(box, threads)


def test_a_close_ends_a_hold():
    box = inbox(clock=SYSTEM_CLOCK)
    found = []
    holder = threading.Thread(target=lambda: found.append(box.hold(1)))  # no worker ever rests
    holder.start()
    box.close()
    holder.join()
    assert found == [False]


def test_a_lent_seat_is_waited_for_and_given_no_batch_meanwhile():
    box, s = inbox(clock=SYSTEM_CLOCK), stream()
    slots, threads, given = workers_of(box, 1)
    assert box.hold(1)
    box.release()
    handoff = Handoff(None)
    slots[0].borrower = handoff  # as if a producer borrowed the slot
    found = []
    holder = threading.Thread(target=lambda: found.append(box.hold(1)))
    holder.start()
    box.append(0, [segment(s, 0, 1)])
    while not box._idle_workers.is_held:
        pass
    assert box.take_nowait(slots[0]) is None
    box.give_back(slots[0], handoff, False)
    holder.join()
    assert found == [True]
    box.release()
    while not given:
        pass
    end(box, threads)


def test_other_bounds_hold_from_now_on():
    box, s = inbox(batch_size=2, bounds=(2,)), stream()
    box.append(0, [segment(s, 0, 4)])
    assert not box.has_room(0)
    box.set_bounds(replace(box.policy, batch_size=3, bounds=(8,)))
    assert box.has_room(0)
    assert data(box.take_nowait()) == [0, 1, 2]
    box.set_bounds(replace(box.policy, byte_bound=1))
    assert box.policy.byte_bound == 1


def test_batches_that_are_to_wait_are_noted_from_now_on():
    box, s = inbox(batch_size=2), stream()
    assert not box.is_noting
    assert box.append_whole is not None
    box.set_bounds(replace(box.policy, batch_timeout=1.0))
    assert box.is_noting
    assert box.append_whole is None
    box.append(0, [segment(s, 0, 2)])
    assert data(box.take_nowait()) == [0, 1]
    assert dict(box.stats.closed) == {"full": 1}
    box.set_bounds(replace(box.policy, batch_timeout=0.0))
    assert box.is_noting  # the notes are kept


def test_a_batch_on_its_way_wakes_a_worker_that_has_begun_to_collect_meanwhile():
    clock, s = FakeClock(), stream()
    box = inbox(clock=clock, batch_size=2)
    append_whole = box.append_whole  # as a producer reads it
    box.set_bounds(replace(box.policy, batch_timeout=1.0))
    box.append(0, [segment(s, 0, 1)])
    taken = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: taken.put(box.take()))
    thread.start()
    clock.until_sleeping()
    append_whole(Batch.of([segment(s, 1, 1)], 1), None)
    try:
        assert data(taken.get(timeout=60)) == [0, 1]
    finally:
        box.close()
        thread.join()
