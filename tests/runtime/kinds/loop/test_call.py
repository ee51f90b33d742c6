"""Tests of the calls of a loop unit."""

import pytest

from modelflow.unit.kind import Loop
from tests.runtime.graphs import graph_of, per_item, results_of, unit_of
from tests.runtime.kinds.loop.test_looping import round_about


def test_an_error_leaves_by_the_exit_in_its_place():
    assert results_of(round_about(per_item(lambda x: x + 3)), 1, "bad", 2) == [
        10,
        "error: is bad",
        11,
    ]
    found = results_of(round_about(per_item(lambda x: x // (x - 4) * 0 + x + 3)), 3, 1, 2)
    assert found[0] == 12
    assert "division" in found[1]
    assert found[2] == 11


@pytest.mark.parametrize("exit_port", ["back", "exit"])
def test_a_loop_that_gives_two_is_in_error_and_leaves_by_the_exit(exit_port):
    def process(ctx):
        for output in ctx.outputs.values():
            output.append(1)

    loop = unit_of(process, outputs=("back", "exit"), kind=Loop())
    other = "back" if exit_port == "exit" else "exit"
    graph = graph_of(
        {"input": "input", "loop": loop, "body": per_item(lambda x: x), "output": "output"},
        ["input -> loop", f"loop:{other} -> body", "body -> loop", f"loop:{exit_port} -> output"],
    )
    (error,) = results_of(graph, 0)
    assert (
        error
        == "error: gave 1 values on 'back', 1 values on 'exit'; a loop gives one, on one output"
    )


def test_an_error_that_a_loop_sends_round_passes_what_stands_there():
    def process(ctx):
        ctx.outputs["back"].append(ValueError("is bad"))

    loop = unit_of(process, outputs=("back", "exit"), kind=Loop())
    assert results_of(round_about(per_item(lambda x: x + 1), loop), 0) == ["error: is bad"]
