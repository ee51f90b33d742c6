import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modelflow.files.json_value import number_lists
from modelflow.wire.json_to_array import array_of
from modelflow.wire.json_writer import array_json, b64, json_line, json_of
from modelflow.wire.problem import Code, Problem

NUMBERS = ["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64"]


@given(
    st.sampled_from(NUMBERS).flatmap(
        lambda name: hnp.arrays(name, hnp.array_shapes(min_dims=0, min_side=0))
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_an_array_comes_back_bit_for_bit(parser, array):
    found = json.loads(array_json(array))
    assert np.shape(found) == array.shape or 0 in array.shape
    np.testing.assert_array_equal(array_of(found, array.dtype, "x").reshape(array.shape), array)


@pytest.mark.parametrize(
    ("number", "texts"),
    [
        (0.1, {"0.1"}),
        (3.0, {"3.0"}),
        (-0.0, {"-0.0"}),
        (1e16, {"1e16", "1e+16"}),
        (1e-7, {"1e-7", "1e-07"}),
        (16777216.0, {"16777216.0"}),
    ],
)
def test_a_float_has_its_fewest_digits_and_a_dot_or_an_exponent(parser, number, texts):
    assert array_json(np.float32(number)).decode() in texts
    assert array_json(np.array([number], np.float32)).decode().strip("[]") in texts


def test_what_is_not_finite_is_written_as_tensorflow_serving_does(parser):
    array = np.array([[np.nan, 1], [np.inf, -np.inf]], np.float32)
    assert array_json(array) == b"[[NaN,1.0],[Infinity,-Infinity]]"
    assert array_json(np.float64(np.nan)) == b"NaN"
    assert json_of([float("inf"), np.float16(-np.inf)]) == b"[Infinity,-Infinity]"


def test_documents_hold_arrays_bytes_and_texts(parser):
    document = {
        "é": np.array([[1, 2]]),
        "b": [b"x", None, True, 2.0],
        "c": {},
        "d": np.array([b"y", "z"], object),
    }
    assert (
        json_of(document).decode() == '{"é":[[1,2]],"b":["x",null,true,2.0],"c":{},"d":["y","z"]}'
    )


def test_arrays_of_any_order_and_byte_order_are_written(parser):
    array = np.arange(6, dtype=">i4").reshape(2, 3).T
    assert array_json(array) == b"[[0,3],[1,4],[2,5]]"


def test_b64_says_bytes():
    assert b64(b"\xff") == {"b64": "/w=="}


@pytest.mark.parametrize(
    ("value", "said", "code"),
    [
        (np.array([b"\xff\xd8"], object), "no text .byte 0xff at 0.", Code.FAILED_PRECONDITION),
        (np.array([1j]), "arrays of complex128 have no form in JSON", Code.FAILED_PRECONDITION),
        (object(), "a object has no form in JSON", Code.INTERNAL),
        (np.array([object()], object), "a object has no form in JSON", Code.INTERNAL),
    ],
)
def test_what_has_no_form_in_json_is_a_problem(parser, value, said, code):
    with pytest.raises(Problem, match=said) as caught:
        json_of(value)
    assert caught.value.code is code


def test_a_half_has_its_own_digits(parser):
    assert array_json(np.array([0.1], np.float16)) == b"[0.1]"


def test_an_integer_may_be_longer_than_64_bits(parser):
    assert json_of({"a": [2**64, -(10**30)]}) == f'{{"a":[{2**64},{-(10**30)}]}}'.encode()


@given(
    st.sampled_from(NUMBERS).flatmap(
        lambda name: hnp.arrays(name, hnp.array_shapes(min_dims=0, min_side=0))
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_line_is_written_as_python_writes_it(parser, array):
    text = json.dumps({"a": [number_lists(array)], "é": "x"}, ensure_ascii=False)
    for word in ("-Infinity", "Infinity", "NaN"):
        text = text.replace(word, "null")
    assert json_line({"a": [array], "é": "x"}) == text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_in_a_line_have_the_exponents_of_python(parser, dtype):
    array = np.array([1e-7, 9.9e-5, 1e-4, 0, 1e15, 1e16, np.nan], dtype)
    text = "[1e-07, 9.9e-05, 0.0001, 0.0, 1000000000000000.0, 1e+16, null]"
    assert json_line(array) == text


def test_a_line_of_numbers_and_texts_that_utf_8_cannot_hold():
    line = {"path": "\udcff", "data": [float("inf"), {"x": float("nan")}, 1e-7]}
    assert json_line(line) == '{"path": "\\udcff", "data": [null, {"x": null}, 1e-07]}'
