"""Tests of calls with a batch: only guilty rows fail, and a call leaves nothing."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

import modelflow
from modelflow.buffer import Buffer
from modelflow.errors import EndFlow, FlowUnitError, WorkerProcessError
from modelflow.unit.kind import Collapse, Condition, Expand, Loop, Normal, Stream
from modelflow.unit.port import Port
from modelflow.unit.unit import FlowUnit
from tests.runtime.graphs import Running, chain, graph_of, spec_of, unit_of
from tests.runtime.stages.test_call import call_of, run


class Local:
    """An object in a local variable of a unit's call."""


@pytest.mark.parametrize("kind", [Normal(), Stream(), Expand(), Condition(), Loop(), Collapse()])
def test_a_kept_error_does_not_keep_the_locals_of_its_call(kind):
    seen = []

    def deep():
        inner = Local()
        seen.append(weakref.ref(inner))
        raise KeyError("the cause")

    def helper(ctx):
        try:
            deep()
        except KeyError as error:
            raise ValueError("no good") from error

    def process(ctx):
        local = Local()
        seen.append(weakref.ref(local))
        helper(ctx)

    def same(ctx):
        ctx.emit([buffer.data for buffer in ctx.input()])

    outputs = ("out", "back") if isinstance(kind, Loop) else ("out",)
    spec = unit_of(process, kind=kind, outputs=outputs)
    nodes = {"input": "input", "u": spec, "output": "output"}
    edges = ["input -> u", "u -> output"]
    if isinstance(kind, Collapse):
        nodes["expand"] = unit_of(same, kind=Expand())
        edges = ["input -> expand", "expand -> u", "u -> output"]
    if isinstance(kind, Loop):
        nodes["body"] = spec_of()
        edges = ["input -> u", "u:out -> output", "u:back -> body", "body -> u"]
    with Running(graph_of(nodes, edges)) as flow:
        stream = flow.session()
        for i in range(8):
            stream.send("input", i)
        kept = [stream.recv(errors="return").error for _ in range(8)]
    gc.collect()
    assert all(error is not None for error in kept)
    assert len(seen) >= 16
    assert [ref() for ref in seen if ref() is not None] == []


def test_the_errors_that_a_session_keeps_do_not_keep_the_locals_of_their_calls():
    seen = []

    def process(ctx):
        local = Local()
        seen.append(weakref.ref(local))
        raise ValueError("no good")

    nodes = {"input": "input", "sink": (unit_of(process, outputs=()), {"batch_size": 4})}
    with Running(graph_of(nodes, ["input -> sink"])) as flow:
        stream = flow.session()
        for i in range(8):
            stream.send("input", i)
        stream.close_input()
        assert stream.wait(60)
        assert len(stream.errors) == 8
        gc.collect()
        assert [ref() for ref in seen if ref() is not None] == []


def test_a_result_is_read_only_where_the_unit_itself_still_has_the_array():
    zeros = np.zeros(3)

    def process(ctx):
        ctx.emit([zeros for _ in ctx.input()])

    with Running(chain(unit_of(process))) as flow:
        found = flow.infer(1)
        assert not found.data.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            found.data += 1
        assert flow.infer(1).data.tolist() == [0, 0, 0]


def test_a_result_is_read_only_where_the_reader_of_another_has_the_same_array():
    def process(ctx):
        array = np.zeros(3)
        ctx.emit([array for _ in ctx.input()])

    with Running(chain((unit_of(process), {"batch_size": 2, "threads": 1})), is_inline=True) as f:
        stream = f.session()
        submitter = f.scheduler.submitter
        submitter.send(stream._session, "input", [Buffer(1), Buffer(2)])
        first, second = stream.recv(), stream.recv()
        assert first.data is second.data
        assert not first.data.flags.writeable


