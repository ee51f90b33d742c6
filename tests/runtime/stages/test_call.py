import gc
import weakref

import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.kinds.expand import ExpandCall
from modelflow.runtime.kinds.normal import NormalCall
from modelflow.runtime.session.segment import Stream
from modelflow.runtime.stages.call import claim
from modelflow.runtime.stages.sharing import freeze, make_writable
from modelflow.testing import run_unit
from modelflow.unit import kind as kinds
from modelflow.unit.kind import Collapse, Expand, Normal
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit
from tests.runtime.fake_session import FakeSession
from tests.runtime.graphs import unit_of


def call_of(
    process,
    *,
    outputs=("out",),
    in_place=False,
    consumers=None,
    visible=False,
    dtypes=(None, None),
    make=NormalCall,
    **spec,
):
    class Unit(FlowUnit):
        def process(self, ctx):
            return process(ctx)

    described = FlowUnitSpec(
        name="unit",
        devices={"cpu": Unit},
        inputs=(Port("in", is_in_place=in_place, dtype=dtypes[0]),),
        outputs=tuple(Port(name, dtype=dtypes[1]) for name in outputs),
        **spec,
    )
    return make(
        Unit(),
        UnitPlan(
            "node",
            described,
            inputs=("in",),
            consumers=tuple(consumers or [1] * len(outputs)),
            is_exception_visible=visible,
        ),
    )


def run(call, values, has_errors=False):
    column = [v if isinstance(v, Buffer) else Buffer(v) for v in values]
    return call.process([column], has_errors, lambda row: Stream(FakeSession(f"session {row}")))


def double_all(ctx):
    for buffer in ctx.input():
        if buffer.data == "bad":
            raise ValueError("is bad")
        ctx.emit([buffer.data * 2])


def test_outputs_are_wrapped_and_inherit_the_meta_of_their_input():
    def process(ctx):
        ctx.emit([b.data + 1 for b in ctx.input()[:1]])
        ctx.emit([Buffer(b.data + 1, {"a": "own"}) for b in ctx.input()[1:]])

    (column,) = run(call_of(process), [Buffer(1, {"a": 1, "b": 2}), Buffer(2, {"a": 1, "b": 2})])
    assert [b.data for b in column] == [2, 3]
    assert column[0].meta == {"a": 1, "b": 2}
    assert column[1].meta == {"a": "own", "b": 2}


def test_inherited_meta_is_private_to_the_output():
    source = Buffer(1, {"a": 1})
    (column,) = run(call_of(lambda ctx: ctx.emit([0])), [source])
    column[0].set("a", 2)
    assert source.meta == {"a": 1}


def test_only_the_guilty_buffer_of_a_batch_fails():
    call = call_of(double_all)
    (column,) = run(call, [1, "bad", 3])
    assert [b.data for b in column] == [2, None, 6]
    error = column[1].error
    assert isinstance(error, FlowUnitError)
    assert isinstance(error.__cause__, ValueError)
    assert (error.node, error.unit, error.phase, error.session) == (
        "node",
        "unit",
        "process",
        "session 1",
    )
    assert str(error) == "node 'node' (unit 'unit') failed in process: ValueError: is bad"
    assert call.failed == 1


def test_a_unit_may_opt_out_of_the_second_try():
    calls = []

    def process(ctx):
        calls.append(len(ctx.input()))
        raise ValueError

    (column,) = run(call_of(process, kind=Normal(is_batch_retried=False)), [1, 2])
    assert calls == [2]
    assert all(b.has_error() for b in column)


def test_an_exception_as_output_fails_that_buffer_alone_without_another_call():
    calls = []

    def process(ctx):
        calls.append(1)
        ctx.emit([1, ValueError("no"), 3])

    call = call_of(process)
    (column,) = run(call, [1, 2, 3])
    assert [b.data for b in column] == [1, None, 3]
    assert "ValueError: no" in str(column[1].error)
    assert len(calls) == 1
    assert call.failed == 1


