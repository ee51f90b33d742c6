"""Tests of problems of a single node."""

import pytest

from modelflow.insight.doctor import Cause, diagnose
from tests.doctor.cases import case_of, node, times


def first(case):
    found = diagnose(case).findings
    return found[0] if found else None


def test_errors_name_the_node_and_their_types():
    found = first(
        case_of(node("a", busy=0.2), node("b", busy=0.2, errors=80, failures={"ValueError": 80}))
    )
    assert (found.node, found.cause) == ("b", Cause.ERRORS)
    assert found.evidence == ("80 of 1000 rows failed: 80 ValueError",)
    assert not found.change
    assert first(case_of(node("a", busy=0.2, errors=40))) is None
    assert first(case_of(node("a", busy=0.2, errors=9, rows=9))) is None


def test_unread_results_name_the_output():
    nodes = node("a", busy=0.1, starved=0.9)
    unread = {"unread": {"left": 3, "right": 900}, "unread_bound": 1024, "in_flight": 1}
    found = first(case_of(nodes, **unread))
    assert (found.node, found.cause) == ("right", Cause.UNREAD_RESULTS)
    assert "900 results are unread; the sender waits at 1024" in found.evidence[0]
    at_work = node("a", busy=0.95, queue=30)
    assert all(
        f.cause != Cause.UNREAD_RESULTS for f in diagnose(case_of(at_work, **unread)).findings
    )
    assert first(case_of(nodes, **{**unread, "in_flight": 100})) is None


def test_a_timeout_that_fills_no_batch_is_to_go():
    waiting = {
        "busy": 0.1,
        "starved": 0.9,
        "batch_size": 16,
        "batch_timeout": 0.05,
        "service": times(ms2=100),
        "wait": times(ms50=100),
    }
    found = first(case_of(node("a", **waiting, closed={"timeout": 95, "full": 5})))
    assert (found.node, found.cause) == ("a", Cause.BATCH_TIMEOUT)
    assert found.change == {"a.batch_timeout_ms": 0}
    assert first(case_of(node("a", **waiting, closed={"timeout": 5, "full": 95}))) is None
    soon = {**waiting, "wait": times(ms1=100)}
    assert first(case_of(node("a", **soon, closed={"timeout": 95}))) is None


def test_padding_asks_for_sizes_between():
    figures = {"batching": {"padding": 600}}
    found = first(case_of(node("a", busy=0.3, starved=0.7, batch_size=12, figures=figures)))
    assert (found.node, found.cause) == ("a", Cause.PADDING)
    assert found.change == {"a.allowed_batch_sizes": "1,2,4,8,12"}
    figures = {"batching": {"padding": 300}}
    assert first(case_of(node("a", busy=0.3, starved=0.7, figures=figures))) is None


def test_copies_name_the_neighbours():
    found = first(
        case_of(
            node("a", busy=0.1, starved=0.9, feeds="b"),
            node("b", busy=0.4, starved=0.6, moving=0.2, device="cuda:0", feeds="c"),
            node("c", busy=0.1, starved=0.9),
        )
    )
    assert (found.node, found.cause) == ("b", Cause.COPIES)
    assert found.advice == "let a or c run on the same device as b"
    assert first(case_of(node("a", busy=0.4, starved=0.6, moving=0.05))) is None


@pytest.mark.parametrize(
    ("order", "slow", "is_found"), [(0.3, 60, True), (0.02, 60, False), (0.3, 2, False)]
)
def test_stragglers_are_slow_calls_that_others_wait_for(order, slow, is_found):
    service = times(**{"ms1": 97, f"ms{slow}": 3})
    found = first(
        case_of(node("a", threads=4, busy=0.5, order=order, starved=0.4 - order, service=service))
    )
    if not is_found:
        assert found is None
        return
    assert (found.node, found.cause) == ("a", Cause.STRAGGLERS)
    assert found.change == {"a.queue_size": 128}
    assert "wait for the order 30% of the time" in found.evidence[0]
