import threading
from typing import Any

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded
from modelflow.plan import UnitPlan
from modelflow.runtime.kinds.expand import KIND, ExpandCall, Expanded
from modelflow.runtime.session.segment import Batch, Span
from modelflow.runtime.stages.kind import Connection
from modelflow.unit.kind import Collapse, Expand
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, graph_of, per_item, results_of, unit_of
from tests.runtime.queues.test_inbox import stream
from tests.runtime.stages.test_outbox import Gate, Receiver

inline = pytest.mark.parametrize("options", [{}, {"is_inline": True}], ids=["threads", "inline"])


def count_up(ctx):
    (row,) = ctx.input()
    if row.data < 0:
        raise ValueError("is negative")
    ctx.emit([row.data * 10 + i for i in range(row.data)])


def gather(ctx):
    ctx.emit([[buffer.data for buffer in ctx.input()]])


def expand(process=count_up, **more):
    return unit_of(process, kind=Expand(), name="expand", **more)


def collapse(process=gather, **more):
    return unit_of(process, kind=Collapse(), name="collapse", **more)


@inline
def test_a_collapse_reverses_an_expand_also_of_nothing(options):
    found = results_of(chain((expand(), {"threads": 3}), collapse()), 2, 0, 3, **options)
    assert found == [[20, 21], [], [30, 31, 32]]


@inline
def test_what_stays_expanded_comes_out_in_the_order_of_the_input(options):
    found = results_of(chain((expand(), {"threads": 4}), per_item(abs)), 3, 0, 1, 2, **options)
    assert found == [30, 31, 32, 10, 20, 21]


def test_expands_nest():
    graph = chain(expand(), expand(lambda ctx: ctx.emit([ctx.input()[0].data] * 2)))
    assert results_of(graph, 2) == [20, 20, 21, 21]
    graph = chain(expand(), expand(), collapse(), collapse())
    assert results_of(graph, 1, 0) == [[list(range(100, 110))], []]


def test_an_error_of_an_expand_is_the_error_of_its_one_result():
    assert results_of(chain(expand(), collapse()), 1, -1, 2) == [
        [10],
        "error: is negative",
        [20, 21],
    ]


