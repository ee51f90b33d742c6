"""Tests that locks are taken in one order, and that callbacks run without a lock."""

import contextlib
import itertools
import sys

import pytest

from modelflow.runtime.locks import ORDER, make_lock
from modelflow.runtime.queues import bounded
from modelflow.runtime.stages import outbox
from tests.alarms import repeat_until_alarm, untraced
from tests.runtime.graphs import Running, chain, per_item
from tests.runtime.ordered_locks import held


def test_a_lock_is_free_until_it_is_taken():
    lock = make_lock("inbox")
    assert not lock._is_owned()
    with lock:
        assert lock._is_owned()


@pytest.mark.skipif(sys.platform != "linux", reason="sends alarms")
def test_a_ctrl_c_at_a_with_block_leaves_the_lock_free():
    lock = make_lock("inbox")

    def use():
        with lock:
            pass

    with untraced():
        for number in range(50):
            with contextlib.suppress(KeyboardInterrupt):
                repeat_until_alarm(use, 1e-3 + number * 1e-6, again=0.2)
            assert not lock._is_owned()


@pytest.mark.parametrize(("first", "second"), list(itertools.product(ORDER, ORDER)))
def test_locks_are_taken_in_their_order_alone(first, second, lock_violations):
    one, other = bounded.make_lock(first), outbox.make_lock(second)
    if ORDER.index(first) < ORDER.index(second):
        with one, other:
            assert held() == [first, second]
        return
    with one, pytest.raises(AssertionError, match=f"'{second}' is taken by a thread that holds"):
        other.acquire()
    assert len(lock_violations) == 1
    lock_violations.clear()


def test_a_flow_is_made_of_locks_that_are_looked_at(lock_violations):
    with Running(chain(per_item(lambda x: x))) as flow:
        with flow.scheduler._wiring.stages["n0"].inbox._lock:
            assert held() == ["inbox"]
            with pytest.raises(AssertionError):
                flow.scheduler.submitter._lock.acquire()
        assert len(lock_violations) == 1
        lock_violations.clear()


def test_callbacks_run_with_no_lock_held():
    seen = {}

    def note(name):
        return lambda: seen.setdefault(name, held())

    with Running(chain((per_item(lambda x: x), {"threads": 3}))) as flow:
        stream = flow.session()
        stream._session.on_end(note("end"))
        stream._session.results["output"].on_ready(note("ready"))
        stream.send("input", 1)
        stream.close_input()
        assert stream.wait(60)
    assert seen == {"ready": [], "end": []}
