"""The pool of one placement, with replicas that do what they are told."""

import threading
from typing import Any

import pytest

from modelflow.config.placement import PlacementConfig
from modelflow.remote.message import Answers, Rows
from modelflow.remote.pool import _IDLE, Pool
from modelflow.remote.replica import NoReplicaError, Replica, ReplicaLostError
from tests.runtime.fake_clock import FakeClock

ROWS = Rows("part", {"in": ([1], [None])}, [None])
LONG = 60


class Told(Replica):
    """Answers at once; holds calls while ``gate`` is closed; fails to start while told to."""

    def __init__(self, number, failures=()):
        self.number = number
        self.failures = failures
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.is_killed = self.is_closed = False
        self.calls = 0

    def start(self, timeout):
        if self.failures:
            raise self.failures.pop(0)

    def call(self, rows, timeout):
        self.calls += 1
        self.entered.release()
        assert self.gate.wait(LONG)
        if self.is_killed:
            raise ReplicaLostError(f"replica {self.number} is gone")
        return Answers({"out": ([self.number], [None])})

    def is_alive(self):
        return not self.is_killed

    def kill(self):
        self.is_killed = True
        self.gate.set()

    def close(self):
        self.is_closed = True


class Made(list[Any]):
    """Makes replicas, and keeps them."""

    def __init__(self, *failures):
        super().__init__()
        self.failures = list(failures)

    def __call__(self, number):
        self.append(Told(number, self.failures))
        return self[-1]


def pool_of(made, replicas=(1, 1), *, in_flight=2, clock=None, **terms):
    placement = PlacementConfig("far", replicas, in_flight=in_flight, **terms)
    return Pool(placement, made, *([clock] if clock else []))


def called(pool, **how):
    """Calls on a thread of its own; returns what tells the answer, or the error."""
    found = []

    def call():
        try:
            found.append(pool.call(ROWS, **how))
        except Exception as error:  # noqa: BLE001 - the test looks at it
            found.append(error)

    thread = threading.Thread(target=call, name="modelflow/test/call")
    thread.start()

    def answer():
        thread.join(LONG)
        return found[0]

    return answer


def until(pool, holds):
    with pool._changed:
        assert pool._changed.wait_for(holds, LONG)


def test_the_least_number_begins_and_ends_with_its_users():
    made = Made()
    pool = pool_of(made, (2, 4))
    pool.open()
    pool.open()
    assert [replica.number for replica in made] == [0, 1]
    pool.close()
    assert not any(replica.is_closed for replica in made)
    pool.close()
    assert all(replica.is_closed and not replica.is_killed for replica in made)
    with pytest.raises(NoReplicaError, match="the flow ends"):
        pool.call(ROWS)


def test_calls_go_where_there_is_room_and_a_replica_is_added_when_there_is_none():
    made = Made()
    pool = pool_of(made, (1, 2), in_flight=1)
    pool.open()
    made[0].gate.clear()
    first = called(pool)
    assert made[0].entered.acquire(timeout=LONG)
    assert pool.call(ROWS).columns["out"][0] == [1]
    made[0].gate.set()
    assert first().columns["out"][0] == [0]
    assert (pool.figures().replicas, pool.figures().calls, pool.figures().rows) == (2, 2, 2)
    pool.close()


def test_a_replica_beyond_the_least_ends_when_nobody_needs_it():
    made, clock = Made(), FakeClock()
    pool = pool_of(made, (1, 2), in_flight=1, clock=clock)
    pool.open()
    made[0].gate.clear()
    first = called(pool)
    assert made[0].entered.acquire(timeout=LONG)
    pool.call(ROWS)
    made[0].gate.set()
    first()
    clock.until_deadline(clock.now() + _IDLE)
    clock.advance(_IDLE + 1)
    until(pool, lambda: len(pool._seats) == 1)
    pool.close()
    assert made[1].is_closed
    assert [replica.is_killed for replica in made] == [False, False]


