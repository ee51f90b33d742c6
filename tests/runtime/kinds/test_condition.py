import dataclasses
import threading

import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.errors import EndFlow, FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.kinds.condition import KIND, ConditionCall
from modelflow.runtime.session.segment import Batch, Span
from modelflow.runtime.stages.kind import Connection
from modelflow.unit.kind import Condition, Count, Stream
from modelflow.unit.port import Port
from tests.runtime.graphs import Running, graph_of, per_item, results_of, told, unit_of
from tests.runtime.queues.test_inbox import stream
from tests.runtime.stages.test_outbox import Gate, Receiver


def parity(ctx):
    for buffer in ctx.input():
        ctx.outputs["odd" if buffer.data % 2 else "even"].append(buffer)


def condition(process=parity, **more):
    more = {"outputs": ("odd", "even"), "kind": Condition(), **more}
    return unit_of(process, name="condition", **more)


def merged(odd, even, spec=None, **settings):
    """Returns the graph input -> condition -> (odd, even) -> output, where the branches meet."""
    return graph_of(
        {
            "input": "input",
            "condition": (spec or condition(), settings),
            "odd": odd,
            "even": even,
            "output": "output",
        },
        [
            "input -> condition",
            "condition:odd -> odd",
            "condition:even -> even",
            "odd -> output",
            "even -> output",
        ],
    )


def test_each_buffer_leaves_by_one_output_and_the_order_is_restored():
    graph = merged(per_item(lambda x: x * 10), per_item(lambda x: -x), threads=4, batch_size=3)
    assert results_of(graph, *range(10)) == [0, 10, -2, 30, -4, 50, -6, 70, -8, 90]


def test_branches_that_do_not_meet_each_give_what_took_them():
    graph = graph_of(
        {"input": "input", "condition": condition(), "odd": "output", "even": "output"},
        ["input -> condition", "condition:odd -> odd", "condition:even -> even"],
    )
    assert results_of(graph, 1, 2, 3) == {"odd": [1, 3], "even": [2]}


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        ((), "gave 0 values on 'odd', 0 values on 'even'; each buffer leaves by exactly one"),
        (("odd", "even"), "gave 1 values on 'odd', 1 values on 'even'; each buffer leaves"),
    ],
)
def test_a_buffer_that_leaves_by_none_or_two_is_in_error_and_leaves_by_the_first(ports, message):
    def process(ctx):
        for port in ports if ctx.input()[0].data == 2 else ("even",):
            ctx.outputs[port].append(ctx.input()[0])

    graph = merged(per_item(lambda x: x), per_item(lambda x: -x), condition(process))
    one, two, three = results_of(graph, 1, 2, 3)
    assert (one, three) == (-1, -3)
    assert message in two


def test_an_exception_fails_its_own_buffer_alone():
    def process(ctx):
        if ctx.input()[0].data == 2:
            raise ValueError("no two")
        parity(ctx)

    graph = merged(per_item(lambda x: x), per_item(lambda x: -x), condition(process))
    assert results_of(graph, 1, 2, 3, 4) == [1, "error: no two", 3, -4]


def test_an_error_never_leaves_by_an_output_that_feeds_nothing():
    def process(ctx):
        raise ValueError("fails")

    graph = graph_of(
        {"input": "input", "condition": condition(process), "output": "output"},
        ["input -> condition", "condition:even -> output"],
    )
    assert results_of(graph, 1) == ["error: fails"]


def test_a_condition_that_says_so_is_called_with_batches():
    sizes = []

    def process(ctx):
        rows = ctx.input()
        sizes.append(len(rows))
        ctx.outputs["odd"] += [row if row.data % 2 else None for row in rows]
        ctx.outputs["even"] += [None if row.data % 2 else row for row in rows]

    graph = merged(
        per_item(lambda x: x),
        per_item(lambda x: -x),
        condition(process, batch_size=8),
        threads=1,
        queue_size=16,
    )
    assert results_of(graph, *range(8), is_inline=True) == [0, 1, -2, 3, -4, 5, -6, 7]
    assert sizes == [8]