@pytest.mark.parametrize("how", ["twice on one", "on both", "again later"])
def test_a_buffer_that_a_unit_gives_more_than_once_is_an_item_each_time(how):
    kept = Buffer(7, {"k": 0})

    def process(ctx):
        rows = len(ctx.input())
        ctx.emit([kept] * rows, "a")
        ctx.emit([kept if how == "on both" else 0] * rows, "b")

    def mark(ctx):
        for buffer in ctx.input():
            buffer.set("k", buffer.get("k", 0) + 1)
        ctx.outputs["out"] = ctx.inputs["in"]

    nodes = {
        "input": "input",
        "u": (unit_of(process, outputs=("a", "b"), inherits_meta=False), {"batch_size": 2}),
        "a": (unit_of(mark), {"batch_size": 2}),
        "b": unit_of(mark),
        "left": "output",
        "right": "output",
    }
    edges = ["input -> u", "u:a -> a", "u:b -> b", "a -> left", "b -> right"]
    with Running(graph_of(nodes, edges), is_inline=True) as flow:
        stream = flow.session()
        if how == "twice on one":
            flow.scheduler.submitter.send(stream._session, "input", [Buffer(1), Buffer(2)])
        else:
            stream.send("input", 1)
            stream.send("input", 2)
        stream.close_input()
        found = [stream.recv("left").get("k") for _ in range(2)]
        right = [stream.recv("right").get("k") for _ in range(2)]
    assert found == [1, 1]
    assert right == [1, 1]
    assert kept.meta == {"k": 0}


@pytest.mark.parametrize("how", ["own list", "given list", "context", "subclass"])
def test_a_buffer_whose_list_the_unit_has_kept_is_not_changed_by_who_comes_next(how):
    kept = []

    def process(ctx):
        values = kept[0] if kept else [Buffer(np.zeros(2), {"k": 0}) for _ in ctx.input()]
        if how == "own list":
            ctx.outputs["out"] = values
        elif how == "subclass":
            ctx.outputs["out"] = values = kept[0] if kept else UserValues(values)
        else:
            ctx.outputs["out"].extend(values)
            values = ctx.outputs["out"] if how == "given list" else values
        kept[:] = [values, ctx] if how == "context" else [values]

    def mark(ctx):
        for buffer in ctx.input():
            buffer.data += 1
            buffer.set("k", buffer.get("k") + 1)
        ctx.emit(ctx.input())

    marks = replace(unit_of(mark), inputs=(Port("in", is_in_place=True),))
    keeps = unit_of(process, inherits_meta=False)
    nodes = {"input": "input", "u": keeps, "mark": marks, "output": "output"}
    with Running(graph_of(nodes, ["input -> u", "u -> mark", "mark -> output"])) as flow:
        found = [flow.infer(row) for row in range(3)]
    assert [buffer.data.tolist() for buffer in found] == [[1, 1]] * 3
    assert [buffer.get("k") for buffer in found] == [1] * 3


class UserValues(list[Buffer]):
    """A user's own list type."""


def test_an_input_that_is_given_on_stays_the_same_buffer():
    source = Buffer(1)
    (column,) = run(call_of(lambda ctx: ctx.emit(ctx.input())), [source])
    assert column[0] is source


def test_an_output_has_no_meta_of_its_input_where_the_unit_inherits_none():
    call = call_of(lambda ctx: ctx.emit([2]), inherits_meta=False)
    (column,) = run(call, [Buffer(1, {"a": 1})])
    assert column[0].meta == {}


# -- a batch that fails --------------------------------------------------------------------------


def recording(sizes, error=ValueError, **more):
    def process(ctx):
        rows = [row.data for row in ctx.input()]
        sizes.append(rows)
        if "bad" in rows:
            raise error("is bad")
        for name in ctx.outputs:
            ctx.emit(rows, name)

    return call_of(process, **more)


def texts(column):
    return [
        b.data if b.error is None else f"{b.error.session}: {b.error.__cause__}" for b in column
    ]


