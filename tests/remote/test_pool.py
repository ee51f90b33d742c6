"""Tests of the pool of one placement, with replicas that the test controls."""

import threading
from typing import Any

import pytest

from modelflow.config.placement import PlacementConfig
from modelflow.errors import NoReplicaError, ReplicaLostError
from modelflow.remote.message import Answers, Rows
from modelflow.remote.pool import TOLD, WAITED, Pool
from modelflow.remote.replica import Replica, Report
from modelflow.remote.slot import IDLE
from modelflow.runtime.stats import GONE, NodeStats
from tests.runtime.fake_clock import FakeClock

ROWS = Rows("part", {"in": ([1], [None])}, [None])
LONG = 60


class Told(Replica):
    """Answers at once, or holds calls while ``gate`` is closed; fails to start if told to."""

    def __init__(self, number, failures=()):
        self.number = number
        self.failures = failures
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.has_begun = threading.Event()
        self.may_start = threading.Event()
        self.may_start.set()
        self.may_close = threading.Event()
        self.may_close.set()
        self.is_killed = self.is_closed = False
        self.calls = self.under_way = 0
        self.seconds = 0.0

    def start(self, timeout):
        self.has_begun.set()
        assert self.may_start.wait(LONG)
        if self.is_killed:
            raise ReplicaLostError("was ended before it had begun")
        if self.failures:
            raise self.failures.pop(0)

    def lacking(self):
        return "waits for room"

    def call(self, rows, timeout):
        self.calls += 1
        self.entered.release()
        assert self.gate.wait(LONG)
        if self.is_killed:
            raise ReplicaLostError(f"replica {self.number} is gone")
        columns = {"out": ([self.number], [None])}
        return Answers(columns, self.seconds, self.under_way)

    def report(self, timeout):
        return Report(f"r{self.number}", {"part": {"n": NodeStats("n", "u", buffers=self.calls)}})

    def is_alive(self):
        return not self.is_killed

    def kill(self):
        self.is_killed = True
        self.gate.set()

    def close(self):
        assert self.may_close.wait(LONG)
        self.is_closed = True


class Made(list[Any]):
    """Makes replicas, and keeps them."""

    def __init__(self, *failures):
        super().__init__()
        self.failures = list(failures)
        self.may_start = True
        self.has_made = threading.Semaphore(0)

    def __call__(self, number):
        one = Told(number, self.failures)
        if not self.may_start:
            one.may_start.clear()
        self.append(one)
        self.has_made.release()
        return one


def pool_of(made, replicas=(1, 1), *, in_flight=2, clock=None, **terms):
    placement = PlacementConfig("far", replicas, in_flight=in_flight, **terms)
    return Pool(placement, made, *([clock] if clock else []))


def opened(pool):
    """Returns a user of the pool, whose replicas are ready."""
    user = pool.join("part")
    pool.wait(user)
    return user


def called(pool, user, **how):
    """Calls on a new thread; returns a function that gives the reply or the error."""
    found = []

    def call():
        try:
            found.append(pool.call(user, ROWS, **how))
        except Exception as error:  # noqa: BLE001 - the test looks at it
            found.append(error)

    thread = threading.Thread(target=call, name="modelflow/test/call")
    thread.start()

    def answer():
        thread.join(LONG)
        return found[0]

    return answer


def held(pool, user, replica):
    """Calls a replica with a closed gate, which the test opens; returns as `called` does."""
    replica.gate.clear()
    answer = called(pool, user)
    assert replica.entered.acquire(timeout=LONG)
    return answer


def until(pool, holds):
    with pool._changed:
        assert pool._changed.wait_for(holds, LONG)


def test_the_least_number_begins_and_ends_with_its_users():
    made = Made()
    pool = pool_of(made, (2, 4))
    one, other = opened(pool), opened(pool)
    assert [replica.number for replica in made] == [0, 1]
    pool.leave(one)
    assert not any(replica.is_closed for replica in made)
    pool.leave(other)
    assert all(replica.is_closed and not replica.is_killed for replica in made)
    with pytest.raises(NoReplicaError, match="the flow ends"):
        pool.call(other, ROWS)


def test_calls_go_where_there_is_room_and_a_replica_is_added_when_there_is_none():
    made = Made()
    pool = pool_of(made, (1, 2), in_flight=1)
    user = opened(pool)
    first = held(pool, user, made[0])
    assert pool.call(user, ROWS).columns["out"][0] == [1]
    made[0].gate.set()
    assert first().columns["out"][0] == [0]
    assert (pool.figures().replicas, pool.figures().calls, pool.figures().rows) == (2, 2, 2)
    pool.leave(user)


