"""Tests of the reports of workers."""

import threading

import pytest

from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, per_item, spec_of, unit_of

inline = pytest.mark.parametrize("options", [{}, {"is_inline": True}], ids=["threads", "inline"])


def same(ctx):
    ctx.emit([buffer.data for buffer in ctx.input()])


@inline
def test_a_worker_says_what_it_does_since_when_and_on_which_thread(options):
    clock, seen = FakeClock(), []

    def look(*_):
        (worker,) = flow.scheduler._workers
        is_here = worker.thread_id == threading.get_ident()
        seen.append((worker.phase, worker.busy_since, is_here))
        clock._now += 1.0

    def process(ctx):
        look()
        same(ctx)

    spec = unit_of(process, hooks={"open": look, "close": look})
    flow = Running(chain((spec, {"threads": 1})), clock=clock, **options)
    (worker,) = flow.scheduler._workers
    assert (worker.phase, worker.busy_since, worker.position()) == ("idle", None, "")
    with flow:
        flow.infer(1)
    assert seen == [("open", 1000.0, True), ("process", 1001.0, True), ("close", 1002.0, True)]
    assert (worker.phase, worker.busy_since) == ("idle", None)


def test_a_worker_is_idle_between_two_batches():
    with Running(chain(spec_of()), is_inline=True) as flow:
        flow.infer(1)
        worker, *_ = flow.scheduler._workers
        assert (worker.phase, worker.busy_since) == ("idle", None)


def test_a_worker_that_hangs_is_described_with_the_line_that_it_is_at():
    begun, lock = threading.Lock(), threading.Lock()

    def stand():
        begun.release()
        with lock:
            pass

    worker, *_ = Running(chain(spec_of())).scheduler._workers
    thread = threading.Thread(target=stand, name="modelflow/test")
    with begun, lock:
        thread.start()
        assert begun.acquire(timeout=60)
        worker.thread_id, worker.phase = thread.ident or 0, "close"
        assert worker.position().endswith(" in stand")
        error = worker.describe_hung(2.5)
    thread.join()
    text = "did not return within 2.5 s of being told to stop; it is at "
    assert text + __file__ in str(error)
    assert (error.node, error.unit, error.phase) == ("n0", "forward", "close")
    worker.thread_id = 0
    assert worker.position() == ""


def test_the_time_of_a_call_is_counted():
    clock = FakeClock()

    def slow(value):
        clock.advance(2.0)
        return value

    with Running(chain(per_item(slow)), is_inline=True, clock=clock) as flow:
        flow.session().send("input", 1)
        worker, *_ = flow.scheduler._workers
        assert worker._stats.done == (1, 2.0)
