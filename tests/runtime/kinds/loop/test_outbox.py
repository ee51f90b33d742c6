"""Tests of the outbox of a loop unit."""

from modelflow.buffer import Buffer
from modelflow.runtime.kinds.loop.looping import ENTRY
from modelflow.unit.kind import Loop
from tests.runtime.graphs import graph_of, per_item, results_of, unit_of
from tests.runtime.kinds.loop.test_looping import inline, looping, round_about, until, values
from tests.runtime.queues.test_inbox import segment, stream


@inline
def test_a_buffer_goes_round_until_it_leaves_and_the_order_is_restored(options):
    found = results_of(round_about(per_item(lambda x: x + 3)), 1, 20, 0, 10, 9, **options)
    assert found == [10, 20, 12, 10, 12]


@inline
def test_a_loop_may_lead_back_to_itself_at_once(options):
    def process(ctx):
        (row,) = ctx.input()
        ctx.emit([row.data + 1], "exit" if row.data >= 5 else "back")

    loop = unit_of(process, outputs=("exit", "back"), kind=Loop())
    graph = graph_of(
        {"input": "input", "loop": loop, "output": "output"},
        ["input -> loop", "loop:back -> loop", "loop:exit -> output"],
    )
    assert results_of(graph, 0, 9, 3, **options) == [6, 10, 6]


def test_many_more_buffers_than_any_queue_go_round():
    graph = round_about(
        (per_item(lambda x: x + 1), {"queue_size": 1, "batch_size": 1, "threads": 2}),
        until(3),
        queue_size=1,
        threads=2,
    )
    assert results_of(graph, *([0] * 200)) == [3] * 200


def test_loops_nest():
    graph = graph_of(
        {
            "input": "input",
            "outer": until(100),
            "inner": until(10),
            "add": per_item(lambda x: x + 4),
            "times": per_item(lambda x: x * 5),
            "output": "output",
        },
        [
            "input -> outer",
            "outer:back -> inner",
            "inner:back -> add",
            "add -> inner",
            "inner:exit -> times",
            "times -> outer",
            "outer:exit -> output",
        ],
    )
    assert results_of(graph, 1, 100, 11) == [325, 100, 275]


def test_a_sink_on_the_way_round_sees_every_round():
    seen = []
    graph = graph_of(
        {
            "input": "input",
            "loop": until(3),
            "body": per_item(lambda x: x + 1),
            "sink": unit_of(lambda ctx: seen.extend(b.data for b in ctx.input()), outputs=()),
            "output": "output",
        },
        [
            "input -> loop",
            "loop:back -> body",
            "body -> loop",
            "body -> sink",
            "loop:exit -> output",
        ],
    )
    assert results_of(graph, 0, 2) == [3, 3]
    assert sorted(seen) == [1, 2, 3, 3]


def test_the_exit_may_be_the_second_output():
    here, s = looping(bound=4), stream()
    here.add(ENTRY, [segment(s, 0, 2)])
    leaving, going = here.settle(
        here.cut(2), [[None, Buffer("round")], [Buffer("left"), None]], False, 1
    )
    assert (values(leaving), values(going)) == (["left"], ["round"])
