"""Tests of the number of rows that a unit got: rows in error pass by, and do not count."""

import contextlib

import numpy as np
import pytest

import modelflow
from modelflow.errors import EndOfStream, FlowUnitError
from modelflow.flow import Flow
from modelflow.unit.kind import Stream

ROWS = [1, -1, 2, -2, 3]


@modelflow.flowunit(name="given_refuse")
def refuse(value):
    if value < 0:
        raise ValueError("negative")
    return value


@modelflow.flowunit(name="given_next")
def after(value):
    return value + 1


@modelflow.flowunit(name="given_choose", kind="condition", outputs=("yes", "no"))
def choose(value):
    return {"yes": value}


@modelflow.flowunit(name="given_expand", kind="expand")
def expand(value):
    return [value, value]


class Each(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        name="given_each",
        devices={"cpu": lambda: Each()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        kind=Stream(),
    )

    def process(self, ctx):
        ctx.emit([buffer.data for buffer in ctx.input("in")])


@modelflow.flowunit(name="given_arrays", batched=True)
def arrays(values):
    return [np.float32(value) for value in values]


UNITS = {"next": after, "choose": choose, "expand": expand, "each": Each, "arrays": arrays}


CASES = [*((name, "") for name in UNITS), ("next", "fuse=one"), ("arrays", "fuse=one")]


@pytest.mark.parametrize(("name", "fuse"), CASES)
@pytest.mark.parametrize("threads", [0, None])
def test_rows_in_error_pass_by_and_are_not_given(name, fuse, threads):
    port = ":yes" if name == "choose" else ""
    text = (
        f"digraph {{ input [type=input] output [type=output] a [flowunit=given_refuse {fuse}]"
        f" b [flowunit=given_{name} {fuse}] input -> a -> b b{port} -> output }}"
    )
    with Flow(text, units=[refuse, UNITS[name]], threads=threads) as flow:
        stream = flow.create_stream_io()
        for value in ROWS:
            stream.send("input", value)
        stream.close_input()
        with contextlib.suppress(EndOfStream):
            while True:
                with contextlib.suppress(FlowUnitError):
                    stream.recv()
    stats = flow.stats()
    assert (stats["a"].buffers, stats["a"].errors) == (5, 2)
    assert (stats["b"].buffers, stats["b"].errors) == (3, 0)
    takes = stats["b"].batch_sizes
    assert sum(size * count for size, count in takes.items()) == 5
    assert stats["b"].batches == sum(takes.values())


def test_a_unit_that_handles_errors_is_given_all_rows():
    text = (
        "digraph { input [type=input] output [type=output] a [flowunit=given_refuse]"
        " b [flowunit=given_repair] input -> a -> b -> output }"
    )

    class Repair(modelflow.FlowUnit):
        SPEC = modelflow.FlowUnitSpec(
            name="given_repair",
            devices={"cpu": lambda: Repair()},
            inputs=(modelflow.Port("in"),),
            outputs=(modelflow.Port("out"),),
            is_exception_visible=True,
            is_exception_given=True,
        )

        def process(self, ctx):
            ctx.emit([0 if one.error is not None else one.data for one in ctx.input("in")])

    with Flow(text, units=[refuse, Repair]) as flow:
        assert [flow.infer(value).data for value in ROWS] == [1, 0, 2, 0, 3]
    assert flow.stats()["b"].buffers == 5