def test_a_batch_that_fails_is_tried_again_in_halves_until_the_guilty_rows_stand_alone():
    sizes = []
    call = recording(sizes)
    (column,) = run(call, [0, 1, 2, "bad", 4])
    assert texts(column) == [0, 1, 2, "session 3: is bad", 4]
    whole = [0, 1, 2, "bad", 4]
    assert sizes == [whole, whole[:2], whole[2:], [2], ["bad", 4], ["bad"], [4]]
    assert (call.failed, call.has_errors) == (1, True)
    run(call, [5])
    assert (call.failed, call.has_errors) == (0, False)


def test_of_a_batch_that_ends_its_process_the_rows_are_tried_one_by_one():
    sizes = []
    (column,) = run(recording(sizes, WorkerProcessError), [0, "bad", 2])
    assert texts(column) == [0, "session 1: is bad", 2]
    assert sizes == [[0, "bad", 2], [0], ["bad"], [2]]


@pytest.mark.parametrize("more", [[], [2]])
def test_a_unit_that_writes_to_its_inputs_is_called_row_by_row(more):
    sizes = []
    (column,) = run(recording(sizes, in_place=True), [0, "bad", *more])
    assert texts(column) == [0, "session 1: is bad", *more]
    assert sizes == [[0], ["bad"], *([row] for row in more)]


def test_a_batch_that_ends_the_flow_is_not_tried_again():
    sizes = []
    with pytest.raises(EndFlow):
        run(recording(sizes, EndFlow), [0, "bad"])
    assert sizes == [[0, "bad"]]


def test_a_row_that_fails_does_so_on_every_output_with_a_buffer_of_its_own():
    first, second = run(recording([], outputs=("a", "b")), [0, "bad"])
    assert texts(first) == texts(second) == [0, "session 1: is bad"]
    assert first[1] is not second[1]


def test_errors_that_came_in_stand_at_their_rows_on_every_output_and_the_others_keep_theirs():
    sizes = []
    bad = Buffer.from_error(FlowUnitError("before", node="n"))
    call = recording(sizes, outputs=("a", "b"))
    first, second = run(call, [bad, 1, "bad", 3], has_errors=True)
    assert [b.error is not None for b in first] == [True, False, True, False]
    assert texts(first)[1:] == texts(second)[1:] == [1, "session 2: is bad", 3]
    assert first[0] is bad
    assert second[0] is not bad
    assert sizes[0] == [1, "bad", 3]
    assert (call.failed, call.has_errors) == (1, True)


def test_a_row_that_fails_keeps_its_session_where_the_errors_looked_for_are_not_there():
    (column,) = run(recording([]), [0, "bad"], has_errors=True)
    assert texts(column) == [0, "session 1: is bad"]


def test_where_every_row_is_in_error_the_unit_is_not_called():
    sizes = []
    bad = Buffer.from_error(FlowUnitError("before", node="n"))
    for outputs in ((), ("a",)):
        (column,) = run(recording(sizes, outputs=outputs), [bad, bad], has_errors=True)
        assert column == [bad, bad]
    assert sizes == []


def test_the_wrong_number_of_values_is_told():
    def process(ctx):
        ctx.emit([1, 2])

    (column,) = run(call_of(process), [0])
    text = "gave 2 values on output 'out' for 1 input; a normal unit gives one for each"
    assert text in str(column[0].error)


def test_what_a_batch_gave_is_told_by_its_parts():
    def process(ctx):
        ctx.emit([b.data for b in ctx.input()][1:])

    (column,) = run(call_of(process), [0, 1, 2, 3])
    text = (
        "gave 0 values on output 'out' for 1 input (and 3 for the batch of 4); a normal unit gives "
        "one for each"
    )
    assert [text in str(buffer.error) for buffer in column] == [True] * 4


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (tuple, [5, 6]),
        (np.array, [5, 6]),
        (lambda rows: dict(enumerate(rows)), [5, 6]),
        (set, "'set' object is not subscriptable"),
    ],
)
def test_a_row_is_given_what_stands_at_its_place(make, found):
    def process(ctx):
        ctx.outputs["out"] = make([b.data for b in ctx.input()])

    (column,) = run(call_of(process), [5, 6])
    if isinstance(found, str):
        assert [found in str(buffer.error) for buffer in column] == [True, True]
    else:
        assert [buffer.data for buffer in column] == found