def test_a_fast_branch_goes_on_while_a_slow_one_stands_and_the_order_is_kept():
    started, release, seen = threading.Event(), threading.Event(), []
    done = threading.Semaphore(0)

    def slow(value):
        started.set()
        assert release.wait(30)
        return value

    def fast(value):
        seen.append(value)
        done.release()
        return value

    graph = merged(per_item(slow, threads=1), per_item(fast, threads=1))
    with Running(graph) as flow:
        stream = flow.session()
        stream.send("input", 1)
        assert started.wait(30)
        for value in range(2, 402, 2):  # far beyond every queue on the path (32 each)
            stream.send("input", value, timeout=30)
        for _ in range(200):
            assert done.acquire(timeout=30)
        assert stream._results("output").get_nowait() is None
        release.set()
        stream.close_input()
        found = told(list(stream))
    assert found == [1, *range(2, 402, 2)]
    assert seen == list(range(2, 402, 2))


def test_a_condition_waits_when_too_much_waits_for_a_slow_branch(monkeypatch):
    monkeypatch.setattr("modelflow.plan.make.MERGE_BOUND", 8)
    started, release, count = threading.Event(), threading.Event(), []

    def slow(value):
        started.set()
        assert release.wait(30)
        return value

    done = threading.Semaphore(0)

    def noted(value):
        count.append(value)
        done.release()
        return value

    def send(stream):
        for value in range(2, 402, 2):
            stream.send("input", value)
        stream.close_input()

    graph = merged(
        per_item(slow, threads=1),
        (per_item(noted, threads=1), {"queue_size": 1, "batch_size": 1}),
        threads=1,
        batch_size=1,
        queue_size=1,
    )
    with Running(graph) as flow:
        stream = flow.session()
        stream.send("input", 1)
        assert started.wait(30)
        sender = threading.Thread(target=send, args=(stream,), name="modelflow/test")
        sender.start()
        for _ in range(8):
            assert done.acquire(timeout=60)
        sender.join(0.5)  # time in which further rows could arrive
        # The rows that wait behind the condition, and those on the way: one in a queue of one, and
        # two in the hands of threads.
        assert 8 <= len(count) <= 8 + 3
        release.set()
        found = told(list(stream))
        sender.join()
    assert found == [1, *range(2, 402, 2)]


def test_a_condition_in_a_branch_of_another_meets_at_the_same_place():
    inner = condition(
        lambda ctx: ctx.outputs["odd" if ctx.input()[0].data > 4 else "even"].append(ctx.input()[0])
    )
    graph = graph_of(
        {
            "input": "input",
            "outer": condition(),
            "inner": inner,
            "big": per_item(lambda x: x * 100),
            "small": per_item(lambda x: x * 10),
            "output": "output",
        },
        [
            "input -> outer",
            "outer:odd -> inner",
            "inner:odd -> big",
            "inner:even -> small",
            "big -> output",
            "small -> output",
            "outer:even -> output",
        ],
    )
    assert results_of(graph, *range(8)) == [0, 10, 2, 30, 4, 500, 6, 700]


def test_two_of_three_branches_may_meet():
    def process(ctx):
        (row,) = ctx.input()
        ctx.outputs["abc"[row.data % 3]].append(row)

    graph = graph_of(
        {
            "input": "input",
            "condition": condition(process, outputs=("a", "b", "c")),
            "output": "output",
            "rest": "output",
        },
        [
            "input -> condition",
            "condition:a -> output",
            "condition:c -> output",
            "condition:b -> rest",
        ],
    )
    assert results_of(graph, *range(7)) == {"output": [0, 2, 3, 5, 6], "rest": [1, 4]}


def test_a_branch_that_keeps_its_rows_until_others_have_passed_does_not_stop_the_flow(monkeypatch):
    monkeypatch.setattr("modelflow.plan.make.MERGE_BOUND", 2)

    def keep(ctx):
        kept = ctx.state.setdefault("kept", [])
        kept += [buffer.data for buffer in ctx.input()]
        if len(kept) == 10:
            ctx.emit(kept)
            kept.clear()

    keeping = unit_of(keep, kind=Stream(Count.SAME))
    graph = merged(keeping, per_item(lambda x: x), queue_size=1, batch_size=1, threads=1)
    values = [0, *([1, 2, 4, 6] * 10)]
    assert results_of(graph, *values) == values