def test_a_wrong_number_of_outputs_is_an_error_that_counts():
    (column,) = run(call_of(lambda ctx: ctx.emit([1, 2])), [1])
    assert "gave 2 values on output 'out' for 1 input;" in str(column[0].error)


def test_buffers_in_error_pass_untouched_in_their_place():
    broken = Buffer.from_error(FlowUnitError("earlier", node="before", unit="u"))
    seen = []

    def process(ctx):
        seen.extend(b.data for b in ctx.input())
        ctx.emit([b.data for b in ctx.input()])

    (column,) = run(call_of(process), [1, broken, 3], has_errors=True)
    assert seen == [1, 3]
    assert column[1] is broken
    assert [b.data for b in column] == [1, None, 3]


def test_an_error_behind_an_error_keeps_its_row_and_session():
    broken = Buffer.from_error(FlowUnitError("earlier"))
    (column,) = run(call_of(double_all), [broken, 1, "bad"], has_errors=True)
    assert column[0] is broken
    assert column[1].data == 2
    assert column[2].error.session == "session 2"


def test_an_exception_visible_unit_sees_errors_and_may_mend_them():
    broken = Buffer.from_error(FlowUnitError("earlier"))

    def process(ctx):
        ctx.emit(["mended" if b.has_error() else b.data for b in ctx.input()])

    (column,) = run(call_of(process, visible=True), [1, broken], has_errors=True)
    assert [b.data for b in column] == [1, "mended"]


def test_a_sink_gives_its_errors_in_their_rows():
    def process(ctx):
        for buffer in ctx.input():
            if buffer.data == 2:
                raise ValueError("no")

    call = call_of(process, outputs=())
    (column,) = run(call, [1, 2, 3])
    assert [b.has_error() for b in column] == [False, True, False]


def test_arrays_are_read_only_for_the_next_unit():
    (column,) = run(call_of(lambda ctx: ctx.emit([np.zeros(3)])), [1])
    with pytest.raises(ValueError, match="read-only"):
        column[0].data[0] = 1


def test_an_in_place_unit_writes_an_array_that_was_handed_over_without_a_copy():
    array = np.zeros(3)
    buffer = Buffer(array)
    freeze(buffer, is_handed_over=True)
    address = array.ctypes.data

    def process(ctx):
        ctx.input()[0].data[:] = 7
        ctx.outputs["out"] = ctx.inputs["in"]

    (column,) = run(call_of(process, in_place=True), [buffer])
    assert column[0].data.ctypes.data == address
    assert column[0].data.tolist() == [7, 7, 7]


@pytest.mark.parametrize("how", ["not handed over", "read-only before"])
def test_an_in_place_unit_gets_a_copy_where_somebody_else_sees_the_array(how):
    array = np.zeros(3)
    array.flags.writeable = how == "not handed over"
    buffer = Buffer(array)
    freeze(buffer, is_handed_over=how == "read-only before")

    def process(ctx):
        ctx.input()[0].data[:] = 7
        ctx.outputs["out"] = ctx.inputs["in"]

    run(call_of(process, in_place=True), [buffer])
    assert array.tolist() == [0, 0, 0]


def test_a_call_that_was_not_made_has_no_failures():
    call = call_of(double_all)
    assert (call.failed, call.has_errors) == (0, False)


@pytest.mark.parametrize("make", [NormalCall, ExpandCall])
def test_the_rows_of_a_batch_that_fail_are_added_up(make):
    call = call_of(double_all, make=make)
    run(call, ["bad", 1, "bad"])
    assert (call.failed, call.has_errors) == (2, True)


