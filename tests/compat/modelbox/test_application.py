"""Tests of applications and unit folders written for ModelBox, with only the import changed."""

import threading

import cv2
import numpy as np
import pytest

import modelflow.compat.modelbox as modelbox
from tests.compat.modelbox.folders import graph, unit

STOP = modelbox.Status.StatusCode.STATUS_STOP
EOF = modelbox.Status.StatusCode.STATUS_EOF
INVALID = modelbox.Status.StatusCode.STATUS_INVALID

BRIGHTNESS = """
import numpy as np
import _flowunit as modelbox

class Brightness(modelbox.FlowUnit):
    def __init__(self):
        super().__init__()

    def open(self, config):
        self.brightness = config.get_float("brightness", 0.5)
        self.batch_size = config.get_int("batch_size", 0)
        self.mean = config.get_float_list("mean")
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def process(self, data_context):
        in_data = data_context.input("in")
        out_data = data_context.output("out")
        for buffer in in_data:
            image = np.array(buffer.as_object(), copy=False).reshape(buffer.get("shape"))
            result = np.clip(image * self.brightness, 0, 255).astype(np.uint8)
            made = self.create_buffer(result)
            made.copy_meta(buffer)
            made.set("brightness", self.brightness)
            made.set("batch_size", self.batch_size)
            made.set("mean", self.mean)
            out_data.push_back(made)
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def close(self):
        return modelbox.Status()
"""


def started(path):
    flow = modelbox.Flow()
    status = flow.init(str(path))
    assert status, str(status)
    status = flow.start_run()
    assert status, str(status)
    return flow


def test_a_unit_folder_in_a_graph_with_built_in_units(tmp_path):
    unit(tmp_path, "brightness", "Brightness", BRIGHTNESS, ["in"], ["out"], stream=False)
    path = graph(
        tmp_path,
        """
        input1[type=input]
        decode[type=flowunit, flowunit=image_decoder, device=cpu, deviceid=0]
        bright[type=flowunit, flowunit=brightness, device=cpu, brightness=0.1, batch_size=3,
               mean="1.5, 2, 3"]
        output1[type=output]
        input1:input1 -> decode:in_encoded_image
        decode:out_image -> bright:in
        bright:out -> output1:output1
        """,
    )
    image = np.random.default_rng(0).integers(0, 255, (20, 30, 3), np.uint8)
    encoded = cv2.imencode(".png", image)[1].tobytes()
    flow = started(path)
    stream = flow.create_stream_io()
    for _ in range(3):
        assert stream.send("input1", encoded)
    stream.close_input()
    for _ in range(3):
        buffer = stream.recv("output1")
        assert np.array_equal(np.array(buffer), np.clip(image * 0.1, 0, 255).astype(np.uint8))
        assert (buffer.get("brightness"), buffer.get("batch_size")) == (0.1, 3)
        assert buffer.get("mean") == [1.5, 2.0, 3.0]
        assert buffer.get("width") == 30  # copied by copy_meta
    assert stream.recv("output1") is None
    assert flow.stop()


def test_external_data_goes_in_and_out_in_lists(tmp_path):
    code = """
        import modelbox

        class Echo(modelbox.FlowUnit):
            def process(self, data_context):
                for buffer in data_context.input("in"):
                    data_context.output("out").push_back(str(buffer) + "!")
                return modelbox.Status()
    """
    unit(tmp_path, "echo", "Echo", code, ["in"], ["out"], stream=False)
    flow = started(
        graph(tmp_path, "i[type=input] e[flowunit=echo] o[type=output] i -> e:in e:out -> o")
    )
    external = flow.create_external_data_map()
    buffers = external.create_buffer_list()
    for text in ("a", "b", "c"):
        buffers.push_back(text)
    assert external.send("i", buffers)
    assert external.send("nowhere", buffers) == INVALID
    external.close()
    assert not external.send("i", buffers)
    found, outputs = [], modelbox.ExtOutputBufferList()
    while external.recv(outputs):
        found += [str(buffer) for buffer in outputs.get_buffer_list("o")]
    assert found == ["a!", "b!", "c!"]
    assert external.recv(outputs) == EOF

    shut = flow.create_external_data_map()
    shut.send("i", buffers)
    shut.shutdown()
    assert shut.recv(outputs)  # sent data is still delivered
    while shut.recv(outputs):
        pass
    assert shut.recv(outputs) == INVALID
    assert shut.get_last_error().get_description() == "EOF"
    flow.stop()


