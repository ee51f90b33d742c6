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
    padded = node("a", busy=0.3, starved=0.7, batch_size=12, figures=figures)
    found = first(case_of(padded, is_driven=True))
    assert (found.node, found.cause) == ("a", Cause.PADDING)
    assert found.change == {"a.allowed_batch_sizes": "1,2,4,8,12"}
    figures = {"batching": {"padding": 300}}
    little = node("a", busy=0.3, starved=0.7, figures=figures)
    assert first(case_of(little, is_driven=True)).cause == Cause.SLOW_INPUT
    assert first(case_of(padded)) is None  # it keeps up


def test_copies_name_the_neighbours():
    found = first(
        case_of(
            node("a", busy=0.1, starved=0.9, feeds="b"),
            node("b", busy=0.4, starved=0.6, moving=0.2, device="cuda:0", feeds="c"),
            node("c", busy=0.1, starved=0.9),
            is_driven=True,
        )
    )
    assert (found.node, found.cause) == ("b", Cause.COPIES)
    assert found.advice == "let a or c run on the same device as b"
    few = node("a", busy=0.4, starved=0.6, moving=0.05)
    assert first(case_of(few, is_driven=True)).cause == Cause.SLOW_INPUT


@pytest.mark.parametrize(
    ("order", "slow", "is_found"), [(0.3, 60, True), (0.02, 60, False), (0.3, 2, False)]
)
def test_stragglers_are_slow_calls_that_others_wait_for(order, slow, is_found):
    service = times(**{"ms1": 97, f"ms{slow}": 3})
    found = first(
        case_of(
            node("a", threads=4, busy=0.5, order=order, starved=0.4 - order, service=service),
            is_driven=True,
        )
    )
    if not is_found:
        assert found.cause == Cause.SLOW_INPUT
        return
    assert (found.node, found.cause) == ("a", Cause.STRAGGLERS)
    assert found.change == {"a.queue_size": 128}
    assert "wait for the order 30% of the time" in found.evidence[0]


def test_batches_that_are_cut_by_shape_are_told_with_the_calls_that_they_became():
    figures = {"batching": {"another_shape": 250}}
    cut = node("a", busy=0.9, starved=0.1, size=4, rows=1000, figures=figures)
    found = first(case_of(cut, is_driven=True))
    assert (found.node, found.cause) == ("a", Cause.UNEVEN_SHAPES)
    assert found.evidence[0] == "250 batches became 500 calls of the model"
    seldom = {"batching": {"another_shape": 30}}
    few = node("a", busy=0.9, starved=0.1, size=4, rows=1000, figures=seldom)
    assert first(case_of(few, is_driven=True)).cause != Cause.UNEVEN_SHAPES


def test_a_process_that_gets_its_rows_for_longer_than_it_works_is_a_waste():
    figures = {"process": {"calls": 1000, "unit_us": 900_000}}
    moved = node("a", busy=0.9, starved=0.1, service=times(ms9=1000), figures=figures)
    found = first(case_of(moved, is_driven=True))
    assert (found.node, found.cause) == ("a", Cause.TRANSFER)
    assert found.change == {"a.workers": "thread"}
    assert found.evidence == ("a call takes 9 ms, of it 0.9 ms in the unit",)
    worth = {"process": {"calls": 1000, "unit_us": 8_000_000}}
    kept = node("a", busy=0.9, starved=0.1, service=times(ms9=1000), figures=worth)
    assert first(case_of(kept, is_driven=True)).cause != Cause.TRANSFER


def test_garbage_collections_are_the_cause_if_they_take_much_of_the_time():
    busy = node("a", busy=0.95, on_core=0.9)
    found = first(case_of(busy, is_driven=True, collecting=0.3))
    assert (found.node, found.cause) == ("a", Cause.GARBAGE_COLLECTION)
    assert "30% of the time" in found.sentence
    assert first(case_of(busy, is_driven=True, collecting=0.05)).cause == Cause.CAPACITY
