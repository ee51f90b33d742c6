import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.device import CPU
from modelflow.errors import DeviceUnavailableError, FlowUnitError


def test_data_is_not_copied():
    array = np.arange(3)
    assert Buffer(array).data is array


def test_numpy_reads_arrays_bytes_and_numbers():
    assert np.array(Buffer(np.arange(3))).tolist() == [0, 1, 2]
    assert np.array(Buffer(b"\x01\x02")).tolist() == [1, 2]
    assert np.array(Buffer(5)).item() == 5
    assert np.asarray(Buffer([1, 2]), dtype=np.float32).dtype == np.float32


def test_text_is_given_back_as_text():
    assert str(Buffer("text")) == "text"
    assert str(Buffer(b"text")) == "text"
    assert bytes(Buffer("text")) == b"text"
    assert bytes(Buffer(np.array([1, 2], np.uint8))) == b"\x01\x02"


def test_other_data_is_described():
    assert str(Buffer(b"\xff\xfe")) == "Buffer(2 bytes, meta={})"
    described = repr(Buffer(np.zeros((2, 3)), {"a": 1}))
    assert described == "Buffer(float64 array (2, 3), meta={'a': 1})"


def test_meta_is_taken_over_without_replacing():
    target = Buffer(0, {"a": "own"})
    target.copy_meta(Buffer(0, {"a": 1, "b": 2}))
    assert target.meta == {"a": "own", "b": 2}


def test_shared_meta_is_parted_by_the_first_change_on_either_side():
    source, target = Buffer(0, {"a": 1}), Buffer(0)
    target.inherit_meta(source)
    source.set("a", 2)
    assert target.get("a") == 1
    target.set("a", 3)
    assert source.get("a") == 2


def test_get_of_a_missing_key_gives_the_default():
    assert Buffer(0).get("a") is None
    assert Buffer(0).get("a", 5) == 5


def test_an_error_says_its_code_and_text():
    error = FlowUnitError("is bad", node="n", unit="Resize")
    buffer = Buffer.from_error(error)
    assert buffer.has_error()
    assert buffer.get_error_code() == "Resize.ProcessError"
    assert buffer.get_error_msg() == "node 'n' (unit 'Resize') failed in process: is bad"
    assert Buffer(0).get_error_code() == Buffer(0).get_error_msg() == ""


def test_device_is_the_cpu_for_host_data():
    assert Buffer(np.zeros(1)).device == CPU
    buffer = Buffer("x")
    assert buffer.to("cpu") is buffer


def test_moving_to_an_absent_device_names_those_there_are():
    with pytest.raises(DeviceUnavailableError, match=r"cuda:77 is not on this machine.*cpu:0"):
        Buffer(np.zeros(1)).to("cuda:77")


def test_dlpack_goes_through():
    array = np.arange(3)
    assert np.shares_memory(np.from_dlpack(Buffer(array)), array)
