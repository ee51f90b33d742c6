"""Tests of requests' arrays as items, and of buffers as arrays again."""

import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.graph.graph_port import GraphPort, Signature
from modelflow.serve.requests.rows import as_bytes, items_of, values_of
from modelflow.wire.problem import Problem
from modelflow.wire.tensor import TensorSpec


def port(name="x", dtype=np.float32, shape=None, **more):
    tensor = None if dtype is None else TensorSpec(name, np.dtype(dtype), shape)
    return GraphPort(name, "", tensor, is_single=True, **more)


def signature(*ports):
    return Signature(ports, ())


def test_a_batched_array_is_cut_into_items_a_row_each():
    batch = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    items = items_of(signature(port(shape=(3,))), {"x": batch})
    assert [item.tolist() for item in items["x"]] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert all(np.shares_memory(item, batch) for item in items["x"])


def test_bytes_are_items_themselves():
    texts = np.array([b"a", b"bc"], dtype=object)
    assert items_of(signature(port(dtype=object, shape=())), {"x": texts}) == {"x": [b"a", b"bc"]}


def test_an_input_that_is_not_batched_is_one_item():
    whole = np.zeros((4, 4), np.float32)
    items = items_of(signature(port(shape=(4, 4), is_batched=False)), {"x": whole})
    assert len(items["x"]) == 1
    assert items["x"][0] is whole


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, r"does not match signature: 0!=1 .*Missing but required: \{x\}"),
        ({"x": np.zeros(1), "y": np.zeros(1)}, r"2!=1 .*Sent extra: \{y\}"),
        ({"x": np.float32(1)}, "got one value; expected a list"),
        ({"x": np.zeros((2, 4))}, r"got items of shape \(4,\); expected \(3,\)"),
        ({"x": np.zeros((2, 3, 1))}, r"got items of shape \(3, 1\); expected \(3,\)"),
    ],
    ids=["missing", "extra", "scalar", "length", "axes"],
)
def test_what_does_not_fit_says_so(arrays, message):
    with pytest.raises(Problem, match=message):
        items_of(signature(port(shape=(3,))), arrays)


def test_a_free_axis_takes_any_length():
    items = items_of(signature(port(shape=(None, 2))), {"x": np.zeros((1, 7, 2), np.float32)})
    assert items["x"][0].shape == (7, 2)


def test_batched_inputs_have_as_many_rows_as_one_another():
    with pytest.raises(Problem, match="'x' has 2, 'y' has 3"):
        items_of(signature(port("x"), port("y")), {"x": np.zeros(2), "y": np.zeros(3)})


def buffers(*values):
    return [Buffer(value) for value in values]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((np.zeros(3), np.ones(3)), [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]),
        ((1.5, 2.5), [1.5, 2.5]),
        ((np.float32(1), np.float32(2)), [1.0, 2.0]),
        ((b"a", "ä"), [b"a", "ä".encode()]),
    ],
    ids=["arrays", "numbers", "scalars", "texts"],
)
def test_buffers_of_one_shape_are_one_array(values, expected):
    found = values_of(port(), buffers(*values))
    assert isinstance(found, np.ndarray)
    assert found.tolist() == expected


@pytest.mark.parametrize("dtype", [None, object])
def test_buffers_of_different_shapes_stay_a_list(dtype):
    found = values_of(port(dtype=dtype), buffers(np.zeros(2), np.zeros(3)))
    assert [array.shape for array in found] == [(2,), (3,)]


@pytest.mark.parametrize("given", [(np.zeros(2), np.zeros(3)), ([1.0, 2.0], [1.0, 2.0, 3.0])])
@pytest.mark.parametrize("shape", [(2,), (None,), None])
def test_buffers_of_different_shapes_are_no_tensor_of_numbers(given, shape):
    """Tests outputs that were once sent as JSON texts in spite of the metadata."""
    with pytest.raises(Problem, match=r"output 'x': its 2 items have different shapes, \(2,\), "):
        values_of(port(shape=shape), buffers(*given))


@pytest.mark.parametrize("is_batched", [True, False])
def test_a_list_of_numbers_is_the_array_that_the_output_is_said_to_be(is_batched):
    found = values_of(port(shape=(2,), is_batched=is_batched), buffers([1, 2.5]))
    assert found.dtype == np.float32
    assert found.tolist() == ([[1.0, 2.5]] if is_batched else [1.0, 2.5])


def test_what_is_no_array_stays_what_it_is():
    assert values_of(port(), buffers({"box": [1, 2]}, [])) == [{"box": [1, 2]}, []]


def test_nothing_has_the_type_of_the_output():
    found = values_of(port(dtype=np.int64, shape=(None, 4)), [])
    assert (found.shape, found.dtype) == ((0, 0, 4), np.int64)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.zeros((2, 2)), [[0.0, 0.0], [0.0, 0.0]]), (3, 3), ("ä", "ä".encode())],
)
def test_an_output_that_is_not_batched_is_its_only_buffer(value, expected):
    found = values_of(port(is_batched=False), buffers(value))
    assert found.tolist() == expected


def test_a_value_that_is_no_array_is_json_in_bytes():
    value = {"scores": np.array([0.5]), "count": np.int64(2), "name": b"x"}
    assert as_bytes(value) == b'{"scores": [0.5], "count": 2, "name": "x"}'
    with pytest.raises(ValueError, match="got object; expected data that JSON can hold"):
        as_bytes(object())