# -- a call ---------------------------------------------------------------------------------------


class Called:
    """A condition that routes numbers, and the arguments of its calls."""

    def __init__(self, *, consumers=(1, 1), is_exception_visible=False, is_in_place=False, **spec):
        self.given = []

        def process(ctx):
            rows = ctx.input()
            values = [None if row.error else row.data for row in rows]
            self.given.append(values)
            if "bad" in values:
                raise ValueError("is bad")
            for name, is_odd in (("odd", 1), ("even", 0)):
                ctx.outputs[name] += [
                    row if (value or 0) % 2 == is_odd else None
                    for row, value in zip(rows, values, strict=True)
                ]

        made = condition(process, **spec)
        if is_in_place:
            made = dataclasses.replace(made, inputs=(Port("in", is_in_place=True),))
        plan = UnitPlan(
            "node",
            made,
            inputs=("in",),
            consumers=tuple(consumers),
            is_exception_visible=is_exception_visible,
        )
        self.call = ConditionCall(made.devices["cpu"](), plan)

    def process(self, *values, has_errors=False):
        """Returns the cells of each output: the row's value, an error's text, or None."""
        rows = [value if isinstance(value, Buffer) else Buffer(value) for value in values]
        columns = self.call.process([rows], has_errors, lambda row: STREAMS[row])
        return [[cell and (cell.error or cell.data) for cell in column] for column in columns]


STREAMS = [stream(f"s{number}") for number in range(9)]
BEFORE = FlowUnitError("before", node="n")


def bad():
    return Buffer.from_error(BEFORE)


@pytest.mark.parametrize(
    ("spec", "calls"),
    [
        ({}, [[1], [2]]),
        ({"batch_size": 1}, [[1], [2]]),
        ({"batch_size": 2}, [[1, 2]]),
        ({"batch_size": 2, "is_in_place": True}, [[1], [2]]),
    ],
)
def test_a_condition_is_called_with_batches_where_it_says_so_and_does_not_write_to_them(
    spec, calls
):
    condition = Called(**spec)
    assert condition.process(1, 2) == [[1, None], [None, 2]]
    assert condition.given == calls


def test_of_a_batch_with_errors_the_good_rows_are_called_one_by_one():
    condition = Called(batch_size=8)
    assert condition.process(1, bad(), 2, has_errors=True) == [[1, BEFORE, None], [None, None, 2]]
    assert condition.given == [[1], [2]]


def test_a_condition_to_which_errors_are_visible_sees_them_in_its_batch():
    condition = Called(batch_size=8, is_exception_visible=True)
    assert condition.process(1, bad(), has_errors=True) == [[1, None], [None, BEFORE]]
    assert condition.given == [[1, None]]


def test_a_batch_that_fails_is_called_row_by_row_and_the_guilty_row_fails():
    condition = Called(batch_size=8)
    (odd, even) = condition.process(1, "bad", 2)
    assert (odd[0], odd[2], even) == (1, None, [None, None, 2])
    assert (odd[1].session, str(odd[1].__cause__)) == ("s1", "is bad")
    assert condition.given == [[1, "bad", 2], [1], ["bad"], [2]]
    assert condition.call.failed == 1


def test_a_batch_of_one_may_leave_by_one_output_alone(monkeypatch):
    calls = []

    def process(ctx):
        calls.append(1)
        ctx.outputs["odd"].append(ctx.input()[0])

    call = Called(batch_size=8).call
    monkeypatch.setattr(call.unit, "process", process)
    assert [len(column) for column in call.process([[Buffer(1)]], False, lambda row: None)] == [
        1,
        1,
    ]
    assert (call.failed, calls) == (0, [1])


@pytest.mark.parametrize("used", [0, 1])
def test_a_batch_that_fails_and_is_not_tried_again_fails_as_a_whole(used):
    condition = Called(
        batch_size=8, kind=Condition(is_batch_retried=False), consumers=(1 - used, used)
    )
    columns = condition.process(1, "bad", 2)
    assert columns[1 - used] == [None] * 3
    assert [error.session for error in columns[used]] == ["s0", "s1", "s2"]
    assert {str(error.__cause__) for error in columns[used]} == {"is bad"}
    assert condition.given == [[1, "bad", 2]]
    assert condition.call.failed == 3


