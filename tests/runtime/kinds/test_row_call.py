"""Tests of row calls: the other rows of a batch go on."""

import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.kinds.condition import ConditionCall
from modelflow.runtime.kinds.expand import ExpandCall
from modelflow.unit.kind import Condition, Expand
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit


def call_of(process, *, is_in_place=False, kind=Expand(), make=ExpandCall):
    unit = type("Unit", (FlowUnit,), {"process": lambda self, ctx: process(ctx)})
    spec = FlowUnitSpec(
        "unit",
        {"cpu": unit},
        inputs=(Port("in", is_in_place=is_in_place),),
        outputs=(Port("out"),),
        kind=kind,
    )
    return make(unit(), UnitPlan("node", spec, inputs=("in",), consumers=(1,)))


def test_a_row_that_fails_is_counted_and_the_others_are_called():
    def process(ctx):
        (row,) = ctx.input()
        ctx.emit([1 // row.data])

    call = call_of(process)
    (cells,) = call.process([[Buffer(1), Buffer(0), Buffer(1)]], False, lambda row: None)
    assert [cell[0].data for cell in cells] == [1, None, 1]
    assert (call.failed, call.has_errors) == (1, True)


def test_a_row_that_is_in_error_passes_without_a_call():
    calls = []
    call = call_of(lambda ctx: calls.append(1))
    bad = Buffer.from_error(FlowUnitError("before", node="n"))
    (cells,) = call.process([[bad]], True, lambda row: None)
    assert cells == [[bad]]
    assert calls == []
    assert (call.failed, call.has_errors) == (0, True)


def test_a_unit_that_writes_to_its_input_gets_a_copy_where_another_sees_it():
    def process(ctx):
        (row,) = ctx.input()
        row.data[:] = 7
        ctx.emit([row])

    array = np.zeros(2)
    array.flags.writeable = False
    (cells,) = call_of(process, is_in_place=True).process(
        [[Buffer(array)]], False, lambda row: None
    )
    assert array.tolist() == [0, 0]
    assert cells[0][0].data.tolist() == [7, 7]


KEPT = Buffer(7)


@pytest.mark.parametrize(
    ("given", "is_same"),
    [(lambda row: row, True), (lambda row: KEPT, False), (lambda row: 7, False)],
    ids=["its input", "a buffer that it keeps", "a value"],
)
def test_what_a_condition_gives_is_its_input_or_a_new_buffer_with_the_meta_of_that(given, is_same):
    source = Buffer(7, {"a": 1})
    call = call_of(
        lambda ctx: ctx.emit(map(given, ctx.input())), kind=Condition(), make=ConditionCall
    )
    ((found,),) = call.process([[source]], False, lambda row: None)
    assert (found.data, found.meta) == (7, {"a": 1})
    assert (found is source) == is_same
    assert found is not KEPT
    assert KEPT.meta == {}