def test_another_replica_begins_when_a_call_has_waited_long_however_few_wait():
    made, clock = Made(), FakeClock()
    pool = pool_of(made, (1, 3), in_flight=1, clock=clock)
    user = opened(pool)
    first = held(pool, user, made[0])
    second = called(pool, user)
    clock.until_deadline(clock.now() + WAITED)
    assert len(made) == 1
    clock.advance(WAITED)
    assert second().columns["out"][0] == [1]
    made[0].gate.set()
    first()
    assert len(made) == 2
    pool.leave(user)


def test_as_many_rows_go_at_once_as_are_done_in_the_time_of_a_message():
    made = Made()
    pool = pool_of(made)
    user = opened(pool)
    assert pool.rows_at_once("part") == 1
    for seconds, others, rows in ((0.2, 0, 1), (0.04, 3, 5), (0.0001, 0, 500), (1.0, 0, 1)):
        made[0].seconds, made[0].under_way = seconds, others
        pool.call(user, ROWS)
        assert pool.rows_at_once("part") == rows
    pool.leave(user)


def test_the_replica_that_is_least_busy_is_asked_also_by_what_others_have_there():
    made, clock = Made(), FakeClock()
    pool = pool_of(made, (2, 2), clock=clock)
    user = opened(pool)
    made[0].under_way = 5
    for _ in range(20):
        pool.call(user, ROWS)
    places = [pool.call(user, ROWS).columns["out"][0] for _ in range(20)]
    assert places == [[1]] * 20
    clock.advance(TOLD + 0.1)  # its reported load is old
    assert {pool.call(user, ROWS).columns["out"][0][0] for _ in range(20)} == {0, 1}
    pool.leave(user)


def test_a_replica_beyond_the_least_ends_when_nobody_needs_it():
    made, clock = Made(), FakeClock()
    pool = pool_of(made, (1, 2), in_flight=1, clock=clock)
    user = opened(pool)
    first = held(pool, user, made[0])
    second = called(pool, user)
    clock.until_deadline(clock.now() + WAITED)
    clock.advance(WAITED)
    second()
    made[0].gate.set()
    first()
    clock.until_deadline(clock.now() + IDLE)
    clock.advance(IDLE + 1)
    until(pool, lambda: len(pool._slots) == 1)
    pool.leave(user)
    assert made[1].is_closed
    assert [replica.is_killed for replica in made] == [False, False]


def test_a_lost_replica_is_told_to_those_who_call_and_another_begins():
    made = Made()
    pool = pool_of(made)
    user = opened(pool)
    made[0].gate.clear()
    calls = [called(pool, user), called(pool, user)]
    assert made[0].entered.acquire(timeout=LONG)
    assert made[0].entered.acquire(timeout=LONG)
    made[0].kill()
    assert [str(call()) for call in calls] == ["replica 0 is gone"] * 2
    assert pool.call(user, ROWS).columns["out"][0] == [0]
    assert len(made) == 2
    assert made[0].is_closed
    assert pool.figures().lost == 1
    pool.leave(user)


def test_one_that_died_while_nobody_called_costs_no_call():
    made = Made()
    pool = pool_of(made)
    user = opened(pool)
    made[0].kill()
    assert pool.call(user, ROWS).columns["out"][0] == [0]
    assert [replica.calls for replica in made] == [0, 1]
    pool.leave(user)


def test_a_call_alone_waits_for_the_others_and_lets_none_in():
    made = Made()
    pool = pool_of(made, in_flight=2)
    user = opened(pool)
    first = held(pool, user, made[0])
    alone = called(pool, user, is_alone=True)
    until(pool, lambda: pool._slots[0].is_reserved)
    other = called(pool, user)
    until(pool, lambda: pool._waiting == 2)
    assert made[0].calls == 1
    made[0].gate.set()
    for answer in (first, alone, other):
        assert answer().columns["out"][0] == [0]
    assert not pool._slots[0].is_reserved
    pool.leave(user)


def test_who_finds_no_room_is_told_after_its_patience():
    made = Made()
    pool = pool_of(made, in_flight=1)
    user = opened(pool)
    first = held(pool, user, made[0])
    with pytest.raises(NoReplicaError, match="none of 1 replicas had room within"):
        pool.call(user, ROWS, patience=0.0)
    with pytest.raises(NoReplicaError, match="none of 1 replicas had room within"):
        pool.call(user, ROWS, is_alone=True, patience=0.0)
    assert not pool._slots[0].is_reserved
    made[0].gate.set()
    first()
    pool.leave(user)


