"""Tests of the limits of a flow's rate."""

import pytest

from modelflow.insight.doctor import Cause, diagnose
from tests.doctor.cases import case_of, node

IDLE = node("b", busy=0.2, starved=0.8)


def first(*nodes, is_driven=True, **more):
    found = diagnose(case_of(*nodes, is_driven=is_driven, **more)).findings
    return found[0] if found else None


def test_a_node_that_waits_in_its_calls_gets_more_threads():
    found = first(node("a", threads=2, busy=0.98, on_core=0.02), IDLE)
    assert (found.node, found.cause) == ("a", Cause.CAPACITY)
    assert found.change == {"a.threads": 8}
    # Whether more threads help calls that wait is open: an experiment tells.
    assert (found.gain, found.confidence) == (None, "low")
    assert found.second.startswith("one at a time")
    assert found.then == "b (busy 20%)"


def test_a_node_that_computes_gets_the_processors_that_are_free():
    found = first(node("a", busy=0.98, on_core=0.97), IDLE, cores=1.0, lock_wait=0.0001)
    assert (found.cause, found.change) == (Cause.CAPACITY, {"a.threads": 2})
    assert found.gain == pytest.approx(1.0)
    assert first(node("a", busy=0.98, on_core=0.97), IDLE, cores=1.0).gain is None
    found = first(node("a", threads=2, busy=0.98, on_core=0.97), IDLE, cores=1.95)
    assert (found.node, found.cause, found.change) == ("a", Cause.PROCESSORS, {})


def test_threads_are_no_help_to_a_stream_that_is_alone():
    encode = node("a", busy=0.98, on_core=0.02, kind="encoder (stream)")
    found = first(encode, IDLE, in_flight=1)
    assert (found.node, found.cause, found.change) == ("a", Cause.ONE_STREAM, {})
    assert "streams under way: 1, its threads: 1" in found.evidence
    assert first(encode, IDLE, in_flight=4).change == {"a.threads": 4}


def test_whoever_computes_in_python_is_to_blame_not_who_waits_for_the_interpreter():
    found = first(
        node("a", threads=4, busy=0.95, on_core=0.2),
        node("b", busy=0.99, on_core=0.05),
        cores=1.0,
        lock_wait=0.02,
    )
    assert (found.node, found.cause) == ("a", Cause.INTERPRETER_LOCK)
    assert found.change == {"a.workers": "process"}
    assert found.gain > 0
    busy = node("a", threads=4, busy=0.95, on_core=0.2)
    assert first(busy, cores=1.0, lock_wait=0.0001).cause == Cause.CAPACITY
    assert first(busy, cores=1.0).cause == Cause.CAPACITY


def test_without_a_lock_threads_that_compute_in_python_get_the_free_processors():
    computing = node("a", busy=0.98, on_core=0.97)
    found = first(computing, IDLE, cores=1.0, has_lock=False)
    assert (found.cause, found.change) == (Cause.CAPACITY, {"a.threads": 2})
    assert found.gain == pytest.approx(1.0)
    waiting = node("a", threads=4, busy=0.95, on_core=0.2)
    late = first(waiting, cores=1.0, lock_wait=0.02, has_lock=False)
    assert late.cause == Cause.CAPACITY
    assert "interpreter" not in late.second


def test_more_threads_than_processors_that_compute():
    found = first(node("a", threads=8, busy=0.98, on_core=0.25, runnable=0.72), cores=2.0)
    assert (found.node, found.cause) == ("a", Cause.OVERSUBSCRIPTION)
    assert found.change == {"a.threads": 2}


def test_other_programs_have_the_processors():
    found = first(
        node("a", threads=2, busy=0.98, on_core=0.4, runnable=0.57), cores=0.8, foreign=1.2
    )
    assert (found.node, found.cause, found.change) == ("a", Cause.FOREIGN_LOAD, {})
    # alone the node would have 1/3
    many = node("a", threads=3, busy=0.98, on_core=0.1, runnable=0.88)
    assert first(many, cores=0.3, foreign=1.7).cause == Cause.FOREIGN_LOAD


def test_a_queue_that_is_shorter_than_a_batch():
    found = first(
        node("a", busy=0.98, on_core=0.02, batch_size=16, capacity=4, size=4, rows=1000), IDLE
    )
    assert (found.node, found.cause) == ("a", Cause.QUEUE_BOUNDS_BATCH)
    assert found.change == {"a.queue_size": 32}


