import base64
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modelflow.wire.problem import Code, Problem
from modelflow.wire.tf_serving.predict import (
    arrays_of_columns,
    arrays_of_rows,
    predict_answer,
    read_predict,
    read_rows,
    rows_answers,
)

F4, I4, TEXT = np.dtype(np.float32), np.dtype(np.int32), np.dtype(object)
ONE = {"x": F4}
TWO = {"a": F4, "b": I4}
# As large as documents for which the parser for large documents is used.
PADDED = pytest.mark.parametrize("padding", ["", " " * (1 << 14)], ids=["small", "large"])


def arrays_of(body, inputs):
    _, is_row, value = body
    return (arrays_of_rows if is_row else arrays_of_columns)(value, inputs)


def arrays(document, inputs, padding=""):
    return arrays_of(read_predict((padding + json.dumps(document)).encode()), inputs)


@given(
    hnp.arrays(np.float32, hnp.array_shapes(max_dims=4), elements=st.floats(-100, 100, width=32))
)
def test_an_array_goes_through_a_request_and_an_answer_bit_for_bit(array):
    for key, is_row in (("instances", True), ("inputs", False)):
        body = read_predict(json.dumps({key: array.tolist()}).encode())
        found = arrays_of(body, ONE)["x"]
        np.testing.assert_array_equal(found, array)
        answer = json.loads(predict_answer({"y": found}, is_row=is_row))
        assert list(answer) == ["predictions" if is_row else "outputs"]
        np.testing.assert_array_equal(np.array(next(iter(answer.values())), F4), array)
        assert body[1] == is_row


@PADDED
def test_rows_of_one_input_are_values_or_objects(padding):
    for rows in ([[1, 2], [3, 4.5]], [{"x": [1, 2]}, {"x": [3, 4.5]}]):
        found = arrays({"instances": rows}, ONE, padding)
        np.testing.assert_array_equal(found["x"], np.array([[1, 2], [3, 4.5]], F4))


@PADDED
def test_rows_of_several_inputs_are_objects(padding):
    found = arrays({"instances": [{"a": [1.5], "b": 1}, {"b": 2, "a": [2.5]}]}, TWO, padding)
    assert {name: array.tolist() for name, array in found.items()} == {
        "a": [[1.5], [2.5]],
        "b": [1, 2],
    }


@PADDED
def test_columns_hold_every_input_and_may_hold_more(padding):
    found = arrays({"inputs": {"a": [[1.5]], "b": 1, "c": "ignored"}}, TWO, padding)
    assert found["a"].shape == (1, 1)
    assert found["b"].shape == ()
    assert set(found) == {"a", "b"}


@PADDED
@pytest.mark.parametrize("key", ["instances", "inputs"])
def test_bytes_come_as_b64_and_texts_as_themselves(padding, key):
    data = b"\xff\xd8\x00"
    b64 = {"b64": base64.b64encode(data).decode()}
    assert arrays({key: [b64, "é"]}, {"x": TEXT}, padding)["x"].tolist() == [data, "é".encode()]


def test_b64_alone_is_a_column_without_axes():
    assert arrays({"inputs": {"b64": "AA=="}}, {"x": TEXT})["x"].item() == b"\0"


def test_the_signature_is_named_in_the_request():
    assert read_predict(b'{"signature_name": "s", "instances": [1]}')[0] == "s"
    assert read_predict(b'{"instances": [1]}')[0] == ""


@PADDED
def test_what_follows_the_document_is_ignored(padding):
    body = (padding + '{"instances": [[1.0, 2.0]]}').encode() + b"}\xff\0 and more"
    assert arrays_of(read_predict(body), ONE)["x"].tolist() == [[1, 2]]


@PADDED
def test_nan_and_infinities_are_numbers(padding):
    body = (padding + '{"instances": [NaN, Infinity, -Infinity]}').encode()
    found = arrays_of(read_predict(body), ONE)["x"]
    assert predict_answer({"y": found}, is_row=True) == b'{"predictions":[NaN,Infinity,-Infinity]}'


@PADDED
@pytest.mark.parametrize(
    ("text", "inputs", "said"),
    [
        ("[]", ONE, "Is not object"),
        ("{}", ONE, "^Missing 'inputs' or 'instances' key$"),
        ('{"instances": [1], "inputs": [1]}', ONE, "only one of 'inputs' or 'instances' keys"),
        ('{"instances": []}', ONE, "No values in 'instances' array"),
        ('{"instances": 1}', ONE, "Excepting 'instances' to be an list/array"),
        ('{"instances": {"b64": "AA=="}}', ONE, "Excepting 'instances' to be an list/array"),
        ('{"signature_name": 1, "instances": [1]}', ONE, "'signature_name' key must be a string value"),
        ('{"instances": [1, 2]}', TWO, "instances is a plain list, but expecting list of objects"),
        ('{"instances": [{"a": 1}]}', TWO, "Failed to process element: 0 of 'instances' list.*keys must be equal to: a,b"),
        ('{"instances": [{"a": 1, "b": 1, "c": 1}]}', TWO, "keys must be equal to: a,b"),
        ('{"instances": [{"a": 1, "b": 1}, 3]}', TWO, "Expecting object but got list at item 1 of input list"),
        ('{"instances": [1, {"x": 1}]}', ONE, "Expecting value/list but got object at item 1 of input list"),
        ('{"instances": [{"a": [1], "b": 1}, {"a": [1, 2], "b": 1}]}', TWO, r"'instances' \(input 'a'\)"),
        ('{"instances": [[1, 2], [3]]}', ONE, r"'instances' \(input 'x'\)"),
        ('{"instances": [[1, [2]]]}', ONE, "side by side"),
        ('{"instances": ["a"]}', ONE, "is a text; expected a number for FP32"),
        ('{"instances": [1.5]}', {"x": I4}, "is a number with a fraction; expected an integer for INT32"),
        ('{"instances": ["1"]}', {"x": I4}, "is a text; expected an integer for INT32"),
        ('{"inputs": [1]}', TWO, "inputs is a plain value/list, but expecting an object"),
        ('{"inputs": {"a": 1}}', TWO, "^Missing named input: b in 'inputs' object.$"),
        ('{"inputs": {"x": ["a"]}}', ONE, "input 'x': 'a' .value 0. is a text"),
        ('{"instances": [[1, 2', ONE, "JSON Parse error"),
    ],
)  # fmt: skip
def test_a_request_that_is_not_right_is_told_so_in_the_words_that_clients_know(
    padding, text, inputs, said
):
    with pytest.raises(Problem, match=said) as caught:
        arrays_of(read_predict((padding + text).encode()), inputs)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_an_empty_body_is_a_problem():
    with pytest.raises(Problem, match="The document is empty"):
        read_predict(b"")