@pytest.mark.parametrize("hands_over", [True, False])
@pytest.mark.parametrize("consumers", [(1,), (2,), (0,)])
def test_an_array_belongs_to_its_buffer_where_the_unit_hands_it_over_to_one_input(
    consumers, hands_over
):
    call = call_of(
        lambda ctx: ctx.emit([np.zeros(3)]), consumers=consumers, hands_over_arrays=hands_over
    )
    (column,) = run(call, [1])
    assert make_writable(column[0]) == (hands_over and consumers == (1,))


def test_a_unit_that_is_per_stream_has_its_session_and_what_belongs_to_its_stream():
    def process(ctx):
        ctx.session["count"] = ctx.stream_meta["rate"]
        ctx.stream_meta["width"] = 640
        ctx.emit(ctx.input())

    stream = Stream(FakeSession())
    stream.meta["rate"] = 25
    call_of(process, kind=Normal(is_per_stream=True)).process(
        [[Buffer(1)]], False, lambda row: stream
    )
    assert stream.session.context == {"count": 25}
    assert stream.meta == {"rate": 25, "width": 640}


def test_what_a_unit_of_another_kind_returns_is_named_in_its_error():
    (cells,) = run(call_of(lambda ctx: [1], make=ExpandCall), [0])
    assert "process() returned list; expected nothing" in str(cells[0][0].error)


def test_a_call_has_errors_where_the_unit_gives_a_buffer_in_error():
    call = call_of(lambda ctx: ctx.emit(ctx.input()), visible=True)
    run(call, [Buffer(1)])
    assert not call.has_errors
    run(call, [1, Buffer.from_error(FlowUnitError("earlier"))])
    assert (call.failed, call.has_errors) == (0, True)


def test_a_buffer_that_an_expand_keeps_and_gives_again_is_another_one_each_time():
    kept = Buffer(7)
    (cells,) = run(call_of(lambda ctx: ctx.emit([kept, kept]), make=ExpandCall), [0])
    assert [buffer.data for buffer in cells[0]] == [7, 7]
    assert len({id(buffer) for buffer in (kept, *cells[0])}) == 3


# -- errors that are kept ------------------------------------------------------------------------


class Local:
    """An object in a local variable."""


def raised(how, seen):
    """Returns an error that was raised because of another; ``seen`` gets the locals of both."""

    def fail(error, *, because=None):
        local = Local()
        seen.append(weakref.ref(local))
        raise error from because

    def fail_again():
        local = Local()
        seen.append(weakref.ref(local))
        try:
            fail(KeyError("first"))
        except KeyError as first:
            if how == "cause":
                raise ValueError("then") from first
            raise ValueError("then")  # noqa: B904 - the one has the other as its context

    try:
        fail_again()
    except ValueError as error:
        return error


@pytest.mark.parametrize("how", ["cause", "context"])
def test_an_error_that_is_claimed_lets_go_of_what_its_calls_and_those_of_its_cause_had(how):
    seen = []
    error = raised(how, seen)
    assert [ref() is None for ref in seen] == [False, False]
    claim(error)
    assert [ref() is None for ref in seen] == [True, True]


def test_errors_that_are_each_others_cause_are_claimed_once():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    claim(first)


# -- coroutines ----------------------------------------------------------------------------------


async def fetch(value):
    return value


def emit_one(ctx):
    ctx.emit([fetch(buffer.data) for buffer in ctx.input()])


def return_one(ctx):
    return fetch(ctx)


@pytest.mark.parametrize("process", [emit_one, return_one])
@pytest.mark.parametrize("kind", [Normal(), Expand(), kinds.Stream(), Collapse()])
def test_a_coroutine_that_a_unit_gives_is_an_error_with_its_line(process, kind, recwarn):
    found = run_unit(unit_of(process, kind=kind), {"in": [1]})["out"]
    (error,) = [buffer.error for buffer in found]
    line = fetch.__code__.co_firstlineno
    assert "TypeError: got a coroutine of 'async def fetch'" in str(error)
    assert f"test_call.py:{line}); expected a value" in str(error)
    gc.collect()  # an unclosed coroutine warns when it is freed
    assert not recwarn.list