def test_full_batches_whose_calls_cost_more_than_their_rows():
    calls = {4: (240, 240 * 0.012), 2: (5, 5 * 0.011), 1: (5, 5 * 0.0105)}
    found = first(
        node("a", busy=0.98, on_core=0.02, batch_size=4, rows=975, calls=calls, queue=20), IDLE
    )
    assert (found.node, found.cause) == ("a", Cause.SMALL_BATCH)
    assert found.change["a.batch_size"] > 4
    assert found.change["a.queue_size"] == 2 * found.change["a.batch_size"]
    assert found.gain <= 4.0
    steep = {4: (240, 240 * 0.012), 2: (5, 5 * 0.006), 1: (5, 5 * 0.003)}
    found = first(node("a", busy=0.98, on_core=0.02, batch_size=4, rows=975, calls=steep), IDLE)
    assert found.cause == Cause.CAPACITY


def test_stages_that_limit_alike_get_more_together():
    found = first(
        node("a", busy=0.97, on_core=0.02), node("c", threads=2, busy=0.95, on_core=0.02), IDLE
    )
    assert (found.node, found.cause) == ("a", Cause.CAPACITY)
    assert found.change == {"a.threads": 4, "c.threads": 8}


def test_more_of_what_gains_little_is_not_proposed():
    source = node("camera", source=True, busy=0.93)
    assert first(source, node("a", busy=0.97, queue=30, on_core=0.02)) is None


def test_a_node_whose_batches_have_room_is_no_limit():
    calls = {2: (1000, 1.0), 4: (1000, 1.2), 16: (10, 0.03)}
    roomy = node("a", busy=0.9, starved=0.1, on_core=0.02, batch_size=32, calls=calls, rows=6160)
    assert first(roomy, IDLE, is_driven=True).cause == Cause.SLOW_INPUT
    found = diagnose(case_of(roomy, IDLE))
    assert found.headroom == pytest.approx(16 * 10 / 0.03 / (6160 / 2.23) / 0.9 - 1.0)
    full = node("a", busy=0.97, on_core=0.3, batch_size=32, calls=calls, rows=6160)
    # the node works all the time, for an unknown reason
    assert first(full, IDLE, is_driven=True) is None
    assert first(full, IDLE, is_driven=True, cores=1.8).cause == Cause.PROCESSORS
    waiting = node("a", busy=0.9, on_core=0.02, batch_size=32, calls=calls, rows=6160, queue=30)
    assert first(waiting, IDLE, is_driven=True).cause == Cause.CAPACITY


def test_a_source_that_computes_all_the_time_is_the_limit_and_one_that_waits_may_be_a_camera():
    idle = node("a", busy=0.1, starved=0.9)
    found = first(node("files", source=True, busy=0.97, on_core=0.9), idle, is_driven=False)
    assert (found.node, found.cause) == ("files", Cause.SLOW_INPUT)
    camera = node("camera", source=True, busy=0.97, on_core=0.02)
    assert first(camera, idle, is_driven=False) is None
    blocked = node("files", source=True, busy=0.5, blocked=0.5)
    assert first(blocked, node("a", busy=0.95, queue=30, on_core=0.02), is_driven=False).node == "a"


def test_who_sends_too_little_is_named_only_if_he_was_to_send_as_much_as_is_taken():
    starving = node("a", busy=0.1, starved=0.9)
    assert first(starving, is_driven=True).node == "input"
    assert first(starving, is_driven=False) is None


def test_a_model_whose_engine_has_all_processors_gets_no_threads():
    found = first(node("a", busy=1.0, on_core=0.02), IDLE, cores=1.9, native=1.8)
    assert (found.node, found.cause) == ("a", Cause.PROCESSORS)
    assert "threads of its engine use 1.8 processors meanwhile" in found.evidence


def test_threads_that_wait_for_processors_get_no_more_of_them_though_one_rests_now_and_then():
    crowded = node("a", threads=2, busy=0.9, on_core=0.28, runnable=0.31)
    found = first(crowded, IDLE, cores=1.3)
    assert (found.node, found.cause, found.change) == ("a", Cause.PROCESSORS, {})
    calm = node("a", threads=2, busy=0.9, on_core=0.28, runnable=0.1)
    assert first(calm, IDLE, cores=1.3).cause == Cause.CAPACITY
    assert first(crowded, IDLE, cores=0.9).cause == Cause.CAPACITY  # of two processors
