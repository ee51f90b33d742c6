"""Tests of `ModelBoxEngine` and `DataHandler`, with a graph that the running program describes."""

import gc
import threading

import numpy as np
import pytest

import modelflow.compat.modelbox as modelbox
from modelflow.errors import (
    FlowFailed,
    GraphError,
    ModelflowError,
    PortError,
    StreamClosed,
    UnknownFlowUnitError,
)
from tests.compat.modelbox.folders import graph, unit
from tests.flowunits.videos import write_video

STOP = modelbox.Status.StatusCode.STATUS_STOP
INVALID = modelbox.Status.StatusCode.STATUS_INVALID
BADCONF = modelbox.Status.StatusCode.STATUS_BADCONF

CODE = """
import numpy as np
import _flowunit as modelbox

OK = modelbox.Status.StatusCode.STATUS_SUCCESS


class Scale(modelbox.FlowUnit):
    def open(self, config):
        self.factor = config.get_int("factor", 2)
        with open({opened!r}, "a") as file:
            file.write("opened ")
        return OK if self.factor else modelbox.Status(modelbox.Status.StatusCode.STATUS_FAULT, "no factor")

    def process(self, data_context):
        for buffer in data_context.input("in"):
            value = int(np.array(buffer)[0])
            if value == 999:
                return modelbox.Status(modelbox.Status.StatusCode.STATUS_INVALID, "thirteen")
            out = self.create_buffer(np.array([value * self.factor]))
            out.copy_meta(buffer)
            data_context.output("out").push_back(out)
        return OK


class Both(modelbox.FlowUnit):
    def process(self, data_context):
        for one, other in zip(data_context.input("a"), data_context.input("b")):
            data_context.output("sum").push_back(np.array(one) + np.array(other))
            data_context.output("difference").push_back(np.array(one) - np.array(other))
        return OK


class Write(modelbox.FlowUnit):
    def process(self, data_context):
        for buffer in data_context.input("in"):
            if int(np.array(buffer)[0]) == 7:
                return modelbox.Status(modelbox.Status.StatusCode.STATUS_INVALID, "seven")
            with open({written!r}, "a") as file:
                file.write(f"{{int(np.array(buffer)[0])}} ")
        return OK


class Note(modelbox.FlowUnit):
    def process(self, data_context):
        for buffer in data_context.input("in"):
            with open({noted!r}, "a") as file:
                file.write(str(buffer.get("index")) + " ")
            data_context.output("out").push_back(buffer)
        return OK


class Count(modelbox.FlowUnit):
    def open(self, config):
        data = self.create_external_data()
        buffers = data.create_buffer_list()
        buffers.push_back(np.array([config.get_int("most", 3)]))
        data.send(buffers)
        data.close()
        return OK

    def process(self, data_context):
        for number in range(int(np.array(data_context.external()[0])[0])):
            data_context.output("out").push_back(np.array([number]))
        return OK
"""  # noqa: E501


@pytest.fixture
def folder(tmp_path):
    files = {name: str(tmp_path / name) for name in ("opened", "written", "noted")}
    code = CODE.format(**files)
    unit(tmp_path, "scale", "Scale", code, ["in"], ["out"], stream=False)
    unit(tmp_path, "both", "Both", code, ["a", "b"], ["sum", "difference"], stream=False)
    unit(tmp_path, "write", "Write", code, ["in"], [], stream=True)
    unit(tmp_path, "note", "Note", code, ["in"], ["out"], stream=False)
    unit(tmp_path, "count", "Count", code, [], ["out"], stream=True)
    return tmp_path


@pytest.fixture
def engine(folder):
    engine = modelbox.ModelBoxEngine()
    status = engine.init({"dir": [str(folder)], "queue_size": "8"})
    assert status, str(status)
    yield engine
    engine.shutdown()


def numbers(handler):
    return [int(np.array(buffer)[0]) for buffer in handler]


def item(value):
    return modelbox.Buffer(None, np.array([value]))


def pushed(engine, *values):
    stream = engine.create_input({"in"})
    for value in values:
        assert stream.pushdata(item(value))
    return stream