def test_an_error_of_a_condition_that_feeds_nothing_leaves_by_its_first_output():
    (first, second) = Called(consumers=(0, 0)).process("bad")
    assert first[0] is not None
    assert second == [None]


def test_a_batch_that_gives_too_little_is_in_error_and_says_so(monkeypatch):
    def process(ctx):
        ctx.outputs["odd"] += [1]

    condition = Called(batch_size=8, kind=Condition(is_batch_retried=False))
    monkeypatch.setattr(condition.call.unit, "process", process)
    (error, _), _ = condition.process(1, 2)
    assert "gave 1 values on output 'odd' for 2 inputs; a condition gives one" in str(error)


# -- rows that leave ------------------------------------------------------------------------------


def test_branches_that_meet_are_told_the_rows_that_leave_by_them_and_no_others():
    ways, meeting, s = [Receiver() for _ in range(3)], Receiver(), stream()
    to = Connection(
        [((way, 0),) for way in ways],
        [(frozenset({0, 2}), ((meeting, 1),))],
        None,
        None,
        None,
        100,
    )
    outbox = KIND.outbox(None, to)
    cells = [[Buffer(i) if i in kept else None for i in range(4)] for kept in ({0}, {2}, {1, 3})]
    outbox.emit(Batch([Span(s, range(4), False)], [[]], False), cells, False)
    assert [way.values(s) for way in ways] == [[0], [2], [1, 3]]
    assert [list(part.positions) for part in meeting.got] == [[0, 1, 3]]


def test_rows_of_several_workers_leave_in_the_order_of_their_tickets():
    way, s = Receiver(), stream()
    gate = Gate()
    outbox = KIND.outbox(None, Connection([((way, 0),)], [], None, gate, None, 0))
    for ticket in (1, 0):
        batch = Batch([Span(s, range(ticket, ticket + 1), False, ticket)], [[]], False)
        outbox.emit(batch, [[Buffer(ticket)]], False)
        assert gate.paused == [s.session] * ticket
    assert way.values(s) == [0, 1]


def test_a_batch_that_ends_the_flow_does_so_at_once(monkeypatch):
    def process(ctx):
        calls.append(len(ctx.input()))
        raise EndFlow("enough")

    calls, call = [], Called(batch_size=8).call
    monkeypatch.setattr(call.unit, "process", process)
    with pytest.raises(EndFlow):
        call.process([[Buffer(1), Buffer(2)]], False, lambda row: None)
    assert calls == [2]


def test_of_a_batch_that_fails_an_error_that_came_in_with_it_passes():
    condition = Called(batch_size=8, is_exception_visible=True)
    condition.process("bad", bad(), has_errors=True)
    assert condition.given == [["bad", None], ["bad"], [None]]


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("is_of_input", [True, False])
def test_an_array_of_another_type_than_declared_is_the_error_of_its_item_alone(
    batch_size, is_of_input
):
    typed = Port("in", dtype="uint8") if is_of_input else Port("in")
    outputs = (Port("odd", dtype="uint8"), Port("even", dtype="uint8"))

    def process(ctx):
        for buffer in ctx.input():
            ctx.outputs["odd"].append(buffer)
            if batch_size > 1:
                ctx.outputs["even"].append(None)

    spec = dataclasses.replace(
        condition(process, batch_size=batch_size), inputs=(typed,), outputs=outputs
    )
    settings = {"batch_size": batch_size}
    graph = graph_of(
        {"input": "input", "condition": (spec, settings), "odd": "output", "even": "output"},
        ["input -> condition", "condition:odd -> odd", "condition:even -> even"],
    )
    good = np.zeros(2, np.uint8)
    first, bad, last = results_of(graph, good, np.zeros(2), good)["odd"]
    assert first.tolist() == last.tolist() == [0, 0]
    name = "in" if is_of_input else "odd"
    assert f"{name}: got a float64 array; expected uint8" in str(bad)