def test_a_lost_replica_is_told_to_those_who_call_and_another_begins():
    made = Made()
    pool = pool_of(made)
    pool.open()
    made[0].gate.clear()
    calls = [called(pool), called(pool)]
    assert made[0].entered.acquire(timeout=LONG)
    assert made[0].entered.acquire(timeout=LONG)
    made[0].kill()
    assert [str(call()) for call in calls] == ["replica 0 is gone"] * 2
    assert pool.call(ROWS).columns["out"][0] == [0]
    assert len(made) == 2
    assert made[0].is_closed
    assert pool.figures().lost == 1
    pool.close()


def test_one_that_died_while_nobody_called_costs_no_call():
    made = Made()
    pool = pool_of(made)
    pool.open()
    made[0].kill()
    assert pool.call(ROWS).columns["out"][0] == [0]
    assert [replica.calls for replica in made] == [0, 1]
    pool.close()


def test_a_call_alone_waits_for_the_others_and_lets_none_in():
    made = Made()
    pool = pool_of(made, in_flight=2)
    pool.open()
    made[0].gate.clear()
    first = called(pool)
    assert made[0].entered.acquire(timeout=LONG)
    alone = called(pool, is_alone=True)
    until(pool, lambda: pool._seats[0].is_reserved)
    other = called(pool)
    until(pool, lambda: pool._waiting == 2)
    assert made[0].calls == 1
    made[0].gate.set()
    for answer in (first, alone, other):
        assert answer().columns["out"][0] == [0]
    assert not pool._seats[0].is_reserved
    pool.close()


def test_who_finds_no_room_is_told_after_its_patience():
    made = Made()
    pool = pool_of(made, in_flight=1)
    pool.open()
    made[0].gate.clear()
    first = called(pool)
    assert made[0].entered.acquire(timeout=LONG)
    with pytest.raises(NoReplicaError, match=r"none of 1 replicas had room within 0 s"):
        pool.call(ROWS, patience=0.0)
    with pytest.raises(NoReplicaError, match=r"none of 1 replicas had room within 0 s"):
        pool.call(ROWS, is_alone=True, patience=0.0)
    assert not pool._seats[0].is_reserved
    made[0].gate.set()
    first()
    pool.close()


def test_a_replica_that_does_not_start_is_told_and_nothing_is_left():
    made = Made(OSError("no room"))
    pool = pool_of(made, (2, 2))
    with pytest.raises(NoReplicaError, match="placement 'far': no replica: OSError: no room"):
        pool.open()
    assert all(replica.is_closed for replica in made)
    pool.open()
    assert pool.figures().replicas == 2
    pool.close()


def test_one_that_does_not_start_again_is_tried_again(caplog):
    made, clock = Made(), FakeClock()
    pool = pool_of(made, clock=clock)
    pool.open()
    made.failures += [OSError("no room"), OSError("still no room")]
    made[0].kill()
    waiting = called(pool)
    for pause in (0.5, 1.0):
        clock.until_deadline(clock.now() + pause)
        clock.advance(pause)
    assert waiting().columns["out"][0] == [0]
    assert "still no room" in caplog.text
    pool.close()


def test_an_abort_ends_calls_and_who_waits():
    made = Made()
    pool = pool_of(made, in_flight=1)
    pool.open()
    made[0].gate.clear()
    under_way = called(pool)
    assert made[0].entered.acquire(timeout=LONG)
    waiting = called(pool)
    until(pool, lambda: pool._waiting == 1)
    pool.abort()
    assert isinstance(under_way(), ReplicaLostError)
    assert isinstance(waiting(), NoReplicaError)
    pool.close()
    assert made[0].is_closed


def test_an_abort_of_one_user_leaves_the_replicas_to_the_other():
    made = Made()
    pool = pool_of(made)
    pool.open()
    pool.open()
    pool.abort()
    assert pool.call(ROWS).columns["out"][0] == [0]
    pool.close()
    pool.close()
    assert not made[0].is_killed
