"""Tests of values without a flow: statuses, configurations, buffers, logs."""

import logging

import numpy as np
import pytest

import modelflow
import modelflow.compat.modelbox as modelbox
from modelflow.compat.modelbox.buffer import CodedError
from modelflow.compat.modelbox.log import Level
from modelflow.errors import ConfigError

Code = modelbox.Status.StatusCode


def test_a_status_compares_with_statuses_codes_and_bools():
    assert modelbox.Status() == Code.STATUS_SUCCESS
    assert modelbox.Status()
    assert modelbox.Status(Code.STATUS_FAULT) == modelbox.Status(False)
    assert modelbox.Status(Code.STATUS_CONTINUE) != True  # noqa: E712 - a comparison with a bool
    assert not modelbox.Status(Code.STATUS_EOF)
    assert modelbox.Status(True) == True  # noqa: E712
    assert [int(code) for code in Code] == list(range(27))


def test_a_status_tells_its_messages():
    inner = modelbox.Status(Code.STATUS_FAULT, "inner")
    outer = modelbox.Status(inner, "outer")
    assert str(modelbox.Status(Code.STATUS_NOTFOUND)) == "Not found"
    assert str(inner) == "code: Fault, errmsg: inner"
    assert outer.wrap_errormsgs() == "Fault, outer -> inner"
    assert outer.unwrap() == inner
    assert (outer.errormsg(), outer.unwrap().errormsg()) == ("outer", "inner")
    outer.set_errormsg("other")
    assert outer.errormsg() == "other"
    assert (inner.code(), inner.str_code()) == (Code.STATUS_FAULT, "Fault")


def test_a_configuration_goes_through_text():
    config = modelbox.Configuration()
    config.set("text", "value")
    config.set("flag", True)
    config.set("number", 3)
    config.set("real", 1.5)
    config.set("list", [1, 2, 3])
    assert (config.get_string("text"), config.get_bool("flag")) == ("value", True)
    assert (config.get_int("number"), config.get_float("real")) == (3, 1.5)
    assert config.get_string("number") == "3"
    assert config.get_int_list("list") == [1, 2, 3]
    assert config.get_float_list("number") == [3.0]
    assert config.get_string("list") == "1\x032\x033"
    assert (config.get_int("text", 7), config.get_int("none", 8)) == (7, 8)
    assert config.get_bool("number", True) is True
    assert (config.get_string_list("none"), config.get_int_list("none", [4])) == ([], [4])
    with pytest.raises(ValueError, match="'bad': got"):
        config.set("bad", {})


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("123.675, 116.28, 103.53", ["123.675", "116.28", "103.53"]),
        ("x,'y,z', w ", ["x", "y,z", "w"]),
        ("'a,b'", ["a,b"]),
        ("plain", ["plain"]),
        ("a,", ["a", ""]),
    ],
)
def test_attributes_with_commas_are_lists(text, items):
    config = modelbox.Configuration.of_attributes({"key": text, "empty": ""})
    assert config.get_string_list("key") == items
    assert config.get_string("empty", "default") == "default"


def test_a_buffer_of_an_array():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer = modelbox.Buffer(modelbox.Device(), array)
    assert buffer.get("shape") == [2, 3]
    assert buffer.get("type") == modelbox.Buffer.ModelBoxDataType.FLOAT
    assert np.array_equal(np.array(buffer), array)
    flat = buffer.as_object()
    assert flat.shape == (6,)
    flat[0] = 100  # its own
    assert array[0, 0] == 0
    assert (buffer.get_bytes(), buffer.as_bytes()) == (24, array.tobytes())


def test_a_buffer_of_other_things():
    text = modelbox.Buffer(None, "grüße")
    assert (text.as_object(), str(text), text.as_bytes()) == ("grüße", "grüße", "grüße".encode())
    data = modelbox.Buffer(None, b"\x01\x02")
    assert data.as_object().tolist() == [1, 2]
    many = modelbox.Buffer(None, [np.zeros((2, 2), np.uint8), np.ones(3, np.uint8)])
    assert many.get("shape") == [[2, 2], [3]]
    assert many.as_object().tolist() == [0, 0, 0, 0, 1, 1, 1]
    for bad in (np.float32(3), np.array(["a"]), np.array([1j])):
        with pytest.raises(RuntimeError):
            modelbox.Buffer(None, bad)


def test_meta_keeps_its_types_and_what_is_there():
    one, other = modelbox.Buffer(), modelbox.Buffer(None, np.zeros(2, np.uint8))
    for key, value in {"i": 3, "f": 0.1, "s": "x", "b": True, "l": [1.5, 2], "d": {"a": 1}}.items():
        one.set(key, value)
        assert one.get(key) == value
    other.set("i", 4)
    other.copy_meta(one)
    assert (other.get("i"), other.get("f"), other.get("shape")) == (4, 0.1, [2])
    with pytest.raises(ValueError, match="no meta 'nothing'"):
        one.get("nothing")
    for bad in ([1, 2.5], [1, "a"], 2**63):
        with pytest.raises(RuntimeError):
            one.set("bad", bad)


def test_a_copy_shares_the_payload_and_not_the_meta():
    one = modelbox.Buffer(None, "text")
    one.set("a", 1)
    two = modelbox.Buffer(one)
    two.set("a", 2)
    assert (one.get("a"), two.get("a"), two.as_object()) == (1, 2, "text")


