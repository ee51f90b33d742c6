"""Tests of a plug-in's device in graphs: data moves once, in time, and the moves are counted."""

import threading

import numpy as np
import pytest

import modelflow
from modelflow.device import Device, available_devices, memory_of, parse_devices, require_devices
from modelflow.errors import (
    ConfigError,
    DeviceUnavailableError,
    FlowUnitError,
    GraphError,
    PlanError,
)
from tests.device.toy import ADD_ONE, AddOne


def chain(*devices, **attributes):
    more = " ".join(f"{name}={value}" for name, value in attributes.items())
    nodes = "".join(
        f'n{i} [flowunit=add_one device="{device}" {more}] ' for i, device in enumerate(devices)
    )
    edges = " -> ".join(["i", *(f"n{i}" for i in range(len(devices))), "o"])
    return modelflow.Flow(
        f"digraph {{ i [type=input] o [type=output] {nodes} {edges} }}", units=[ADD_ONE]
    )


def ask(flow, items):
    with flow:
        stream = flow.create_stream_io()
        (results,) = stream.exchange({"i": items}).values()
        return [buffer.data for buffer in results], flow.stats()


def test_devices_of_a_plug_in_are_known(toy):
    assert available_devices()[-2:] == (Device("toy", 0), Device("toy", 1))
    assert parse_devices("toy:0,1") == (Device("toy", 0), Device("toy", 1))
    with pytest.raises(ConfigError, match=r"expected 'cpu', 'cuda', 'toy' or 'auto'"):
        parse_devices("tpu")


def test_device_that_is_not_there_says_what_was_found(toy):
    with pytest.raises(
        DeviceUnavailableError,
        match=r"toy:7 is not on this machine; available: .*toy:1; there are two toys in the box",
    ):
        require_devices([Device("toy", 7)])


def test_plug_in_that_does_not_import_is_named(plug_in):
    plug_in(broken="tests.device.no_such:Memory", odd="pathlib:Path")
    with pytest.raises(PlanError, match=r"'broken'.*no_such.*cannot be imported"):
        memory_of("broken")
    with pytest.raises(PlanError, match=r"'odd'.*expected a subclass"):
        memory_of("odd")
    with pytest.raises(PlanError, match=r"unknown device 'od'; did you mean 'odd'"):
        memory_of("od")


@pytest.mark.parametrize("devices", [["toy"], ["cpu", "toy", "toy", "cpu"], ["toy", "cpu", "toy"]])
def test_results_are_the_same_on_every_device_and_lie_on_the_host(toy, devices):
    items = [np.full(3, i, np.float32) for i in range(20)]
    found, _ = ask(chain(*devices, batch_size=4), items)
    for item, result in zip(items, found, strict=True):
        assert isinstance(result, np.ndarray)
        np.testing.assert_array_equal(result, item + len(devices))


def test_a_buffer_is_moved_once_where_devices_differ_and_counted(toy):
    items = [np.zeros(4, np.float32) for _ in range(10)]
    _, stats = ask(chain("cpu", "toy", "toy", "cpu", "cpu"), items)
    assert [stats[f"n{i}"].moved for i in range(5)] == [0, 10, 0, 10, 0]
    assert stats["n1"].moved_bytes == 10 * 16


def test_results_that_leave_the_graph_are_moved_a_batch_at_a_time(toy):
    _, stats = ask(chain("toy", threads=1, batch_size=10), [np.zeros(2)] * 10)
    assert toy.downloads == stats["n0"].batches
    assert stats["n0"].moved == 20


def test_batches_go_to_every_device_of_a_list(toy, monkeypatch):
    monkeypatch.setattr(AddOne, "batches", [])
    monkeypatch.setattr(AddOne, "barrier", threading.Barrier(3))
    found, _ = ask(chain("toy:0,1;cpu:0", batch_size=1, threads=3), [np.zeros(1)] * 9)
    assert set(AddOne.batches) == {Device("toy", 0), Device("toy", 1), Device("cpu")}
    assert [float(result[0]) for result in found] == [1] * 9


def test_between_two_devices_of_one_kind_the_data_is_moved(toy):
    found, stats = ask(chain("toy:0", "toy:1"), [np.zeros(1)] * 5)
    assert [float(result[0]) for result in found] == [2] * 5
    assert stats["n1"].moved == 10  # from toy:0, and to the host


def test_data_that_a_device_does_not_know_stays_as_it_is(toy):
    class Words(modelflow.FlowUnit):
        def process(self, ctx):
            ctx.emit([buffer.data.upper() for buffer in ctx.inputs["in"]])

    spec = modelflow.FlowUnitSpec(
        "words",
        {"toy": Words},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
    )
    graph = "digraph { i [type=input] w [flowunit=words device=toy] o [type=output] i -> w -> o }"
    with modelflow.Flow(graph, units=[spec]) as flow:
        assert flow.infer("abc").data == "ABC"


def test_failed_transfer_is_the_error_of_its_buffers_alone(toy):
    flow = chain("toy", batch_size=1)
    with flow:
        with pytest.raises(FlowUnitError, match="no room for 13 numbers") as caught:
            flow.infer(np.zeros(13))
        assert caught.value.phase == "transfer"
        assert flow.infer(np.zeros(2)).data[0] == 1


def test_without_threads_everything_is_the_same(toy):
    text = (
        "digraph { i [type=input] o [type=output] a [flowunit=add_one device=toy] "
        "b [flowunit=add_one] i -> a -> b -> o }"
    )
    with modelflow.Flow(text, units=[ADD_ONE], threads=0) as flow:
        assert flow.infer(np.zeros(1)).data[0] == 2


def test_the_plan_calls_a_device_of_a_plug_in_no_gpu(toy):
    assert "2 (2 a device)" in str(chain("toy").scheduler.plan)


def test_buffers_can_be_moved_by_hand(toy):
    buffer = modelflow.Buffer(np.arange(3), {"k": 1})
    moved = buffer.to("toy:1")
    assert moved.device == Device("toy", 1)
    assert moved.get("k") == 1
    np.testing.assert_array_equal(moved.to("cpu").data, np.arange(3))


def test_stream_units_on_a_device_are_refused(toy):
    class Stream(modelflow.FlowUnit):
        pass

    spec = modelflow.FlowUnitSpec(
        "s",
        {"toy": Stream},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        kind=modelflow.Stream(),
    )
    graph = "digraph { i [type=input] s [device=toy] o [type=output] i -> s -> o }"
    with pytest.raises((PlanError, GraphError), match="a stream unit on toy:0"):
        modelflow.Flow(graph, units=[spec]).start()
