"""Tests that the conformance check finds each way to break the contract."""

import threading
from typing import Any

import numpy as np
import pytest

from modelflow import Collapse, Context, Count, FlowUnit, FlowUnitSpec, Loop, Option, Port, Stream
from modelflow.testing import check_flow_unit, run_unit


class Double(FlowUnit):
    def process(self, ctx: Context) -> None:
        ctx.emit_each(lambda buffer: _number(buffer.data) * 2)


def _number(data: Any) -> int:
    if not isinstance(data, int):
        raise ValueError(f"got {type(data).__name__}; expected a number")
    return data


def spec_of(unit: type[FlowUnit], **changes: Any) -> FlowUnitSpec:
    given: dict[str, Any] = {
        "name": "under_test",
        "devices": {"cpu": unit},
        "inputs": (Port("in", "a number"),),
        "outputs": (Port("out", "a number"),),
        "description": "A unit.",
    }
    return FlowUnitSpec(**{**given, **changes})


def check(unit: type[FlowUnit], items: Any = (1, 2, 3), **changes: Any) -> None:
    check_flow_unit(spec_of(unit, **changes), {"in": list(items)})


def test_a_good_unit_passes():
    check(Double, options=(Option("factor", int, 2, "The factor."),))


def test_a_unit_may_keep_an_array_that_it_does_not_hand_over():
    check(KeepsTable)


class Sorts(FlowUnit):
    def process(self, ctx):
        ctx.emit(
            sorted((b.data for b in ctx.input()), key=lambda d: -d if isinstance(d, int) else 0)
        )


class Remembers(FlowUnit):
    def open(self, config):
        self.total = 0

    def process(self, ctx):
        for buffer in ctx.input():
            self.total += 1
            ctx.emit([_number(buffer.data) + self.total])


class LeavesThread(FlowUnit):
    def open(self, config):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.over.wait, daemon=True)
        self.thread.start()
        THREADS.append(self)

    def process(self, ctx):
        ctx.emit([b.data for b in ctx.input()])


class ChangesInput(FlowUnit):
    def process(self, ctx):
        for buffer in ctx.input():
            if isinstance(buffer.data, list):
                buffer.data.append(1)
            ctx.emit([1])


class BreaksAtError(FlowUnit):
    def open(self, config):
        self.is_broken = False

    def process(self, ctx):
        if self.is_broken or not isinstance(ctx.input()[0].data, int):
            self.is_broken = True
            raise ValueError("broken")
        ctx.emit([b.data for b in ctx.input()])


class KeepsTable(FlowUnit):
    def open(self, config):
        self.table = np.arange(12.0).reshape(4, 3)

    def process(self, ctx):
        ctx.emit_each(lambda buffer: self.table[_number(buffer.data)])


class ReusesArray(FlowUnit):
    def open(self, config):
        self.array = np.zeros(3)

    def process(self, ctx):
        for buffer in ctx.input():
            ctx.emit([self.array])
            _number(buffer.data)


THREADS: list[LeavesThread] = []


@pytest.mark.parametrize(
    ("unit", "changes", "items", "expected"),
    [
        (Double, {"description": ""}, (1, 2), "has no description"),
        (Double, {"inputs": (Port("in"),)}, (1, 2), "does not describe its port 'in'"),
        (Double, {"options": (Option("k", int, 1),)}, (1, 2), "does not document its option 'k'"),
        (Double, {"options": (Option("k", int, "1", "K."),)}, (1, 2), "default of another type"),
        (Double, {}, (1,), "needs two items"),
        (Double, {}, (1, "a"), "fails"),
        (Sorts, {}, (1, 2), "a batch and single buffers differ"),
        (Remembers, {}, (1, 2), "a batch and single buffers differ"),
        (ChangesInput, {}, ([1], [2]), "its input before and after"),
        (BreaksAtError, {}, (1, 2), "after an error and before differ"),
        (KeepsTable, {"hands_over_arrays": True}, (1, 2), "emits memory twice"),
        (ReusesArray, {"hands_over_arrays": True}, (1, 2), "emits memory twice"),
    ],
)
def test_a_unit_that_breaks_the_contract_is_found(unit, changes, items, expected):
    with pytest.raises(AssertionError, match=expected):
        check(unit, items, **changes)


