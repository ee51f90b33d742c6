"""Tests of calls per stream of a batch, and on a device."""

import dataclasses

import numpy as np
import pytest

import modelflow
from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.runtime.session.segment import Batch, Segment
from modelflow.unit.kind import Normal
from tests.device.conftest import plug_in, toy
from tests.device.toy import ADD_ONE, AddOne
from tests.runtime.graphs import Running, chain, unit_of
from tests.runtime.kinds.test_expand import collapse, expand
from tests.runtime.workers.test_worker import same

__all__ = ["plug_in", "toy"]


def by_stream(ctx):
    values = [buffer.data for buffer in ctx.input()]
    if "bad" in values:
        raise ValueError("is bad")
    ctx.emit([ctx.session["name"] + value for value in values])


@pytest.mark.parametrize("is_before", [False, True])
def test_of_two_streams_in_a_batch_each_is_called_apart_and_the_errors_of_both_are_counted(
    is_before,
):
    bad = Buffer.from_error(FlowUnitError("is bad", node="before")) if is_before else Buffer("bad")
    unit = (unit_of(by_stream, kind=Normal(is_per_stream=True)), {"batch_size": 8, "threads": 1})
    with Running(chain(unit), is_inline=True) as flow:
        sessions = [flow.scheduler.create_session() for _ in range(2)]
        segments = []
        for session, column in zip(sessions, ([Buffer("1"), bad], [bad, Buffer("2")]), strict=True):
            session.context["name"] = f"{session.name}: "
            segments.append(Segment(session.stream, range(2), [column], False, is_before))
        worker, *_ = flow.scheduler._workers
        worker.run(Batch.of(segments, 1))
        found = []
        for session in sessions:
            results = [session.results["output"].get_nowait() for _ in range(2)]
            found += [None if buffer.error else buffer.data for buffer in results]
        assert found == ["0: 1", None, None, "1: 2"]
        assert worker.call.has_errors
        assert worker._stats.errors == (0 if is_before else 2)
        good = Segment(sessions[0].stream, range(2, 3), [[Buffer("3")]], False, False)
        worker.run(Batch.of([good], 1))
        assert not worker.call.has_errors
        assert worker._stats.errors == (0 if is_before else 2)


def on_toy(spec, *, outputs="o", middle="", batch_size=2):
    nodes = f"n [flowunit={spec.name} device=toy threads=1 batch_size={batch_size}]"
    return modelflow.Flow(
        f"digraph {{ i [type=input] {outputs} [type=output] {nodes} {middle or 'i -> n -> o'} }}",
        units=[spec],
        threads=0,
    )


def exchanged(flow, items):
    with flow:
        stream = flow.create_stream_io()
        (results,) = stream.exchange({"i": items}).values()
        return results, flow.stats()["n"]


@pytest.mark.usefixtures("toy")
def test_a_batch_that_does_not_reach_its_device_fails_and_says_why():
    items = [np.zeros(size) for size in (13, 1, 1, 1)]
    found, _ = exchanged(on_toy(ADD_ONE), items)
    assert [buffer.error is not None for buffer in found] == [True, True, False, False]
    error = found[0].error
    assert (error.node, error.unit, error.phase) == ("n", "add_one", "transfer")
    assert isinstance(error.__cause__, MemoryError)


def test_results_that_do_not_reach_the_host_fail_and_are_counted(toy, monkeypatch):
    def fail(arrays):
        raise MemoryError("the host is full")

    monkeypatch.setattr(type(toy), "download", lambda self, arrays: fail(arrays))
    found, stats = exchanged(on_toy(ADD_ONE), [np.zeros(1) for _ in range(3)])
    assert [str(buffer.error.__cause__) for buffer in found] == ["the host is full"] * 3
    assert {buffer.error.phase for buffer in found} == {"transfer"}
    assert stats.errors == 3


@pytest.mark.usefixtures("toy")
def test_on_a_device_a_unit_is_called_for_one_stream_at_a_time_where_it_wants_that():
    spec = dataclasses.replace(ADD_ONE, kind=Normal(is_per_stream=True))
    found, stats = exchanged(on_toy(spec), [np.zeros(1), np.zeros(1), np.zeros(13)])
    assert [buffer.error is None and float(buffer.data[0]) for buffer in found] == [1, 1, False]
    assert (stats.buffers, stats.batch_sizes) == (2, {1: 1, 2: 1})  # no room for the third


class Guilty(AddOne):
    """Fails for the number 7."""

    def process(self, ctx):
        if any(buffer.data._values[0] == 7 for buffer in ctx.inputs["in"]):
            raise ValueError("is seven")
        super().process(ctx)


GUILTY = dataclasses.replace(ADD_ONE, devices={"toy": Guilty})


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("is_per_stream", [False, True])
def test_on_a_device_errors_pass_and_failing_rows_name_their_session(is_per_stream):
    spec = dataclasses.replace(GUILTY, kind=Normal(is_per_stream=is_per_stream))
    bad = Buffer.from_error(FlowUnitError("is bad", node="before"))
    with on_toy(spec) as flow:
        worker, *_ = flow.scheduler._workers
        session = flow.scheduler.create_session()
        rows = [Buffer(np.zeros(1)), bad, Buffer(np.full(1, 7.0))]
        worker.run(Batch.of([Segment(session.stream, range(3), [rows], False, True)], 1))
        found = [session.results["o"].get_nowait() for _ in rows]
    assert found[0].data.tolist() == [1]
    assert found[1].error is bad.error
    assert (found[2].error.session, str(found[2].error.__cause__)) == (session.name, "is seven")


def test_what_does_not_leave_its_device_is_an_error_for_whoever_follows(toy, monkeypatch):
    def fail(self, arrays):
        raise MemoryError("the host is full")

    monkeypatch.setattr(type(toy), "download", fail)
    text = (
        "digraph { i [type=input] o [type=output] p [type=output] "
        "n [flowunit=add_one device=toy] m [flowunit=forward] i -> n -> o n -> m -> p }"
    )
    with modelflow.Flow(text, units=[ADD_ONE, unit_of(same)], threads=0) as flow:
        stream = flow.create_stream_io()
        results = stream.exchange({"i": [np.zeros(1)]})
    assert [buffer.error.phase for (buffer,) in results.values()] == ["transfer"] * 2


def test_a_gathered_stream_that_does_not_reach_its_device_is_one_error(toy, monkeypatch):
    def fail(self, arrays):
        raise MemoryError("the host is full")

    def count(ctx):
        ctx.emit([len(ctx.input())])

    monkeypatch.setattr(type(toy), "download", fail)
    text = (
        "digraph { i [type=input] o [type=output] e [flowunit=expand] c [flowunit=collapse] "
        "n [flowunit=add_one device=toy] i -> e -> n -> c -> o }"
    )
    with modelflow.Flow(text, units=[expand(same), ADD_ONE, collapse(count)], threads=0) as flow:
        stream = flow.create_stream_io()
        (results,) = stream.exchange({"i": [np.zeros(1)]}).values()
    assert [(buffer.error.node, buffer.error.phase) for buffer in results] == [("c", "transfer")]