def written(folder):
    file = folder / "written"
    return [int(word) for word in file.read_text().split()] if file.exists() else []


# -- which nodes run, and when ------------------------------------------------------------------


def test_a_graph_runs_when_its_first_result_is_asked_for(engine, folder):
    stream = pushed(engine, 1, 2, 3)
    twice = engine.execute("scale", {}, stream)
    six = engine.execute("scale", {"factor": "3"}, twice)
    stream.close()
    results = iter(six)
    assert not (folder / "opened").exists()
    assert numbers(results) == [6, 12, 18]
    assert numbers(six) == []  # each result is given once


def test_what_is_pushed_while_it_runs_comes_out_as_well(engine):
    stream = pushed(engine, 1)
    results = iter(engine.execute("scale", {}, stream))
    assert int(np.array(next(results))[0]) == 2
    assert stream.pushdata(np.array([5]))
    assert int(np.array(next(results))[0]) == 10
    stream.close()
    assert numbers(results) == []
    assert stream.pushdata(np.array([5])) == STOP


def test_results_are_read_one_behind_the_other(engine):
    stream = engine.create_input({"a", "b"})
    for number in range(200):
        assert stream.pushdata(item(number), "a")
        assert stream.pushdata(item(1), "b")
    both = engine.execute("both", {}, stream)
    tripled = engine.execute("scale", {"factor": 3}, both["sum"])
    stream.close()
    assert numbers(both["difference"]) == list(range(-1, 199))
    assert numbers(tripled) == [3 * number for number in range(1, 201)]


def test_a_result_that_a_unit_reads_can_be_iterated_over_as_well(engine):
    stream = pushed(engine, 1, 2)
    twice = engine.execute("scale", {}, stream)
    four = engine.execute("scale", {}, twice)
    stream.close()
    assert list(zip(map(str, numbers(twice)), numbers(four), strict=True)) == [("2", 4), ("4", 8)]


def test_inputs_are_given_by_name(engine):
    one, other = pushed(engine, 5, 6), pushed(engine, 1, 2)
    both = engine.execute("both", {}, {"a": one, "b": other})
    one.close()
    other.close()
    assert numbers(both.get_datahandler("sum")) == [6, 8]


def test_several_handlers_are_one(engine):
    one, other = pushed(engine, 5), pushed(engine, 1)
    together = modelbox.DataHandler()
    assert together.set_datahandler({"a": one})
    assert together.pushdata(other, "b")
    both = engine.execute("both", {}, together)
    one.close()
    other.close()
    assert numbers(both["difference"]) == [4]
    assert one.set_datahandler({"a": other}) == INVALID


def test_a_buffer_is_a_graph_of_its_own(engine, folder):
    found = [
        int(np.array(buffer)[0])
        for number in range(20)
        for buffer in engine.execute("scale", {}, engine.execute("scale", {}, item(number)))
    ]
    assert found == [4 * number for number in range(20)]
    # Both nodes run in as many threads as before, because the graph is kept for the next buffer.
    assert len((folder / "opened").read_text().split()) == 2


def test_a_unit_without_outputs_writes_a_buffer_at_once(engine, folder):
    for number in range(3):
        engine.execute("write", {}, item(number))
        assert written(folder) == list(range(number + 1))
    with pytest.raises(ModelflowError, match="seven"):
        engine.execute("write", {}, item(7))


def test_a_graph_without_results_runs_when_its_input_is_closed(engine, folder):
    stream = pushed(engine, 1, 2)
    engine.execute("write", {}, engine.execute("scale", {}, stream))
    stream.close()
    assert engine.close()
    assert written(folder) == [2, 4]


def test_what_is_pushed_does_not_wait_for_ever_in_memory(engine, folder):
    stream = engine.create_input()
    engine.execute("write", {}, stream)
    for number in range(500):
        if number != 7:
            assert stream.pushdata(item(number))
    assert "runs already" in stream.setmeta("key", 1).errormsg()
    assert engine.close()
    assert written(folder) == [number for number in range(500) if number != 7]