@given(st.data())
def test_a_body_with_flaws_is_read_or_a_problem(data):
    rows = [[{"a": [0.5, 1e5], "b": -1}] * 2, [[1, 2.5], [3, 4]], [{"b64": "AAAA"}, "x"]]
    text = json.dumps({"signature_name": "s", "instances": data.draw(st.sampled_from(rows))})
    body = bytearray(data.draw(st.sampled_from(["", " " * (1 << 14)])).encode() + text.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(-len(text), -1))
        body[at] = data.draw(st.sampled_from(b'0123456789"[]{},:e-. \\\0\xff'))
    for inputs in (TWO, ONE, {"x": TEXT}, {"x": None}):
        try:
            found = arrays_of(read_predict(body), inputs)
        except Problem:
            continue
        assert found.keys() == inputs.keys()


def test_several_outputs_are_objects():
    outputs = {"a": np.array([[1.5], [2.0]], F4), "b": np.array([1, 2])}
    assert json.loads(predict_answer(outputs, is_row=True)) == {
        "predictions": [{"a": [1.5], "b": 1}, {"a": [2.0], "b": 2}]
    }
    assert json.loads(predict_answer(outputs, is_row=False)) == {
        "outputs": {"a": [[1.5], [2.0]], "b": [1, 2]}
    }


def test_outputs_whose_name_ends_in_bytes_are_b64():
    data = np.array([[b"\xff"], [b"a"]], object)
    for outputs in ({"image_bytes": data}, {"image_bytes": data, "n": np.array([1, 2])}):
        for is_row in (True, False):
            text = predict_answer(outputs, is_row=is_row).decode()
            assert '[{"b64":"/w=="}]' in text
    assert (
        predict_answer({"text": np.array([b"a", "b"], object)}, is_row=True)
        == b'{"predictions":["a","b"]}'
    )


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ({"a": np.zeros(2), "b": np.zeros(3)}, "^Tensor name: b has inconsistent batch size: 3 expecting: 2"),
        ({"a": np.zeros(())}, "^Tensor name: a has no shape information"),
        ({"a": np.array([b"\xff"], object)}, "output 'a': bytes that are no text"),
    ],
)  # fmt: skip
def test_outputs_that_rows_cannot_carry_are_a_problem(outputs, said):
    with pytest.raises(Problem, match=said):
        predict_answer(outputs, is_row=True)


def test_no_rows_are_an_answer():
    assert (
        predict_answer({"a": np.zeros((0, 3)), "b": np.zeros(0)}, is_row=True)
        == b'{"predictions":[]}'
    )
    assert predict_answer({"a": np.zeros((0, 3))}, is_row=True) == b'{"predictions":[]}'


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_, np.float16]),
        hnp.array_shapes(max_dims=4, min_side=0, max_side=6),
    ),
    st.data(),
)
def test_answers_that_are_written_together_are_those_that_each_would_get(array, data):
    sizes = []
    while sum(sizes) < len(array):
        sizes.append(data.draw(st.integers(1, len(array) - sum(sizes))))
    together = rows_answers({"y": array}, sizes) if sizes else None
    if together is None:
        assert not array.size  # else the array would cost more, without any sign
    else:
        own = np.split(array, np.cumsum(sizes)[:-1])
        assert together == [predict_answer({"y": rows}, is_row=True) for rows in own]


@pytest.mark.parametrize(
    "outputs",
    [
        {"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)},
        {"a": np.array([b"x", b"y"], object)},
        {"a": np.float32(1)},
        {},
    ],
)
def test_answers_that_are_no_numbers_of_one_output_are_not_written_together(outputs):
    arrays = {name: np.asarray(value) for name, value in outputs.items()}
    assert rows_answers(arrays, [1, 1]) is None


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (b'{"instances": [[1.0, 2.0]]}', [[1.0, 2.0]]),
        (b'{"instances": [5]}', [5]),
        (b'{"instances": [[1.0], [2.0]]}', [[1.0], [2.0]]),
        (b'{"instances": [5, {"x": 1}]}', None),
        (b'{"instances": []}', None),
        (b'{"instances": [{"x": 1}]}', None),
        (b'{"instances": [[1.0]], "signature_name": "s"}', None),
        (b'{"inputs": [[1.0]]}', None),
        (b'{"instances": [null]}', [None]),
        (b'{"instances": [[NaN]]}', None),
        (b'{"instances": [[1.0]]} more', None),
        (b'{"instances": 1}', None),
        (b"[[1.0]]", None),
        (b"{", None),
        (b"", None),
    ],
)
def test_only_what_is_plainly_rows_is_read_with_others(body, rows):
    assert read_rows([body, b'{"instances": [7]}', body]) == [rows, [7], rows]
