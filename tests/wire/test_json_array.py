import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modelflow.wire.json_to_array import array_of, is_b64
from modelflow.wire.problem import Code, Problem

NUMBERS = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]


@given(
    st.sampled_from(NUMBERS).flatmap(
        lambda name: hnp.arrays(name, hnp.array_shapes(min_side=0, max_dims=4))
    )
)
def test_nested_lists_become_the_array_that_they_came_from(array):
    found = array_of(array.tolist(), array.dtype, "x")
    if array.size:
        np.testing.assert_array_equal(found, array)
        assert found.shape == array.shape
    assert found.dtype == array.dtype
    assert found.flags.c_contiguous


@given(hnp.arrays("int64", hnp.array_shapes(), elements=st.integers(-100, 100)))
def test_an_array_from_the_parser_becomes_what_lists_become(array):
    for name in ("int8", "int32", "int64", "float16", "float32", "float64"):
        dtype = np.dtype(name)
        np.testing.assert_array_equal(
            array_of(array, dtype, "x"), array_of(array.tolist(), dtype, "x")
        )


def test_a_value_alone_has_no_axes():
    assert array_of(3, np.dtype(np.int32), "x").shape == ()
    assert array_of("a", np.dtype(object), "x").item() == b"a"


def test_texts_and_b64_become_bytes():
    data = bytes(range(256))
    b64 = base64.b64encode(data).decode()
    found = array_of([["é", {"b64": b64}, {"b64": b64.rstrip("=")}]], np.dtype(object), "x")
    assert found.tolist() == [["é".encode(), data, data]]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1, 2], "int64"),
        ([1, 2**64 - 1], "uint64"),
        ([1, 0.5], "float64"),
        ([True], "bool"),
        (["a"], "object"),
        ([[]], "float64"),
    ],
)
def test_where_nobody_asks_for_a_type_values_keep_their_own(value, dtype):
    assert array_of(value, None, "x").dtype == dtype


@pytest.mark.parametrize(
    ("value", "dtype", "said"),
    [
        ([[1, 2], [3]], "float32", r"x: 1 values at \[1\]; expected 2, as in the rows before"),
        ([[[1], [2]], [[3], [4, 5]]], "int32", r"x: 2 values at \[1\]\[1\]; expected 1"),
        ([1, [2]], "int32", r"x: a list and a single value side by side at \[1\]"),
        ([[1], 2], "int32", "side by side"),
        ([[[1]], [2]], "int32", r"side by side at \[1\]\[0\]"),
        ([True], "int32", r"True \(value 0\) is true or false; expected an integer for INT32"),
        ([1, 2, True], "float32", r"True \(value 2\) is true or false; expected a number"),
        ([1.0], "int64", "1.0 .* is a number with a fraction; expected an integer for INT64"),
        (["1"], "int64", "'1' .* is a text; expected an integer"),
        (["1"], "float32", "is a text; expected a number for FP32"),
        ([None], "float32", "is null; expected a number"),
        ([{"b64": "AA=="}], "float32", "is an object; expected a number"),
        ([1], "bool", "is an integer; expected true or false for BOOL"),
        ([1], "object", "is an integer; expected a text for BYTES"),
        ([128], "int8", "128 is out of range of INT8; expected -128 to 127"),
        ([-1], "uint64", "-1 is out of range of UINT64"),
        ([2**63], "int64", "out of range of INT64"),
        ([10**400], "float32", "an integer that is out of range of FP32"),
        ([1e39], "float32", r"1e\+39 is out of range of FP32"),
        ([float("inf"), 7e4], "float16", "70000.0 is out of range of FP16"),
        ([{"b64": "*"}], "object", r"Unable to base64 decode '\*'"),
        ([{"b64": "é"}], "object", "Unable to base64 decode"),
        ([{"b64": 1}], "object", "not formatted correctly for base64 data"),
        ([{"b64": "", "x": 1}], "object", "not formatted correctly for base64 data"),
        (np.array([1.5]), "int32", "1.5 .* is a number with a fraction; expected an integer"),
        (np.array([1]), "bool", "is an integer; expected true or false"),
        (np.array([1]), "object", "is an integer; expected a text"),
        (np.array([300]), "uint8", "300 is out of range of UINT8; expected 0 to 255"),
        (np.array([-1]), "uint64", "-1 is out of range of UINT64"),
        (np.array([2**63], np.uint64), "int64", "out of range of INT64"),
        (np.array([1e39]), "float32", r"1e\+39 is out of range of FP32"),
    ],
)
def test_what_a_tensor_cannot_be_is_a_problem_that_names_it(value, dtype, said):
    with pytest.raises(Problem, match=said) as caught:
        array_of(value, np.dtype(dtype), "x")
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_lists_deeper_than_an_array_may_be_are_a_problem():
    value: object = 1
    for _ in range(40):
        value = [value]
    with pytest.raises(Problem, match="nested over 32 deep"):
        array_of(value, np.dtype(np.int32), "x")


def test_nan_and_infinities_stay_in_every_float_type():
    for name in ("float16", "float32", "float64"):
        found = array_of([float("nan"), float("inf"), -float("inf"), 1], np.dtype(name), "x")
        assert [str(number) for number in found] == ["nan", "inf", "-inf", "1.0"]


@pytest.mark.parametrize("text", ["aGVs\nbG8=\n", "aGVs\r\n bG8", " aGVsbG8=", "a G\tV s\vb\fG8="])
def test_white_space_in_base64_is_skipped(text):
    found = array_of([{"b64": text}], np.dtype(object), "x")
    assert found.tolist() == [b"hello"]


@pytest.mark.parametrize("text", ["aGVs-bG8=", "aGVs\u00a0bG8=", "aGVs\n*", "a\n"])
def test_no_other_characters_in_base64_are(text):
    with pytest.raises(Problem, match="Unable to base64 decode"):
        array_of([{"b64": text}], np.dtype(object), "x")


def test_an_object_is_b64_only_if_it_is_nothing_else():
    assert is_b64({"b64": ""})
    assert not any(map(is_b64, ({"b64": 1}, {"b64": "", "a": 1}, {"a": ""}, {}, "b64", None)))