def test_an_engine_that_is_closed_runs_what_writes_and_leaves_out_what_nobody_sees(engine, folder):
    engine.execute("scale", {}, pushed(engine, 1))
    twice = engine.execute("scale", {}, pushed(engine, 2, 3))
    engine.execute("write", {}, twice)
    assert engine.close()
    assert written(folder) == [4, 6]
    assert engine.close()


def test_shutdown_ends_what_runs_and_runs_nothing(engine, folder):
    running = pushed(engine, *range(10))
    next(iter(engine.execute("scale", {}, running)))
    engine.execute("write", {}, pushed(engine, 1))
    assert engine.shutdown()
    assert written(folder) == []


def test_a_unit_without_inputs_begins_a_graph(engine):
    counted = engine.execute("count", {"most": "5"})
    assert numbers(engine.execute("scale", {}, counted)) == [0, 2, 4, 6, 8]


def test_values_of_an_input_reach_its_buffers(engine):
    stream = pushed(engine, 1)
    assert stream.setmeta("camera", "north")
    stream.close()
    (found,) = engine.execute("scale", {}, stream)
    assert found.get("camera") == "north"


def test_a_video_is_read_no_further_than_its_reader_is(engine, tmp_path):
    stream = engine.create_input()
    stream.setmeta("source_url", str(write_video(tmp_path / "in.mp4", 1000)))
    stream.close()
    packets = engine.execute("video_demuxer", {}, stream)
    results = iter(engine.execute("note", {}, packets))
    for _ in range(50):
        next(results)
    noted = (tmp_path / "noted").read_text().split()
    assert 50 <= len(noted) < 300  # the rows in the results, in the queues, and in calls
    assert len(list(results)) == 950


def test_a_result_that_is_closed_is_not_kept(engine):
    stream = engine.create_input({"a", "b"})
    both = engine.execute("both", {}, stream)
    for number in range(3):
        stream.pushdata(item(number), "a")
        stream.pushdata(item(number), "b")
    both["difference"].close()
    stream.close()
    assert numbers(both["sum"]) == [0, 2, 4]
    with pytest.raises(ModelflowError, match="'difference' is no result"):
        numbers(both["difference"])


# -- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda e, s: e.execute("scail", {}, s), UnknownFlowUnitError, "did you mean 'scale'"),
        (lambda e, s: e.execute("scale", {}, {"inn": s}), GraphError, "inn.*did you mean 'in'"),
        (lambda e, s: e.execute("both", {}, {"a": s}), GraphError, "'b' is not connected"),
        (lambda e, s: e.execute("resize", {"image_with": 3}, s), GraphError, "image_width"),
        (lambda e, s: e.execute("scale", {}, s)["outt"], PortError, "did you mean 'out'"),
        (lambda e, s: e.execute("scale", {}, modelbox.DataHandler()), ModelflowError, "empty"),
        (lambda e, s: e.execute("scale", {}, 5), ModelflowError, "got 5; expected a DataHandler"),
        (lambda e, s: e.execute("scale", {}), GraphError, "'in' is not connected"),
        (lambda e, s: e.create_input(set()), ModelflowError, "got no port"),
        (lambda e, s: iter(s), PortError, "execute a unit on it"),
        (
            lambda e, s: e.execute("scale", {}, e.execute("both", {}, {"a": s, "b": s})),
            PortError,
            "ports sum, difference; name one",
        ),
    ],
)
def test_a_mistake_is_told_where_it_is_made(engine, call, kind, message):
    stream = pushed(engine, 1)
    with pytest.raises(kind, match=message):
        call(engine, stream)
    # and the graph stays unchanged
    scaled = engine.execute("scale", {}, stream)
    stream.close()
    assert numbers(scaled) == [2]


def test_a_handler_of_another_engine_is_refused(engine, folder):
    other = modelbox.ModelBoxEngine()
    assert other.init({"dir": str(folder)})
    with pytest.raises(ModelflowError, match="another engine"):
        engine.execute("scale", {}, other.create_input())
    assert other.close()


