"""Tests of the bounds outside a node's threads."""

from modelflow.insight.doctor import Cause, diagnose
from tests.doctor.cases import case_of, node, times

CALM = node("b", busy=0.3, starved=0.7)


def first(*nodes, **more):
    found = diagnose(case_of(*nodes, is_driven=True, **more)).findings
    return found[0] if found else None


def test_a_server_whose_http_thread_has_no_time_left():
    answered = {"count": 1000, "seconds": 7.6}
    latency = times(ms1=1000)
    found = diagnose(
        case_of(CALM, front_end=0.9, cores=1.0, answered=answered, latency=latency)
    ).findings[0]
    assert (found.node, found.cause) == ("server", Cause.FRONT_END)
    assert found.evidence[1].startswith("a request takes 7.6 ms, of it ")
    found = diagnose(case_of(CALM, front_end=0.9, cores=1.0, foreign=1.0)).findings[0]
    assert found.cause == Cause.FRONT_END  # its clients are on its machine
    assert not diagnose(case_of(CALM, front_end=0.3, cores=0.4)).findings


def test_rows_in_flight_limit_if_no_node_has_enough_to_do():
    found = first(CALM, full=0.95)
    assert (found.node, found.cause) == ("max_in_flight", Cause.IN_FLIGHT)
    assert found.change == {"max_in_flight": 16}
    assert first(node("a", busy=0.98, on_core=0.02), full=0.95).cause == Cause.CAPACITY
    # A node whose calls have a few of its rows has enough to do only with more rows.
    few = node("a", busy=0.98, on_core=0.02, batch_size=16, size=2)
    assert first(few, full=0.95).cause == Cause.IN_FLIGHT
    assert first(CALM, full=0.3).cause == Cause.SLOW_INPUT


def test_a_loop_that_holds_as_many_rows_as_it_may():
    full, roomy = ({"loop": {"inside": inside, "bound": 2}} for inside in (2, 1))
    found = first(node("around", busy=0.1, figures=full), CALM)
    assert (found.node, found.cause) == ("around", Cause.LOOP_BOUND)
    assert found.change == {"around.queue_size": 8}
    assert first(node("around", busy=0.1, figures=roomy), CALM).cause == Cause.SLOW_INPUT


def test_a_short_queue_between_nodes_that_wait_for_each_other():
    bursts = node("a", busy=0.6, blocked=0.3, feeds="b")
    found = first(bursts, node("b", busy=0.6, starved=0.4, capacity=2))
    assert (found.node, found.cause) == ("b", Cause.SMALL_QUEUE)
    assert found.change == {"b.queue_size": 32}
    even = node("a", busy=0.6, blocked=0.0, feeds="b")
    assert first(even, node("b", busy=0.6, starved=0.4, capacity=2)).cause == Cause.SLOW_INPUT