def test_a_graph_of_functions_in_code():
    def add(data_context):
        one, two = data_context.input("in_1"), data_context.input("in_2")
        out_1, out_2 = data_context.output("out_1"), data_context.output("out_2")
        for a, b in zip(one, two, strict=True):
            total = np.array(a) + np.array(b)
            out_1.push_back(modelbox.Buffer(data_context.input("in_1").get_device(), total))
            out_2.push_back(modelbox.Buffer(data_context.input("in_1").get_device(), "sum"))
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def double(data_context):
        for buffer in data_context.input("in"):
            data_context.output("out").push_back(np.array(buffer) * 2)
        return modelbox.Status()

    desc = modelbox.FlowGraphDesc()
    desc.set_batch_size(2)
    desc.set_queue_size(32)
    first, second = desc.add_input("input1"), desc.add_input("input2")
    total = desc.add_function(
        add, ["in_1", "in_2"], ["out_1", "out_2"], {"in_1": first[0], "in_2": second[0]}
    )
    twice = desc.add_function(double, ["in"], ["out"], total["out_1"])
    desc.add_output("output1", twice)
    desc.add_output("output2", total[1])
    flow = modelbox.Flow()
    assert flow.init(desc)
    assert flow.start_run()
    stream = flow.create_stream_io()
    for i in range(3):
        stream.send("input1", np.array([i], np.int32))
        stream.send("input2", stream.create_buffer(np.array([10], np.int32)))
    stream.close_input()
    for i in range(3):
        assert np.array(stream.recv("output1")).tolist() == [(i + 10) * 2]
        assert str(stream.recv("output2")) == "sum"
    assert stream.recv("output1") is None
    flow.stop()


def test_a_node_of_a_built_in_unit_in_code():
    desc = modelbox.FlowGraphDesc()
    source = desc.add_input("input")
    decoded = desc.add_node("image_decoder", "cpu", source)
    resized = desc.add_node(
        "resize", "cpu", ["image_width=8", "image_height=4"], {"in_image": decoded["out_image"]}
    )
    resized.set_node_name("small")
    assert resized.get_node_name() == "small"
    desc.add_output("output", resized)
    flow = modelbox.Flow()
    assert flow.init(desc)
    assert flow.start_run()
    stream = flow.create_stream_io()
    image = np.zeros((20, 30, 3), np.uint8)
    stream.send("input", cv2.imencode(".png", image)[1].tobytes())
    stream.close_input()
    assert np.array(stream.recv("output")).shape == (4, 8, 3)
    flow.stop()