def test_nothing_is_added_to_what_runs(engine):
    stream = pushed(engine, 1, 2)
    twice = engine.execute("scale", {}, stream)
    four = engine.execute("scale", {}, twice)
    next(iter(four))
    with pytest.raises(ModelflowError, match="'scale' runs already; execute all"):
        engine.execute("write", {}, twice)
    with pytest.raises(ModelflowError, match="'out' is no result of it"):
        next(iter(twice))
    assert stream.setmeta("key", 1) == INVALID


def test_a_closed_engine_refuses_to_work(engine):
    stream = pushed(engine, 1)
    results = iter(engine.execute("scale", {}, stream))
    engine.close()
    for call in (engine.create_input, lambda: engine.execute("scale", {}, stream)):
        with pytest.raises(StreamClosed, match="is closed; make another"):
            call()
    with pytest.raises(StreamClosed, match="next: this ModelBoxEngine is closed"):
        next(results)
    assert "is closed" in stream.pushdata(item(1)).errormsg()


def test_an_engine_without_init_says_what_is_missing():
    with pytest.raises(ModelflowError, match="call init"):
        modelbox.ModelBoxEngine().create_input()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"queue_sise": "3"}, "did you mean 'queue_size'"),
        ({"queue_size": "many"}, "expected a number from 1"),
        ({"skip-default": "perhaps"}, "expected true or false"),
        ({"dir": {}}, "expected a text"),
    ],
)
def test_a_wrong_configuration_is_told_by_the_status(config, message):
    status = modelbox.ModelBoxEngine().init(config)
    assert status == BADCONF
    assert message in status.errormsg()


def test_what_is_no_input_takes_no_data(engine):
    stream = pushed(engine, 1)
    scaled = engine.execute("scale", {}, stream)
    assert scaled.pushdata(item(1)) == INVALID
    assert scaled.setmeta("key", 1) == INVALID
    assert "'inn'" in stream.pushdata(item(1), "inn").errormsg()


def test_a_buffer_that_fails_says_so_and_the_next_one_comes(engine):
    stream = pushed(engine, 1)
    results = iter(engine.execute("scale", {}, stream))
    assert not next(results).has_error()
    stream.pushdata(item(999))
    assert next(results).get_error_msg() == "thirteen"
    stream.pushdata(item(2))
    assert not next(results).has_error()


def test_a_unit_that_does_not_open_is_an_error_of_the_iteration(engine):
    stream = pushed(engine, 1)
    scaled = engine.execute("scale", {"factor": "0"}, stream)
    with pytest.raises(FlowFailed, match="failed"):
        next(iter(scaled))


def test_close_tells_what_units_without_outputs_failed_of(engine, folder):
    stream = pushed(engine, 1, 7, 2)
    engine.execute("write", {"batch_size": 1}, stream)
    stream.close()
    status = engine.close()
    assert not status
    assert "seven" in status.errormsg()


def test_waiting_for_one_output_again_and_again_keeps_nothing_of_the_others(folder):
    split = """
    import _flowunit as modelbox

    class Split(modelbox.FlowUnit):
        def process(self, data_context):
            for buffer in data_context.input("in"):
                data_context.output("often").push_back(buffer)
            return modelbox.Status.StatusCode.STATUS_SUCCESS
    """
    unit(folder, "split", "Split", split, ["in"], ["often", "never"], condition=True)
    path = graph(
        folder,
        """
        input1[type=input]
        split[type=flowunit, flowunit=split, device=cpu]
        output1[type=output]
        output2[type=output]
        input1:input1 -> split:in
        split:often -> output1:output1
        split:never -> output2:output2
        """,
    )
    flow = modelbox.Flow()
    assert flow.init(str(path))
    assert flow.start_run()
    external = flow.create_external_data_map()

    def once():
        buffers = external.create_buffer_list()
        buffers.push_back(np.array([1]))
        assert external.send("input1", buffers)
        assert external.recv(modelbox.ExtOutputBufferList())

    def waiting():
        gc.collect()
        return sum(type(found) is threading.Event for found in gc.get_objects())

    once()
    before = waiting()
    for _ in range(50):
        once()
    assert waiting() - before < 10
    external.close()
    flow.stop()
