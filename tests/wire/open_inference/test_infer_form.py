"""Tests of infer requests as form and data: joined requests equal requests parsed as a whole."""

import json
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.open_inference.infer_form import cut_infer, join_data
from modelflow.wire.open_inference.infer_json import read_infer
from modelflow.wire.problem import Problem

LIMITS = JsonLimits()
VALUES = st.sampled_from([0, 1, -3, 1.5, 1e39, 300, True, None, "1", "]]", [1], {"data": [1]}])


def _nest(values, shape):
    for extent in reversed(shape[1:]):
        values = [values[at : at + extent] for at in range(0, len(values), max(1, extent))]
    return values


@st.composite
def documents(draw):
    """Requests as JSON: mostly valid, with optional members around the data."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    count = int(np.prod(shape)) + draw(st.sampled_from([0] * 8 + [-1, 1]))
    values = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    if values and draw(st.integers(0, 4)) == 0:
        values[draw(st.integers(0, len(values) - 1))] = draw(VALUES)
    datatype = draw(st.sampled_from(["FP32"] * 4 + ["FP64", "INT8", "UINT64", "BOOL", "BYTES"]))
    data = draw(st.sampled_from([values, _nest(values, shape), _nest(values, shape[::-1])]))
    tensor: dict[str, Any] = {"name": "x", "datatype": datatype, "shape": shape, "data": data}
    if draw(st.booleans()):
        tensor["parameters"] = draw(st.sampled_from([{}, {"data": [1]}, {"a": '"data": [[2]]'}]))
    keys = draw(st.permutations([*tensor]))
    document = {"inputs": [{key: tensor[key] for key in keys}]}
    if draw(st.booleans()):
        document["id"] = draw(st.sampled_from(["", "a", '"data":[1]', 5]))
    if draw(st.booleans()):
        document["outputs"] = [{"name": "y", "parameters": {"binary_data": True}}]
    if draw(st.integers(0, 4)) == 0:
        document["inputs"].append({**tensor, "name": draw(st.sampled_from(["x", "z"]))})
    document = {key: document[key] for key in draw(st.permutations([*document]))}
    indent = draw(st.sampled_from([None, None, 1]))
    separators = draw(st.sampled_from([None, (",", ":"), (" , ", " : ")]))
    return json.dumps(document, indent=indent, separators=separators).encode()


def _without_arrays(request):
    inputs = {name: replace(one, array=None) for name, one in request.inputs.items()}
    return replace(request, inputs=inputs)


@given(body=documents())
def test_form_and_data_together_mean_what_the_body_means_as_a_whole(body):
    cut = cut_infer(body, None, LIMITS)
    try:
        joined = None if cut is None else join_data([cut])
    except Problem:
        joined = None
    if joined is None:
        return  # the body is parsed as a whole
    whole = read_infer(body, None, LIMITS)
    ((_, tensor),) = whole.inputs.items()
    assert (joined.dtype, joined.shape) == (tensor.array.dtype, tensor.array.shape)
    np.testing.assert_array_equal(joined, tensor.array)
    assert _without_arrays(cut.form) == _without_arrays(whole)


PLAIN = '{"inputs":[{"name":"x","datatype":"FP32","shape":[2,2],"data":%s}],"id":"%s"}'


def _cut(data, name="a"):
    return cut_infer((PLAIN % (data, name)).encode(), None, LIMITS)


def test_rows_of_several_requests_are_joined_and_each_keeps_its_id():
    requests = [_cut("[[1,2],[3,4]]"), _cut("[[5,6],[7,8]]", "b")]
    assert join_data(requests).tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert [request.form.id for request in requests] == ["a", "b"]


def test_flat_data_and_nested_data_are_of_different_kinds():
    assert _cut("[1,2,3,4]").kind != _cut("[[1,2],[3,4]]").kind
    assert join_data([_cut("[1,2,3,4]")]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "data", ["[[1,2]]", "[[1,2,3],[4,5,6]]", "[[[1,2],[3,4]]]", '[["1",2],[3,4]]']
)
def test_data_that_do_not_fit_their_shape_are_not_joined(data):
    with pytest.raises(Problem):
        join_data([_cut("[[1,2],[3,4]]"), _cut(data)])


def test_tensors_in_binary_are_joined():
    rows = np.arange(4, dtype=np.float32).reshape(2, 2)
    tensor: dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": [2, 2]}
    tensor["parameters"] = {"binary_data_size": rows.nbytes}
    head = json.dumps({"inputs": [tensor]}).encode()
    cut = [cut_infer(head + (rows + i).tobytes(), len(head), LIMITS) for i in range(2)]
    np.testing.assert_array_equal(join_data(cut), np.concatenate([rows, rows + 1]))
    assert cut_infer(head + rows.tobytes()[1:], len(head), LIMITS) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"inputs":[{"data":[1]}]}',
        b'{"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"data":["a"]}]}',
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[-1],"data":[1]}]}',
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[999999999999999],"data":[1]}]}',
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1.5],"data":[1]}]}',
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}],"id":"%b"}'
        % (b"a" * 4000),
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]',
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1],"data":[2]}]}',
    ],
)
def test_other_bodies_are_left_to_be_read_as_a_whole(body):
    assert cut_infer(body, None, LIMITS) is None


def test_limits_count_the_whole_document():
    body = (PLAIN % ("[[1,2],[3,4]]", "a")).encode()
    assert cut_infer(body, None, JsonLimits(depth=5)) is not None
    assert cut_infer(body, None, JsonLimits(depth=4)) is None
    assert cut_infer(body, None, JsonLimits(elements=4)) is None


def test_what_is_kept_of_a_request_is_little_whatever_it_says():
    cut_infer((PLAIN % ("[1]", "a")).encode().replace(b"[2,2]", b"[1]"), None, LIMITS)
    bodies = [
        (PLAIN % ("[1]", number)).replace("[2,2]", shape).encode()
        for number, shape in enumerate(['[9000000,"a"]', "[9000000,[0]]", "[9000000]"])
    ]
    tracemalloc.start()
    try:
        found = [cut_infer(body, None, LIMITS) for body in bodies]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 20
    assert found[:2] == [None, None]
    assert found[2] is not None
    with pytest.raises(Problem, match="the number of elements does not fit the shape"):
        join_data([found[2]])
