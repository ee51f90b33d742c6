"""Tests of rows' deadlines, without a flow."""

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded, FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.stats import WorkerStats
from modelflow.runtime.workers.deadlines import carry, deadlines_of, expire
from tests.runtime.graphs import spec_of
from tests.runtime.queues.test_inbox import stream

PLAN = UnitPlan("node", spec_of(name="unit"))


def due(*deadlines):
    buffers = [Buffer(place, {"place": place}) for place in range(len(deadlines))]
    for buffer, deadline in zip(buffers, deadlines, strict=True):
        buffer._deadline = deadline
    return buffers


def expired(columns, now=11.0):
    source = stream("session 7")
    return expire(columns, deadlines_of(columns), now, PLAN, lambda row: source, WorkerStats())


def test_the_earliest_deadline_of_a_row_counts_over_its_ports_and_its_gathered_stream():
    assert deadlines_of([due(None, 3.0, 4.0), due(None, None, 2.0)]) == [None, 3.0, 2.0]
    assert deadlines_of([[due(5.0, 1.0), due(None)]]) == [1.0, None]


def test_a_row_whose_time_has_passed_is_an_error_with_its_meta():
    column, others = due(10.0, None, 12.0), due(None, None, None)
    found, other = expired([column, others])
    assert found[1:] == column[1:]
    assert other is others
    assert column[0].error is None  # the sender's buffer is unchanged
    assert found[0].meta == {"place": 0}
    error = found[0].error
    assert isinstance(error, FlowUnitError)
    assert isinstance(error.__cause__, DeadlineExceeded)
    assert (error.node, error.unit, error.session) == ("node", "unit", "session 7")


def test_nothing_changes_where_all_are_in_time_also_to_the_moment():
    assert expired([due(11.0, None)]) is None


def test_a_row_that_is_in_error_keeps_its_error():
    bad = Buffer.from_error(FlowUnitError("before", node="n"))
    bad._deadline = 1.0
    assert expired([[bad]]) is None


def test_a_gathered_stream_expires_as_a_whole():
    ((found, other),) = expired([[due(None, 10.0), due(None)]])
    assert [isinstance(buffer.error, FlowUnitError) for buffer in found] == [True]
    assert [buffer.error for buffer in other] == [None]


def test_what_becomes_of_a_row_is_due_when_it_was():
    plain, (one, other), parts = Buffer(1), due(9.0, 9.0), due(None, None)
    carry([5.0, None], [[plain, one], [None, other], [parts, []]])
    assert (plain._deadline, one._deadline, other._deadline) == (5.0, 9.0, 9.0)
    assert [part._deadline for part in parts] == [5.0, 5.0]


def test_every_row_is_looked_at_whatever_stands_before_it():
    bad = Buffer.from_error(FlowUnitError("before", node="n"))
    bad._deadline = 1.0
    late, rows = due(None, 10.0, 10.0), []
    column = [*late[:1], bad, *late[1:]]
    deadlines = deadlines_of([column])

    def stream_of(row):
        rows.append(row)
        return stream(f"session {row}")

    stats = WorkerStats()
    columns = expire([column], deadlines, 11.0, PLAN, stream_of, stats)
    assert columns is not None
    (found,) = columns
    assert found[:2] == column[:2]
    assert [str(b.error.__cause__)[:19] for b in found[2:]] == ["its deadline passed"] * 2
    assert [b.error.session for b in found[2:]] == ["session 2", "session 3"]
    assert rows == [2, 3]
    assert stats.expired == 2


def test_the_error_of_a_gathered_stream_has_the_meta_of_its_first_buffer():
    (((bad,),),) = expired([[due(10.0, None)]])
    assert bad.meta == {"place": 0}


def test_a_gathered_stream_with_an_error_in_it_keeps_that():
    bad = Buffer.from_error(FlowUnitError("before", node="n"))
    assert expired([[[*due(10.0), bad]]]) is None