def test_the_model_of_a_python_unit(tmp_path):
    unit(tmp_path, "brightness", "Brightness", BRIGHTNESS, ["in"], ["out"], stream=False)
    model = modelbox.Model(str(tmp_path / "nothing"), "brightness", 4, "cpu", "0")
    model.add_path(str(tmp_path / "brightness"))
    status = model.start()
    assert status, str(status)
    image = np.full((2, 2, 3), 100, np.uint8)
    (found,) = model.infer([image])
    assert np.array(found).tolist() == (image // 2).tolist()
    ((one, two),) = model.infer_batch([[image, image // 2]])
    assert (np.array(one)[0, 0, 0], np.array(two)[0, 0, 0]) == (50, 25)
    model.stop()


@pytest.mark.parametrize("place", ["brightness", "brightness/brightness.toml"])
@pytest.mark.parametrize("device", ["cpu:0", "cuda:97,98,99;cpu:0"])
def test_a_model_in_the_form_of_the_manual_with_devices_that_name_numbers(tmp_path, place, device):
    unit(tmp_path, "brightness", "Brightness", BRIGHTNESS, ["in"], ["out"], stream=False)
    path = str(tmp_path / place)
    model = modelbox.Model(path, "brightness", ["in"], ["out"], 8, device, "0")
    status = model.start()
    assert status, str(status)
    (found,) = model.infer([np.full((2, 2, 3), 100, np.uint8)])
    assert np.array(found)[0, 0, 0] == 50
    model.stop()


def test_a_unit_without_inputs_feeds_itself_and_ends_the_flow(tmp_path):
    source = """
        import _flowunit as modelbox

        class Source(modelbox.FlowUnit):
            def open(self, config):
                external = self.create_external_data()
                for text in config.get_string_list("texts"):
                    buffers = external.create_buffer_list()
                    buffers.push_back(modelbox.Buffer(self.get_bind_device(), text))
                    external.send(buffers)
                external.get_session_context().set_private_string("who", "source")
                external.close()
                return modelbox.Status()

            def process(self, data_context):
                for buffer in data_context.external():
                    data_context.output("out").push_back(buffer)
                return modelbox.Status.StatusCode.STATUS_SUCCESS
    """
    sink = """
        import modelbox

        SEEN = []

        class Show(modelbox.FlowUnit):
            def process(self, data_context):
                who = data_context.get_session_context().get_private_string("who")
                for buffer in data_context.input("in"):
                    with open(r"%s", "a") as file:
                        print(who, buffer, file=file)
                return modelbox.Status()
    """ % (tmp_path / "seen.txt")
    unit(tmp_path, "source", "Source", source, [], ["out"])
    unit(tmp_path, "show", "Show", sink, ["in"], [])
    path = graph(tmp_path, 's[flowunit=source, texts="a,b,c"] t[flowunit=show] s:out -> t:in')
    flow = modelbox.Flow()
    assert flow.init(str(path))
    assert flow.run_async()
    result = modelbox.Status()
    assert flow.wait(60_000, result)
    assert result
    assert flow.stop()
    assert (tmp_path / "seen.txt").read_text().split("\n") == [
        "source a",
        "source b",
        "source c",
        "",
    ]


def test_a_unit_that_returns_stop_ends_the_flow(tmp_path):
    code = """
        import modelbox

        class Stop(modelbox.FlowUnit):
            def process(self, data_context):
                return modelbox.Status.StatusCode.STATUS_STOP
    """
    unit(tmp_path, "stop", "Stop", code, ["in"], ["out"])
    flow = started(
        graph(tmp_path, "i[type=input] s[flowunit=stop] o[type=output] i -> s:in s:out -> o")
    )
    assert flow.wait(-1) == modelbox.Status.StatusCode.STATUS_BUSY
    stream = flow.create_stream_io()
    stream.send("i", "x")
    result = modelbox.Status()
    assert flow.wait(60_000, result)
    assert result == STOP
    assert flow.wait(0, result) == modelbox.Status.StatusCode.STATUS_SHUTDOWN
    assert stream.recv("o") is None  # no thread hangs
    assert flow.create_stream_io() is None


def test_wrong_graphs_are_told_by_build_and_wrong_files_by_init(tmp_path):
    flow = modelbox.Flow()
    assert flow.init(str(tmp_path / "no.toml")) == modelbox.Status.StatusCode.STATUS_NOTFOUND
    path = graph(tmp_path, "i[type=input] n[flowunit=no_such] o[type=output] i -> n -> o")
    assert flow.init(str(path))
    status = flow.build()
    assert status == modelbox.Status.StatusCode.STATUS_BADCONF
    assert "unknown flow unit 'no_such'" in status.errormsg()
    path.write_text("[graph\n")
    assert flow.init(str(path)) == modelbox.Status.StatusCode.STATUS_BADCONF
    assert flow.init("name", '{"flow": {"enable": false}, "graph": {"graphconf": '
                     '"digraph {i[type=input] o[type=output] i -> o}", "format": "graphviz"}}'
                     ) == modelbox.Status.StatusCode.STATUS_PERMIT  # fmt: skip


def test_arguments_of_a_graph_found_by_its_name(tmp_path):
    code = """
        import modelbox

        class Args(modelbox.FlowUnit):
            def open(self, config):
                self.text = config.get_string("text")
                return modelbox.Status()

            def process(self, data_context):
                for _ in range(data_context.input("in").size()):
                    data_context.output("out").push_back(self.text)
                return modelbox.Status()
    """
    unit(tmp_path, "args", "Args", code, ["in"], ["out"], stream=False)
    graph(
        tmp_path,
        'i[type=input] a[flowunit=args, text="$text"] o[type=output] i -> a:in a:out -> o',
        more='[flow]\nname = "by_name"\n[args.text]\ndefault = "default"\n',
    )
    for given, expected in (({}, "default"), ({"text": "given"}, "given")):
        flow = modelbox.Flow()
        status = flow.init_by_name("by_name", given, str(tmp_path))
        assert status, str(status)
        flow.start_run()
        stream = flow.create_stream_io()
        stream.send("i", "x")
        assert str(stream.recv("o")) == expected
        flow.stop()


def test_more_may_be_sent_than_anybody_reads(tmp_path):
    flow = started(graph(tmp_path, "i[type=input] o[type=output] i -> o"))
    stream = flow.create_stream_io()
    for i in range(3000):
        stream.send("i", str(i))
    stream.close_input()
    assert [str(stream.recv("o")) for _ in range(3000)] == [str(i) for i in range(3000)]
    flow.stop()


def test_several_sessions_are_waited_for_at_once(tmp_path):
    flow = started(graph(tmp_path, "i[type=input] o[type=output] i -> o"))
    maps = [flow.create_external_data_map() for _ in range(2)]
    select = modelbox.SelectMap()
    for external in maps:
        select.register(external)
    assert select.select(50) == []
    buffers = modelbox.BufferList([modelbox.Buffer(None, "x")])
    sender = threading.Thread(target=lambda: maps[1].send("i", buffers))
    sender.start()
    assert select.select() == [maps[1]]
    sender.join()
    simple = modelbox.ExternalDataSimple(maps[1])
    assert str(simple.get_result("o")[0]) == "x"
    simple.close()
    assert simple.get_result("o") is None
    flow.stop()


@pytest.mark.parametrize("timeout", [1, 20])
def test_recv_gives_up_after_its_time(tmp_path, timeout):
    flow = started(graph(tmp_path, "i[type=input] o[type=output] i -> o"))
    stream = flow.create_stream_io()
    assert stream.recv("o", timeout) is None
    into = modelbox.Buffer()
    assert stream.recv("o", into, timeout) == modelbox.Status.StatusCode.STATUS_TIMEDOUT
    stream.send("i", "x")
    assert stream.recv("o", into, 20_000)
    assert str(into) == "x"
    external = flow.create_external_data_map()
    assert external.recv(modelbox.ExtOutputBufferList(), timeout) == (
        modelbox.Status.StatusCode.STATUS_TIMEDOUT
    )
    flow.stop()


def test_an_endless_source_is_ended_by_a_sink_that_returns_stop(tmp_path):
    source = """
        import numpy as np
        import _flowunit as modelbox

        class Image(modelbox.FlowUnit):
            def __init__(self):
                super().__init__()

            def open(self, config):
                self.batch_size = config.get_int("batch_size")
                external = self.create_external_data()
                buffers = external.create_buffer_list()
                buffers.push_back(b"image")
                external.send(buffers)
                external.close()
                return modelbox.Status.StatusCode.STATUS_SUCCESS

            def process(self, data_context):
                out = data_context.output("image_out/out_1")
                if data_context.event() is None:
                    data_context.set_private_string("data", str(data_context.external()[0]))
                for i in range(self.batch_size):
                    buffer = self.create_buffer(np.full((2, 3), i, np.uint8))
                    buffer.set("name", data_context.get_private_string("data"))
                    out.push_back(buffer)
                event = modelbox.FlowUnitEvent()
                event.set_private_string("event", "again")
                data_context.send_event(event)
                return modelbox.Status.StatusCode.STATUS_CONTINUE
    """
    sink = """
        import numpy as np
        import _flowunit as modelbox

        class Show(modelbox.FlowUnit):
            count = 0

            def process(self, data_context):
                for buffer in data_context.input("image_in/in_1"):
                    assert np.array(buffer, copy=False).shape == (2, 3)
                    assert buffer.get("name") == "image"
                    self.count += 1
                if self.count > 100:
                    return modelbox.Status.StatusCode.STATUS_STOP
                return modelbox.Status.StatusCode.STATUS_SUCCESS
    """
    unit(tmp_path, "python_image", "Image", source, [], ["image_out/out_1"])
    unit(tmp_path, "python_show", "Show", sink, ["image_in/in_1"], [])
    path = graph(
        tmp_path,
        """
        python_image[type=flowunit, flowunit=python_image, device=cpu, deviceid=0, batch_size=10,
                     label="<image_out/out_1>"]
        python_show[type=flowunit, flowunit=python_show, device=cpu, deviceid=0]
        python_image:"image_out/out_1" -> python_show:"image_in/in_1"
        """,
    )
    flow = modelbox.Flow()
    assert flow.init(str(path))
    assert flow.build()
    assert flow.run_async()
    result = modelbox.Status()
    assert flow.wait(60_000, result)
    assert result == STOP
    flow.stop()


def test_a_flow_that_ends_while_it_starts_has_started(monkeypatch):
    from modelflow.compat.modelbox.adapter import StopFlow
    from modelflow.errors import FlowFailed, FlowUnitError

    def failing(self):
        error = FlowUnitError("stops", node="n")
        error.__cause__ = StopFlow(modelbox.Status(STOP))
        raise FlowFailed("failed", [error])

    monkeypatch.setattr("modelflow.flow.Flow.start", failing)
    flow = modelbox.Flow()
    desc = modelbox.FlowGraphDesc()
    desc.add_output("o", desc.add_input("i"))
    assert flow.init(desc)
    assert flow.start_run()


def test_a_graph_from_a_configuration():
    config = modelbox.Configuration()
    config.set("graph.format", "graphviz")
    config.set("graph.graphconf", "digraph { i[type=input] o[type=output] i -> o }")
    config.set("driver.skip-default", False)
    flow = modelbox.Flow()
    status = flow.init(config)
    assert status, str(status)
    assert flow.start_run()
    stream = flow.create_stream_io()
    stream.send("i", "text")
    assert str(stream.recv("o")) == "text"
    flow.stop()


def test_two_flows_run_in_two_threads_of_one_process(tmp_path):
    path = graph(tmp_path, "i[type=input] o[type=output] i -> o")
    found = []

    def use(text):
        flow = started(path)
        stream = flow.create_stream_io()
        stream.send("i", text)
        found.append(str(stream.recv("o")))
        flow.stop()

    threads = [threading.Thread(target=use, args=(text,)) for text in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["a", "b"]