def test_a_unit_that_leaves_a_thread_is_found():
    try:
        with pytest.raises(AssertionError, match="leaves threads"):
            check(LeavesThread)
    finally:
        for unit in THREADS:
            unit.over.set()
            unit.thread.join()


def test_emit_each_keeps_errors_apart():
    first, second, third = run_unit(spec_of(Double), {"in": [1, "x", 3]})["out"]
    assert (first.data, third.data) == (2, 6)
    assert "got str; expected a number" in second.get_error_msg()


def test_run_unit_obeys_the_largest_batch():
    sizes = []

    class Counts(FlowUnit):
        def process(self, ctx):
            sizes.append(len(ctx.input()))
            ctx.emit([np.float32(b.data) for b in ctx.input()])

    found = run_unit(spec_of(Counts, max_batch_size=2), {"in": [1, 2, 3, 4, 5]})["out"]
    assert sizes == [2, 2, 1]
    assert [b.data for b in found] == [1, 2, 3, 4, 5]


def stream_spec(unit, count=Count.ANY, **changes):
    return spec_of(unit, kind=Stream(count), **changes)


def test_run_unit_fails_what_a_graph_would_fail():
    class GivesTooMuch(FlowUnit):
        def process(self, ctx):
            ctx.emit([1, 2])

    (found,) = run_unit(stream_spec(GivesTooMuch, Count.SAME), {"in": [1]})["out"]
    assert "node 'under_test'" in found.get_error_msg()
    assert "gave 2 values" in found.get_error_msg()


def test_run_unit_gives_a_collapse_its_inputs_as_one_stream():
    class Sum(FlowUnit):
        def process(self, ctx):
            ctx.emit([sum(b.data for b in ctx.input())])

    spec = spec_of(Sum, kind=Collapse())
    assert [b.data for b in run_unit(spec, {"in": [1, 2, 3]})["out"]] == [6]
    assert [b.data for b in run_unit(spec, {"in": []})["out"]] == [0]


def test_run_unit_lets_a_loop_go_once():
    class Halve(FlowUnit):
        def process(self, ctx):
            (buffer,) = ctx.input()
            ctx.emit([buffer.data // 2], "back" if buffer.data > 2 else "out")

    ports = (Port("back", "again"), Port("out", "done"))
    found = run_unit(spec_of(Halve, kind=Loop(), outputs=ports), {"in": [8, 2]})
    assert {port: [b.data for b in buffers] for port, buffers in found.items()} == {
        "back": [4],
        "out": [1],
    }


def test_run_unit_bounds_what_goes_on_by_itself():
    class Numbers(FlowUnit):
        def process(self, ctx):
            ctx.emit([0])
            ctx.hold()

    class Endless(FlowUnit):
        def process(self, ctx):
            ctx.emit([len(ctx.input())])
            ctx.send_event(delay=3600)

    found = run_unit(spec_of(Numbers, inputs=()), max_calls=5)["out"]
    assert [b.data for b in found] == [0] * 5
    found = run_unit(stream_spec(Endless), {"in": [1, 2]}, max_calls=3)["out"]
    assert sorted(b.data for b in found) == [0, 0, 0, 1, 1]


def test_run_unit_raises_what_open_and_close_raise():
    class Broken(FlowUnit):
        def open(self, config):
            raise OSError("no such model")

    class BrokenAtEnd(Double):
        def close(self):
            raise OSError("cannot close")

    with pytest.raises(OSError, match="no such model"):
        run_unit(spec_of(Broken), {"in": [1]})
    with pytest.raises(OSError, match="cannot close"):
        run_unit(spec_of(BrokenAtEnd), {"in": [1]})


def test_run_unit_names_the_inputs_there_are():
    with pytest.raises(KeyError, match="no input 'inn'; did you mean 'in'"):
        run_unit(spec_of(Double), {"inn": [1]})