def test_a_buffer_in_error_has_code_and_message():
    buffer = modelbox.Buffer(None, "text")
    buffer.set_error("Unit.Bad", "is bad")
    assert buffer.has_error()
    assert (buffer.get_error_code(), buffer.get_error_msg()) == ("Unit.Bad", "is bad")
    assert buffer.get_bytes() == 0


def test_a_list_is_read_past_its_end_without_an_error():
    buffers = modelbox.BufferList([modelbox.Buffer(None, "a")])
    buffers.push_back("b")
    buffers.push_back(np.zeros(3, np.uint8))
    assert (buffers.size(), len(buffers), buffers[3]) == (3, 3, None)
    assert (str(buffers.front()), buffers.back().get_bytes()) == ("a", 3)
    buffers.set("k", 1)
    assert [buffer.get("k") for buffer in buffers] == [1, 1, 1]
    buffers.build([4, 5])
    assert [buffer.get_bytes() for buffer in buffers] == [4, 5]
    assert modelbox.BufferList().front() is None


def test_session_values():
    context = modelbox.SessionContext()
    context.set_private_int("i", 3)
    context.set_private_string("s", "x")
    context.set_private("d", {"a": [1]})
    assert context.get_private_int("i") == 3
    assert context.get_private_string("s") == "x"
    assert context.get_private("d") == {"a": [1]}
    assert context.get_session_id() == context.get_session_id()
    context.get_session_config().set("key", 5)
    assert context.get_session_config().get_int("key") == 5
    with pytest.raises(KeyError, match="no value 'x' was set"):
        context.get_private("x")


def test_messages_reach_a_callback_with_their_place():
    found = []
    log = modelbox.Log()
    log.reg(lambda *parts: found.append(parts))
    before = logging.getLogger("modelflow").level
    try:
        log.set_log_level(modelbox.Log.Level.INFO)
        modelbox.debug("unseen")
        modelbox.info("a", 1)
        log.print(Level.ERROR, "b")
        log.print_ext(Level.WARN, "file.py", 7, "func", "c")
    finally:
        log.set_logger(log.get_logger())
        logging.getLogger("modelflow").setLevel(before)
    assert [(level, text) for level, *_, text in found] == [
        (Level.INFO, "a, 1"),
        (Level.ERROR, "b"),
        (Level.WARN, "c"),
    ]
    assert found[0][1] == "test_values.py"
    assert found[2][1:4] == ("file.py", 7, "func")


def test_the_names_of_modelbox_are_there():
    names = [
        "Flow",
        "FlowGraphDesc",
        "FlowNodeDesc",
        "FlowPortDesc",
        "FlowStreamIO",
        "Model",
        "ExternalDataMap",
        "ExtOutputBufferList",
        "ExternalDataSimple",
        "SelectMap",
        "Buffer",
        "BufferList",
        "FlowUnit",
        "DataContext",
        "SessionContext",
        "DataMeta",
        "FlowUnitEvent",
        "FlowUnitError",
        "ExternalData",
        "Configuration",
        "Status",
        "Log",
        "Logger",
        "set_log_level",
        "debug",
        "info",
        "notice",
        "warn",
        "error",
        "fatal",
        "Device",
        "ModelBoxEngine",
        "DataHandler",
        "ModelBoxDataType",
    ]
    assert [name for name in names if not hasattr(modelbox, name)] == []


def test_settings_of_a_graph_become_those_of_the_file():
    desc = modelbox.FlowGraphDesc()
    desc.set_queue_size(5)
    desc.set_batch_size(2)
    desc.set_drivers_dir("units")
    desc.set_skip_default_drivers(True)
    desc.set_profile_dir("p")
    desc.set_profile_trace_enable(True)
    config = desc.to_config()
    assert (config.graph["queue_size"], config.graph["batch_size"]) == (5, 2)
    assert dict(config.driver) == {"dir": ["units"], "skip-default": True}
    assert config.profile.items() >= {"dir": "p", "trace": True}.items()


def test_a_buffer_holds_one_of_modelflow():
    error = CodedError("Unit.Lost", "it is lost")
    lost = modelbox.Buffer(modelflow.Buffer.from_error(error, {"key": 1}))
    assert (lost.get_error_code(), lost.get_error_msg(), lost.get("key")) == (
        "Unit.Lost",
        "it is lost",
        1,
    )
    here = modelbox.Buffer(None, np.arange(3))
    assert here.get("missing", None) is None
    here.set("key", 2)
    other = modelbox.Buffer(here)
    other.set("key", 3)
    assert other.native.data is here.native.data
    assert (here.get("key"), other.get("key")) == (2, 3)


def test_a_node_may_be_named_when_others_are_connected_already():
    desc = modelbox.FlowGraphDesc()
    first = desc.add_node("mean", "cpu", ["mean=1"], desc.add_input("image"))
    desc.add_output("out", first)
    first.set_node_name("my_mean")
    assert str(desc.to_config().edges[1].source) == "my_mean"
    second = desc.add_node("mean", "cpu", first)
    assert second.get_node_name() == "mean"
    second.set_node_name("my_mean")
    with pytest.raises(ConfigError, match="'my_mean': two nodes have this name"):
        desc.to_config()


def test_the_buffer_protocol_gives_the_type_and_the_shape_of_an_array():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    view = modelbox.Buffer(None, array).__buffer__(0)
    assert view.format == "h"
    assert np.asarray(view).tolist() == array.tolist()
    assert bytes(modelbox.Buffer(None, "abc").__buffer__(0)) == b"abc"
    assert bytes(modelbox.Buffer().__buffer__(0)) == b""