def test_a_replica_that_does_not_start_is_told_and_nothing_is_left():
    made = Made(OSError("no room"))
    pool = pool_of(made, (2, 2))
    user = pool.join()
    with pytest.raises(NoReplicaError, match="placement 'far': no replica: OSError: no room"):
        pool.wait(user)
    pool.leave(user)
    assert all(replica.is_closed for replica in made)
    user = opened(pool)
    assert pool.figures().replicas == 2
    pool.leave(user)


def test_who_waits_long_for_the_first_replicas_is_told_what_they_lack(caplog):
    made, clock = Made(), FakeClock()
    made.may_start = False
    pool = pool_of(made, (2, 2), clock=clock)
    user = pool.join()
    for number in range(2):
        assert made.has_made.acquire(timeout=LONG)
        assert made[number].has_begun.wait(LONG)
    waiting = threading.Thread(target=pool.wait, args=(user,))
    waiting.start()
    for seconds in (10.0, 20.0):
        clock.until_deadline(clock.now() + seconds)
        clock.advance(seconds)
    clock.until_deadline(clock.now() + 40.0)
    for replica in made:
        replica.may_start.set()
    waiting.join()
    pool.leave(user)
    said = "placement 'far': 0 of 2 replicas are ready; the next one waits for room"
    assert [record.getMessage() for record in caplog.records] == [said] * 2


def test_one_that_does_not_start_again_is_tried_again(caplog):
    made, clock = Made(), FakeClock()
    pool = pool_of(made, clock=clock)
    user = opened(pool)
    made.failures += [OSError("no room"), OSError("still no room")]
    made[0].kill()
    waiting = called(pool, user)
    for pause in (0.5, 1.0):
        clock.until_deadline(clock.now() + pause)
        clock.advance(pause)
    assert waiting().columns["out"][0] == [0]
    assert "still no room" in caplog.text
    pool.leave(user)


def test_who_joins_between_two_tries_waits_for_the_next_one():
    made, clock = Made(), FakeClock()
    pool = pool_of(made, clock=clock)
    first = opened(pool)
    made.failures.append(OSError("no room"))
    made[0].kill()
    waiting = called(pool, first)
    clock.until_deadline(clock.now() + 0.5)  # the replica has failed, and the pool pauses
    late = pool.join()
    pause = threading.Thread(target=clock.advance, args=(0.5,), name="modelflow/test/pause")
    pause.start()
    pool.wait(late)
    pause.join()
    assert waiting().columns["out"][0] == [0]
    pool.leave(first)
    pool.leave(late)


def test_who_joins_while_another_one_aborts_the_start_has_a_replica_of_its_own(caplog):
    made = Made()
    made.may_start = False
    pool = pool_of(made)
    gone = pool.join()
    assert made.has_made.acquire(timeout=LONG)
    assert made[0].has_begun.wait(LONG)
    pool.abort(gone)
    late = pool.join()
    made.may_start = True
    made[0].may_start.set()
    pool.wait(late)
    assert pool.call(late, ROWS).columns["out"][0] == [0]
    assert not caplog.records, "the end of an abandoned start was logged as a failure"
    pool.leave(gone)
    pool.leave(late)


def test_an_abort_ends_calls_and_who_waits():
    made = Made()
    pool = pool_of(made, in_flight=1)
    user = opened(pool)
    under_way = held(pool, user, made[0])
    waiting = called(pool, user)
    until(pool, lambda: pool._waiting == 1)
    pool.abort(user)
    assert isinstance(under_way(), ReplicaLostError)
    assert isinstance(waiting(), NoReplicaError)
    pool.leave(user)
    assert made[0].is_closed


def test_an_abort_lets_replicas_close_that_work_on_nothing():
    made = Made()
    pool = pool_of(made, replicas=(2, 2))
    user = opened(pool)
    for one in made:
        one.gate.clear()
    under_way = called(pool, user)
    while not pool.figures().busy:  # the begin of a call wakes nobody
        pass
    (busy,) = (slot.number for slot in pool._slots.values() if slot.busy)
    assert made[busy].entered.acquire(timeout=LONG)
    pool.abort(user)
    assert isinstance(under_way(), ReplicaLostError)
    pool.leave(user)
    assert [made[n].is_killed for n in (busy, 1 - busy)] == [True, False]
    assert all(made[n].is_closed for n in (0, 1))


def test_what_replicas_have_done_is_told_while_they_end_and_when_they_are_gone():
    made = Made()
    pool = pool_of(made)
    user = opened(pool)
    pool.call(user, ROWS)
    made[0].may_close.clear()
    leaving = threading.Thread(target=pool.leave, args=(user,), name="modelflow/test/leave")
    leaving.start()
    until(pool, lambda: not pool._slots)
    assert pool.reports(user, 0.0)["r0"]["n"].buffers == 1
    made[0].may_close.set()
    leaving.join()
    assert pool.reports(user, 0.0)[GONE]["n"].buffers == 1
    again = opened(pool)
    assert {name: nodes["n"].buffers for name, nodes in pool.reports(again, 0.0).items()} == {
        "r0": 0
    }
    pool.leave(again)


