import threading

import pytest

from modelflow.unit.kind import Kind
from tests.runtime.graphs import Running, graph_of, per_item, results_of, told, unit_of


def parity(ctx):
    for buffer in ctx.input():
        ctx.outputs["odd" if buffer.data % 2 else "even"].append(buffer)


def condition(process=parity, **more):
    more.setdefault("outputs", ("odd", "even"))
    return unit_of(process, kind=Kind.CONDITION, name="condition", **more)


def merged(odd, even, spec=None, **settings):
    """input -> condition -> (odd, even) -> output, where they meet."""
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
        for value in range(2, 402, 2):  # far beyond every queue on the way: 32 each
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
        sender.join(0.5)  # time for more to come, if more could
        # What waits there, and what was under way to it: in two hands and in a queue of one.
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

    keeping = unit_of(keep, kind=Kind.STREAM, is_same_count=True)
    graph = merged(keeping, per_item(lambda x: x), queue_size=1, batch_size=1, threads=1)
    values = [0, *([1, 2, 4, 6] * 10)]
    assert results_of(graph, *values) == values