def test_an_error_before_an_expand_passes_through():
    graph = chain(per_item(lambda x: 6 // x), expand(), collapse())
    first, bad, last = results_of(graph, 6, 0, 3)
    assert (first, last) == ([10], [20, 21])
    assert "division" in bad


def test_an_error_inside_is_the_error_of_the_collapse():
    graph = chain(expand(), per_item(lambda x: 1 // (x - 21)), collapse())
    first, bad = results_of(graph, 1, 2)
    assert first == [-1]
    assert "division" in bad


def test_a_collapse_to_which_errors_are_visible_sees_them_among_the_others():
    def process(ctx):
        ctx.emit([[b.data if b.error is None else "bad" for b in ctx.input()]])

    visible = (collapse(process, is_exception_visible=True), {"is_exception_visible": True})
    graph = chain(expand(), per_item(lambda x: x // (x - 21) and x), visible)
    assert results_of(graph, 3, 2) == [[30, 31, 32], [20, "bad"]]


def test_a_collapse_that_gives_none_or_two_is_in_error():
    graph = chain(expand(), collapse(lambda ctx: ctx.emit([b.data for b in ctx.input()])))
    zero, one, two = results_of(graph, 0, 1, 2)
    assert one == 10
    assert "gave 0 values on output 'out'; a collapse gives exactly one" in zero
    assert "gave 2 values on output 'out'" in two


@inline
def test_a_collapse_without_outputs_is_called_once_for_each_row_and_its_errors_are_told(options):
    seen, errors = [], []

    def keep(ctx):
        seen.append([buffer.data for buffer in ctx.input()])
        if not seen[-1]:
            raise ValueError("is empty")

    sink = collapse(keep, outputs=())
    graph = graph_of(
        {"input": "input", "e": expand(), "sink": sink, "output": "output"},
        ["input -> e", "e -> sink", "input -> output"],
    )
    assert results_of(graph, 2, 0, 3, on_error=errors.append, **options) == [2, 0, 3]
    assert seen == [[20, 21], [], [30, 31, 32]]
    assert ["is empty" in str(buffer.error) for buffer in errors] == [True]


def test_outputs_of_an_expand_must_be_of_one_length():
    def process(ctx):
        ctx.emit([1, 2], "a")
        ctx.emit([1] * ctx.input()[0].data, "b")

    graph = graph_of(
        {"input": "input", "e": expand(process, outputs=("a", "b")), "a": "output", "b": "output"},
        ["input -> e", "e:a -> a", "e:b -> b"],
    )
    found = results_of(graph, 2, 3)
    assert found["a"][:2] == [1, 2]
    assert "gave 2 values on 'a', 3 values on 'b'" in found["a"][2]
    assert found["b"] == [1, 1, found["a"][2]]


def test_two_outputs_of_one_expand_are_collapsed_apart_and_joined():
    def both(ctx):
        ctx.emit([1] * ctx.input()[0].data, "a")
        ctx.emit([2] * ctx.input()[0].data, "b")

    def join(ctx):
        ctx.emit([a.data + b.data for a, b in zip(ctx.inputs["a"], ctx.inputs["b"], strict=True)])

    graph = graph_of(
        {
            "input": "input",
            "e": expand(both, outputs=("a", "b")),
            "ca": collapse(),
            "cb": collapse(),
            "join": unit_of(join, inputs=("a", "b")),
            "output": "output",
        },
        ["input -> e", "e:a -> ca", "e:b -> cb", "ca -> join:a", "cb -> join:b", "join -> output"],
    )
    assert results_of(graph, 2, 0) == [[1, 1, 2, 2], []]


def test_batches_mix_the_sub_streams():
    sizes = []

    def process(ctx):
        sizes.append(len(ctx.input()))
        ctx.emit(list(ctx.input()))

    graph = chain(expand(), (unit_of(process), {"batch_size": 16, "queue_size": 64}), collapse())
    results_of(graph, 3, 3, 3, is_inline=True)
    assert max(sizes) > 3


def test_a_collapse_of_two_inputs_gets_their_pairs():
    def process(ctx):
        ctx.emit([[(a.data, b.data) for a, b in zip(*ctx.inputs.values(), strict=True)]])

    graph = graph_of(
        {
            "input": "input",
            "e": expand(),
            "n": per_item(lambda x: -x),
            "c": collapse(process, inputs=("a", "b")),
            "output": "output",
        },
        ["input -> e", "e -> n", "e -> c:a", "n -> c:b", "c -> output"],
    )
    assert results_of(graph, 2, 0) == [[(20, -20), (21, -21)], []]


def test_a_deadline_is_looked_at_inside_an_expand():
    entered, release, seen = threading.Event(), threading.Event(), []

    def wait(value):
        entered.set()
        assert release.wait(30)
        return value

    def slow(ctx):
        wait(0)
        ctx.emit([1, 2])

    graph = chain(expand(slow), per_item(seen.append), collapse())
    clock = FakeClock()
    with Running(graph, clock=clock) as flow:
        stream = flow.session()
        stream.send("input", 1, deadline=0.05)
        assert entered.wait(30)
        clock.advance(0.1)  # the deadline passes during the call of the expand unit
        release.set()
        stream.close_input()
        with pytest.raises(DeadlineExceeded):
            stream.recv()
    assert seen == []


def test_each_row_leaves_as_a_stream_that_is_ended_and_the_end_of_its_own_behind_it():
    to, s, gate = Receiver(), stream(), Gate()
    outbox = KIND.outbox(None, Connection([((to, 0),)], [], None, gate, None, 0))
    cells: list[Any] = [[Expanded([Buffer("a"), Buffer("b")]), Expanded()]]
    outbox.emit(Batch([Span(s, (4, 7), True, 1)], [[]], False), cells, False)
    assert (to.got, gate.paused) == ([], [s.session])
    cells = [[Expanded([Buffer("first")])]]
    outbox.emit(Batch([Span(s, (1,), False, 0)], [[]], False), cells, True)
    assert gate.paused == []
    first, second, third, end = to.got
    for part, position, count in ((first, 1, 1), (second, 4, 2), (third, 7, 0)):
        assert (part.stream.parent, part.stream.position) == (s, position)
        assert part.stream.session is s.session
        assert (part.positions, part.is_last) == (range(count), True)
    assert [part.has_errors for part in to.got] == [True, False, False, False]
    assert [b.data for b in second.columns[0]] == ["a", "b"]
    assert (end.stream, list(end.positions), end.columns, end.is_last) == (s, [], [[]], True)


def test_an_expand_that_gives_unequal_numbers_says_so():
    def process(ctx):
        ctx.emit([1, 2], "a")
        ctx.emit([1], "b")

    spec = unit_of(process, outputs=("a", "b"), kind=Expand())
    call = ExpandCall(
        spec.devices["cpu"](), UnitPlan("node", spec, inputs=("in",), consumers=(1, 1))
    )
    columns: Any = call.process([[Buffer(1)]], False, lambda row: None)
    text = "gave 2 values on 'a', 1 values on 'b'; an expand gives as many on every output"
    assert [text in str(cell[0].error) for (cell,) in columns] == [True, True]
