"""The sessions of a flow that are not over."""

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError, StreamClosed
from tests.runtime.graphs import Running, chain, fed_by_a_source, graph_of, spec_of
from tests.runtime.test_scheduler import counting_source


def test_a_flow_says_why_no_session_can_be_made():
    flow = Running(chain(spec_of()), is_inline=True)
    with pytest.raises(StreamClosed, match="flow 'test' is not running: it is new"):
        flow.session()
    with flow:
        with pytest.raises(StreamClosed, match="flow 'test' is running; it can be started once"):
            flow.scheduler.start()
        assert [flow.scheduler.create_session().name for _ in range(2)] == ["1", "2"]
    with pytest.raises(StreamClosed, match="flow 'test' is not running: it is stopped"):
        flow.session()
    nodes = {"a": counting_source(1), "b": counting_source(1), "x": "output", "y": "output"}
    sources = Running(graph_of(nodes, ["a -> x", "b -> y"]), is_inline=True)
    with pytest.raises(StreamClosed, match="has no input; it is fed by its sources: 'a', 'b'"):
        sources.session()


def test_a_session_that_was_dropped_is_ended_and_named_when_the_next_one_is_made(caplog):
    with Running(chain(spec_of()), is_inline=True) as flow:
        first, second = flow.scheduler.create_session(), flow.scheduler.create_session()
        flow.scheduler.submitter.close(second)
        for session in (first, second):
            session.results["output"].put([], False)
            flow.scheduler.drop(session)
        flow.scheduler.create_session()
        assert [s.results["output"].is_abandoned for s in (first, second)] == [True, True]
        assert first.progress.is_closed
    said = [r.getMessage() for r in caplog.records if "dropped" in r.getMessage()]
    assert said == ["session '0' was dropped without close_input(); its input ends now"]


def test_a_session_of_a_source_counts_until_it_is_over_and_leaves_it_its_errors():
    scheduler = fed_by_a_source()
    source = scheduler.sources["source"]
    opened = scheduler._sessions.open_for(source)
    assert (opened.name, opened.origin, opened.reader) == ("source/0", "source", source.progress)
    assert scheduler._sessions.open_for(source).name == "source/1"
    assert (scheduler._sessions.opened_by_sources, scheduler.count_held()["sessions"]) == (2, 3)
    opened.progress.record_errors([Buffer.from_error(FlowUnitError("no good"))])
    opened.cancel()
    assert (scheduler._sessions.opened_by_sources, scheduler.count_held()["sessions"]) == (1, 2)
    assert [str(error) for error in source.progress.errors] == ["no good"]


@pytest.mark.parametrize("is_aborted", [True, False])
def test_a_session_that_a_source_opens_too_late_ends_for_the_same_reason(is_aborted):
    scheduler, reason = fed_by_a_source(), StreamClosed("it is over")
    source = scheduler.sources["source"]
    source.cancel(reason)
    if is_aborted:
        scheduler._ending.abort()
    opened = scheduler._sessions.open_for(source)
    assert opened.is_cancelled
    text = "flow 'test' is not running: it is new"
    assert str(opened.failure) == (text if is_aborted else "it is over")