def test_a_flow_does_not_begin_with_the_figures_of_the_one_before():
    made = Made()
    pool = pool_of(made)
    first = opened(pool)
    pool.call(first, ROWS)
    made[0].kill()
    pool.call(first, ROWS)
    pool.leave(first)
    assert (pool.figures().calls, pool.figures().lost) == (2, 1)
    second = opened(pool)
    assert (pool.figures().calls, pool.figures().rows, pool.figures().lost) == (0, 0, 0)
    assert GONE not in pool.reports(second, 0.0)
    pool.leave(second)


def test_of_two_flows_that_share_a_part_one_tells_what_was_done_for_it():
    made = Made()
    pool = pool_of(made)
    first, second, other = opened(pool), opened(pool), pool.join("another part")
    pool.call(first, ROWS)
    assert [[*pool.reports(user, 0.0)] for user in (first, second, other)] == [["r0"], [], ["r0"]]
    pool.leave(first)
    assert [*pool.reports(second, 0.0)] == ["r0"]
    assert [*pool.reports(first, 0.0)] == []
    pool.leave(other)
    pool.leave(second)


def test_an_abort_of_one_user_leaves_the_replicas_to_the_other():
    made = Made()
    pool = pool_of(made)
    one, other = opened(pool), opened(pool)
    pool.abort(one)
    assert pool.call(other, ROWS).columns["out"][0] == [0]
    with pytest.raises(NoReplicaError, match="the flow ends"):
        pool.call(one, ROWS)
    pool.leave(one)
    pool.leave(other)
    assert not made[0].is_killed


def test_when_all_have_aborted_every_replica_ends_at_once_and_who_comes_then_has_new_ones():
    made = Made()
    pool = pool_of(made)
    one, other = opened(pool), opened(pool)
    under_way = held(pool, other, made[0])
    pool.abort(one)
    pool.abort(other)
    assert isinstance(under_way(), ReplicaLostError)
    late = opened(pool)
    assert pool.call(late, ROWS).columns["out"][0] == [0]
    for user in (one, other, late):
        pool.leave(user)
    assert all(replica.is_closed for replica in made)
    assert len(made) == 2


def test_who_comes_while_the_last_one_leaves_has_replicas_of_its_own():
    made = Made()
    pool = pool_of(made)
    first = opened(pool)
    made[0].may_close.clear()
    leaving = threading.Thread(target=pool.leave, args=(first,), name="modelflow/test/leave")
    leaving.start()
    until(pool, lambda: pool._is_closing)
    users = []
    joining = threading.Thread(
        target=lambda: users.append(opened(pool)), name="modelflow/test/join"
    )
    joining.start()
    made[0].may_close.set()
    leaving.join()
    joining.join()
    assert pool.call(users[0], ROWS).columns["out"][0] == [0]
    assert [replica.is_closed for replica in made] == [True, False]
    pool.leave(users[0])


def test_one_that_cannot_even_be_made_is_told():
    def broken(number):
        raise ZeroDivisionError

    pool = Pool(PlacementConfig("far"), broken)
    user = pool.join()
    with pytest.raises(NoReplicaError, match="no replica: ZeroDivisionError"):
        pool.wait(user)
    pool.leave(user)


def test_calls_wait_as_long_as_it_takes_while_a_replica_is_ready():
    made, clock = Made(), FakeClock()
    pool = pool_of(made, in_flight=1, clock=clock, timeout=5.0)
    user = opened(pool)
    first = held(pool, user, made[0])
    waiting = called(pool, user)
    clock.until_waiting(2)  # the caller, and the replica's own thread
    clock.advance(3600)
    made[0].gate.set()
    assert first().columns["out"][0] == waiting().columns["out"][0] == [0]
    pool.leave(user)


def test_an_extra_replica_that_cannot_start_is_not_tried_again_at_once():
    made, clock = Made(), FakeClock()
    pool = pool_of(made, (1, 2), in_flight=1, clock=clock)
    user = opened(pool)
    made.failures.append(OSError("no room"))
    first = held(pool, user, made[0])
    waiting = called(pool, user)
    clock.until_deadline(clock.now() + WAITED)
    clock.advance(WAITED)
    until(pool, lambda: pool._grow_from > clock.now())
    made[0].gate.set()
    assert first().columns["out"][0] == waiting().columns["out"][0] == [0]
    assert len(made) == 2
    pool.leave(user)
