import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modelflow.wire.problem import Problem
from modelflow.wire.raw_tensor import element_type, from_raw, plain_numbers, to_raw
from modelflow.wire.tensor import DATATYPES, check_shape, datatype_of

NUMBERS = [name for name in DATATYPES if name != "BYTES"]


@given(
    st.sampled_from(NUMBERS).flatmap(
        lambda name: st.tuples(
            st.just(name), hnp.arrays(DATATYPES[name], hnp.array_shapes(min_dims=0, min_side=0))
        )
    )
)
def test_a_tensor_comes_back_bit_for_bit(drawn):
    name, array = drawn
    found = from_raw(to_raw(array, name, "x"), name, array.shape, "x")
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


EXTENTS = st.integers(-2, 4) | st.sampled_from([1 << 31, 1 << 62, -(1 << 63), (1 << 63) - 1])


@given(
    st.binary(max_size=48),
    st.sampled_from([*DATATYPES, "BF16", "nothing", ""]),
    st.lists(EXTENTS, max_size=3).map(tuple) | st.integers(0, 70).map(lambda count: (1,) * count),
)
def test_what_is_read_at_once_is_what_is_read_with_care(data, name, shape):
    found = plain_numbers(data, name, shape)
    try:
        dtype = element_type(name, "x")
        wanted = from_raw(data, name, check_shape(shape, "x"), "x")
    except Problem:
        assert found is None
        return
    if found is None:
        assert dtype.kind not in "iuf" or name == "BF16" or 0 in shape
        return
    np.testing.assert_array_equal(found, wanted, strict=True)
    assert (found.dtype, found.flags.writeable) == (wanted.dtype, False)


@given(st.lists(st.binary()))
def test_bytes_come_back_with_their_lengths(items):
    array = np.empty(len(items), object)
    array[:] = items
    raw = to_raw(array, "BYTES", "x")
    assert raw == b"".join(struct.pack("<I", len(item)) + item for item in items)
    assert from_raw(raw, "BYTES", (len(items),), "x").tolist() == items


@given(st.binary(max_size=64), st.integers(0, 10))
def test_any_bytes_are_elements_or_a_problem(data, count):
    try:
        array = from_raw(data, "BYTES", (count,), "x")
    except Problem:
        return
    assert to_raw(array, "BYTES", "x") == data


@pytest.mark.parametrize("name", NUMBERS)
def test_a_tensor_is_a_read_only_view_at_any_address(name):
    width = DATATYPES[name].itemsize
    body = memoryview(b"x" * 3 + bytes(width * 6))
    array = from_raw(body[3:], name, (2, 3), "x")
    assert np.shares_memory(array, np.frombuffer(body, np.uint8))
    assert not array.flags.writeable


def test_a_view_shows_what_is_received():
    body = bytearray(np.arange(6, dtype=np.float32).tobytes())
    array = from_raw(memoryview(body), "FP32", (6,), "x")
    body[:4] = np.float32(9).tobytes()
    assert array[0] == 9


def test_bf16_is_float32_in_memory_and_comes_back_bit_for_bit():
    every = np.arange(1 << 16, dtype=np.uint16)
    raw = every.tobytes()
    array = from_raw(raw, "BF16", (256, 256), "x")
    assert array.dtype == np.float32
    back = np.frombuffer(to_raw(array, "BF16", "x"), np.uint16)
    number = ~np.isnan(array).ravel()
    np.testing.assert_array_equal(back[number], every[number])
    assert np.isnan(from_raw(back.tobytes(), "BF16", (256, 256), "x").ravel()[~number]).all()


def test_bf16_is_rounded_as_ml_dtypes_does():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    array = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    expected = array.astype(ml_dtypes.bfloat16)
    assert to_raw(array, "BF16", "x") == expected.tobytes()
    assert to_raw(expected, "BF16", "x") == expected.tobytes()
    assert datatype_of(expected.dtype) == "BF16"


def test_objects_that_are_no_bytes_go_out_as_json():
    array = np.array([b"a", "é", {"b": [1]}], object)
    assert from_raw(to_raw(array, "BYTES", "x"), "BYTES", (3,), "x").tolist() == [
        b"a",
        "é".encode(),
        b'{"b":[1]}',
    ]


@pytest.mark.parametrize(
    ("data", "datatype", "shape", "said"),
    [
        (b"\0" * 7, "FP32", (2,), r"x: 7 bytes; expected 8 for FP32 of shape \[2\]"),
        (b"\0" * 9, "FP32", (2,), "9 bytes; expected 8"),
        (b"", "FP32", (2,), "0 bytes; expected 8"),
        (b"\0", "FP32", (0,), "1 bytes; expected 0"),
        (
            b"\0" * 4,
            "FP32",
            (2**31, 2**31, 2**31),
            "4 bytes; expected 39614081257132168796771975168",
        ),
        (b"\0" * 3, "BF16", (1,), "3 bytes; expected 2 for BF16"),
        (b"\2", "BOOL", (1,), "a byte that is neither 0 nor 1"),
        (b"\0\0\0", "BYTES", (1,), "3 bytes; 1 BYTES elements take 4 for their lengths alone"),
        (b"", "BYTES", (2**62,), "elements take 18446744073709551616 for their lengths"),
        (b"\1\0\0\0", "BYTES", (1,), "element 0 ends at byte 5; the tensor has 4 bytes"),
        (b"\xff\xff\xff\xffabcd", "BYTES", (1,), "element 0 ends at byte 4294967299"),
        (b"\2\0\0\0ab\1\0", "BYTES", (2,), "element 1 ends at byte"),
        (b"\1\0\0\0ab", "BYTES", (1,), "1 bytes after the last of 1 elements"),
        (b"\0\0\0\0", "BYTES", (0,), "4 bytes after the last of 0 elements"),
    ],
)
def test_each_lie_about_a_length_is_a_problem(data, datatype, shape, said):
    with pytest.raises(Problem, match=said):
        from_raw(data, datatype, shape, "x")


@pytest.mark.parametrize("name", ["fp32", "FP8", "", None, 3, []])
def test_what_is_no_datatype_is_a_problem_that_names_the_nearest(name):
    with pytest.raises(Problem, match="expected one of BOOL, ") as caught:
        element_type(name, "x")
    assert ("did you mean 'FP32'" in str(caught.value)) == (name == "fp32")