def test_an_array_of_another_type_than_declared_is_an_error_of_its_row():
    def process(ctx):
        ctx.emit([b.data.astype("f4" if b.data[0] else "f8") for b in ctx.input()])

    rows = [np.array([n], t) for n, t in ((1, "u1"), (0, "u1"), (1, "i8"), (2, "u1"))]
    call = call_of(process, dtypes=("uint8", "float32"))
    (column,) = run(call, [Buffer(rows[0], {"path": "a"}), *rows[1:]])
    texts = ["" if b.error is None else b.error.message for b in column]
    assert texts == [
        "",
        "ValueError: out: got a float64 array; expected float32",
        "ValueError: in: got a int64 array; expected uint8",
        "",
    ]
    assert (call.failed, call.has_errors) == (2, True)


def test_a_unit_that_returns_something_is_told_to_emit():
    class Returning(FlowUnit):
        def process(self, ctx):
            return [1]

    call = call_of(lambda ctx: None)
    call.unit = Returning()
    (column,) = run(call, [0])
    assert "process() returned list; expected nothing" in str(column[0].error)


@pytest.mark.parametrize("is_batched", [False, True])
def test_a_function_in_a_graph_keeps_errors_meta_and_arrays_as_a_class_does(is_batched):
    def halve(value):
        if value.sum() < 0:
            raise ValueError("negative")
        return value / 2

    def halve_all(values):
        return [halve(value) for value in values]

    unit = modelflow.flowunit(batched=is_batched)(halve_all if is_batched else halve)
    text = f"digraph {{ input [type=input] output [type=output] {unit.SPEC.name} [batch_size=4]"
    text += f" input -> {unit.SPEC.name} -> output }}"
    with modelflow.Flow(text, units=[unit], threads=0) as flow, flow.create_stream_io() as stream:
        sent = [Buffer(np.full(2, value), {"row": value}) for value in (2.0, -1.0, 4.0)]
        found = stream.exchange({"input": sent})["output"]
    assert [buffer.get("row") for buffer in found] == [2.0, -1.0, 4.0]
    assert [buffer.error is None for buffer in found] == [True, False, True]
    assert "negative" in str(found[1].error)
    assert [buffer.data.tolist() for buffer in (found[0], found[2])] == [[1.0, 1.0], [2.0, 2.0]]


def test_a_unit_that_empties_its_inputs_and_fails_has_an_error_for_each_row():
    def process(ctx):
        ctx.inputs["in"].clear()
        raise ValueError("no good")

    call = call_of(process, kind=Normal(is_batch_retried=False))
    (column,) = run(call, [Buffer(1), Buffer(2), Buffer(3)])
    assert [buffer.error is not None for buffer in column] == [True, True, True]


def test_a_class_may_have_methods_of_any_name():
    class Doubling(modelflow.FlowUnit):
        def process(self, ctx):
            ctx.emit([2 * buffer.data for buffer in ctx.inputs["in"]], "out")

        def compute_column(self, column):
            raise AssertionError("not called")

        _compute_column = compute_column

    spec = modelflow.FlowUnitSpec(
        "doubling", {"cpu": Doubling}, (modelflow.Port("in"),), (modelflow.Port("out"),)
    )
    text = "digraph { input [type=input] output [type=output] input -> doubling -> output }"
    with modelflow.Flow(text, units=[spec], threads=0) as flow:
        assert flow.infer(3).data == 6
