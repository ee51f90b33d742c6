"""Tests of request groups: free rows, order, deadlines, and Ctrl-C during the submission."""

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded
from modelflow.runtime.entry.request_group import SessionEntry
from modelflow.runtime.queues.inbox import Inbox
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, told, unit_of
from tests.runtime.test_scheduler import Gate

ONE = {"queue_size": 1, "batch_size": 1, "threads": 1}


def double(x):
    return 2 * x


def entries(flow, *rows, due=None):
    """Returns requests of some values each, for the input "input"."""
    sessions = flow.scheduler.create_sessions(len(rows))
    return [
        SessionEntry(session, {"input": [Buffer(value) for value in values]}, due)
        for session, values in zip(sessions, rows, strict=True)
    ]


def enter(flow, *rows, **more):
    """Submits requests; returns their sessions, the number admitted, and the backpressure."""
    group = entries(flow, *rows, **more)
    count, backpressure = flow.scheduler.submitter.enter_many(group)
    return [entry.session for entry in group], count, backpressure


def answer(session, flow, output="output"):
    return session.results[output].get_all(flow.scheduler.options.clock, 60)


def test_each_request_gets_its_own_answer():
    with Running(chain(per_item(double))) as flow:
        sessions, count, backpressure = enter(flow, [1], [2, 3], [])
        assert (count, backpressure) == (3, None)
        assert [told(answer(session, flow)) for session in sessions] == [[2], [4, 6], []]


def test_all_enter_under_one_lock_of_each_queue(monkeypatch):
    appended = []
    append = Inbox.append

    def noting(inbox, port, segments, handoff):
        appended.append(len(segments))
        return append(inbox, port, segments)

    with Running(chain(per_item(double))) as flow:
        monkeypatch.setattr(Inbox, "append", noting)
        sessions, _, _ = enter(flow, [1], [2], [3])
        assert [told(answer(session, flow)) for session in sessions] == [[2], [4], [6]]
    assert appended == [3]


def test_one_that_fails_leaves_the_others_alone():
    def fails(x):
        if x == 2:
            raise ValueError("is two")
        return x

    with Running(chain((per_item(fails), {"batch_size": 8}))) as flow:
        sessions, _, _ = enter(flow, [1], [2], [3])
        answers = [told(answer(session, flow)) for session in sessions]
    assert answers == [[1], ["error: is two"], [3]]


def test_what_is_late_is_not_worked_on_and_the_others_are():
    with Running(chain(per_item(double))) as flow:
        (late,), _, _ = enter(flow, [1], due=flow.scheduler.options.clock.now() - 1)
        (fine,), _, _ = enter(flow, [2])
        (buffer,) = answer(late, flow)
        assert isinstance(buffer.error.__cause__, DeadlineExceeded)
        assert told(answer(fine, flow)) == [4]


def test_every_consumer_of_an_input_and_every_input_gets_its_rows():
    join = unit_of(
        lambda ctx: ctx.emit(
            [a.data + b.data for a, b in zip(ctx.inputs["a"], ctx.inputs["b"], strict=True)]
        ),
        inputs=("a", "b"),
    )
    graph = graph_of(
        {"x": "input", "y": "input", "join": join, "sum": "output", "same": "output"},
        ["x -> join:a", "y -> join:b", "join -> sum", "x -> same"],
    )
    with Running(graph) as flow:
        (session,) = flow.scheduler.create_sessions(1)
        columns = {"x": [Buffer(1), Buffer(2)], "y": [Buffer(10), Buffer(20)]}
        flow.scheduler.submitter.enter_many([SessionEntry(session, columns, None)])
        assert told(answer(session, flow, "sum")) == [11, 22]
        assert told(answer(session, flow, "same")) == [1, 2]


def test_an_input_that_nothing_is_given_to_ends_all_the_same():
    graph = graph_of(
        {"x": "input", "y": "input", "one": "output", "other": "output"},
        ["x -> one", "y -> other"],
    )
    with Running(graph) as flow:
        (session,) = flow.scheduler.create_sessions(1)
        flow.scheduler.submitter.enter_many([SessionEntry(session, {"x": [Buffer(1)]}, None)])
        assert told(answer(session, flow, "one")) == [1]
        assert told(answer(session, flow, "other")) == []
        assert flow.scheduler.wait_for(session, 60)


@pytest.mark.parametrize(
    ("settings", "in_flight", "expected", "reason"),
    [
        ({**ONE, "queue_size": 2}, None, 2, "queue of node 'n0' is full"),
        ({**ONE, "queue_size": 100}, 3, 2, "max_in_flight=3"),
        ({**ONE, "queue_size": 2, "split_size": 1}, None, 5, None),
    ],
    ids=["queue", "max_in_flight", "a queue where sessions take turns"],
)
def test_as_many_enter_as_there_is_room_for_and_the_rest_may_come_again(
    settings, in_flight, expected, reason
):
    gate, came = Gate(), []
    with Running(chain((gate.spec(), settings), max_in_flight=in_flight)) as flow:
        first, _, _ = enter(flow, [0])
        gate.entered.acquire()
        group = entries(flow, *([n] for n in range(1, 6)))
        count, backpressure = flow.scheduler.submitter.enter_many(group)
        assert count == expected
        if backpressure is None:
            assert reason is None
        else:
            assert reason in backpressure.reason
            backpressure.on_gone(lambda: came.append(1))
            assert came == []
        gate.open.set()
        while group := group[count:]:  # as the caller does after a backpressure callback
            group[0].session.progress.wake()
            answer(first[0], flow)
            count, backpressure = flow.scheduler.submitter.enter_many(group)
            if backpressure is not None:
                backpressure.wait(60)
    assert flow.scheduler.count_held() == {}
    assert came == ([1] if reason else [])


def test_a_big_request_enters_whole_where_there_is_room_for_a_row():
    with Running(chain((per_item(double), ONE))) as flow:
        (session,), count, _ = enter(flow, [1, 2, 3, 4, 5])
        assert count == 1
        assert told(answer(session, flow)) == [2, 4, 6, 8, 10]


def test_a_request_that_is_over_before_it_enters_is_passed_over():
    with Running(chain(per_item(double))) as flow:
        group = entries(flow, [1], [2])
        flow.scheduler.cancel(group[0].session)
        assert flow.scheduler.submitter.enter_many(group) == (2, None)
        assert told(answer(group[1].session, flow)) == [4]
        assert flow.scheduler.count_held() == {}


def test_a_gang_that_ctrl_c_breaks_off_in_the_middle_is_cancelled(monkeypatch):
    def interrupt(inbox, port, segments, handoff):
        raise KeyboardInterrupt

    with Running(chain(spec_of())) as flow:
        group = entries(flow, [1], [2])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Inbox, "append", interrupt)
            flow.scheduler.submitter.enter_many(group)
        assert [entry.session.is_cancelled for entry in group] == [True, True]
        assert flow.scheduler.count_held() == {}
