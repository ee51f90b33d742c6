import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.open_inference.infer import InferAnswer, InferTensor
from modelflow.wire.open_inference.infer_json import infer_answer, read_infer
from modelflow.wire.problem import Problem
from modelflow.wire.raw_tensor import to_raw
from modelflow.wire.tensor import DATATYPES

# As large as documents for which the parser for large documents is used.
PADDED = pytest.mark.parametrize("padding", ["", " " * (1 << 14)], ids=["small", "large"])
PADS = st.sampled_from(["", " " * (1 << 14)])


def tensors():
    """Draws tensors of every datatype, with a few axes, which may have length 0."""

    def of(name):
        shape = hnp.array_shapes(max_dims=3, min_side=0, max_side=4)
        if name == "BYTES":
            return hnp.arrays(
                "O", shape, elements=st.text(st.characters(codec="utf-8")).map(str.encode)
            )
        if name.startswith("FP"):
            return hnp.arrays(DATATYPES[name], shape, elements=st.floats(-100, 100, width=16))
        return hnp.arrays(DATATYPES[name], shape)

    return st.sampled_from(list(DATATYPES)).flatmap(lambda name: st.tuples(st.just(name), of(name)))


def request(*inputs, **more):
    return json.dumps({"inputs": list(inputs), **more}).encode()


def one(**more):
    return {"name": "x", "shape": [2, 2], "datatype": "FP32", **more}


def texts(array):
    return [item.decode() if isinstance(item, bytes) else item for item in array.ravel().tolist()]


@given(
    st.lists(
        st.tuples(tensors(), st.sampled_from(["nested", "flat", "binary"])), min_size=1, max_size=4
    ),
    PADS,
)
def test_every_datatype_arrives_nested_flat_and_binary(drawn, padding):
    inputs, raw = [], []
    for at, ((datatype, array), form) in enumerate(drawn):
        tensor = {"name": f"x{at}", "shape": list(array.shape), "datatype": datatype}
        if form == "binary":
            raw.append(to_raw(array, datatype, "x"))
            tensor["parameters"] = {"binary_data_size": len(raw[-1])}
        else:
            flat = np.array(texts(array), object)
            tensor["data"] = (
                flat if form == "flat" or not array.size else flat.reshape(array.shape)
            ).tolist()
        inputs.append(tensor)
    head = padding.encode() + request(*inputs)
    found = read_infer(head + b"".join(raw), len(head) if raw else None)
    for at, ((datatype, array), _) in enumerate(drawn):
        came = found.inputs[f"x{at}"]
        np.testing.assert_array_equal(came.array, array)
        assert (came.datatype, came.array.dtype, came.array.shape) == (
            datatype,
            array.dtype,
            array.shape,
        )


@given(st.lists(st.tuples(tensors(), st.booleans()), max_size=3))
def test_an_answer_is_what_a_request_of_its_form_would_be(drawn):
    outputs = tuple(
        InferTensor(f"y{at}", name, array) for at, ((name, array), _) in enumerate(drawn)
    )
    asked = [
        {"name": f"y{at}", "parameters": {"binary_data": binary}}
        for at, (_, binary) in enumerate(drawn)
    ]
    body, length = infer_answer(
        InferAnswer("m", "1", outputs, id="7"),
        read_infer(request(one(data=[0] * 4), outputs=asked)),
    )
    assert (length is not None) == any(binary for _, binary in drawn)
    document = json.loads(body[:length])
    assert (document["model_name"], document["model_version"], document["id"]) == ("m", "1", "7")
    if not drawn:
        assert document["outputs"] == []
        return
    head = json.dumps({"inputs": document["outputs"]}).encode()
    found = read_infer(head + body[length:] if length else head, len(head) if length else None)
    for tensor in outputs:
        np.testing.assert_array_equal(found.inputs[tensor.name].array, tensor.array)


def test_a_binary_tensor_is_a_view_on_what_was_received():
    head = request(one(parameters={"binary_data_size": 16}))
    body = bytearray(head + np.arange(4, dtype=np.float32).tobytes())
    array = read_infer(memoryview(body), len(head)).inputs["x"].array
    assert np.shares_memory(array, np.frombuffer(body, np.uint8))
    assert not array.flags.writeable
    body[-4:] = np.float32(9).tobytes()
    assert array[1, 1] == 9


def test_what_is_asked_for_is_read():
    found = read_infer(
        request(
            one(data=[1, 2, 3, 4], parameters={"k": "v"}),
            id="7",
            parameters={"timeout": 5, "binary_data_output": True},
            outputs=[
                {"name": "a"},
                {"name": "b", "parameters": {"binary_data": False, "classification": 3}},
            ],
        )
    )
    assert (found.id, found.parameters["timeout"], found.inputs["x"].parameters) == (
        "7",
        5,
        {"k": "v"},
    )
    assert list(found.outputs) == ["a", "b"]
    assert (found.outputs["a"].classes, found.outputs["b"].classes) == (0, 3)
    assert [found.is_binary(name) for name in ("a", "b", "c")] == [True, False, True]


def test_bf16_arrives_and_leaves_in_binary():
    head = request(
        {"name": "x", "shape": [2], "datatype": "BF16", "parameters": {"binary_data_size": 4}}
    )
    raw = b"\x80\x3f\x00\xc0"
    found = read_infer(head + raw, len(head))
    assert found.inputs["x"].array.tolist() == [1, -2]
    body, length = infer_answer(InferAnswer("m", "1", (found.inputs["x"],)), found)
    assert body[length:] == raw


LIES = [
    (b"{}", None, "no 'inputs'"),
    (b"[]", None, "list; expected a JSON object"),
    (b"[1]", None, "expected a JSON object"),
    (b"{", None, "JSON Parse error"),
    (request(one(data=[0] * 4)) + b"x", None, "JSON Parse error: more text after"),
    (b'{"inputs": 3}', None, "'inputs' is an integer; expected a list of objects"),
    (b'{"inputs": [1]}', None, "inputs"),
    (b'{"inputs": [[]]}', None, r"inputs\[0\]: list; expected an object with 'name'"),
    (request({"shape": [1]}), None, r"inputs\[0\]: no 'name'"),
    (request({"name": 3}), None, r"inputs\[0\]: 'name' is an integer"),
    (request({"name": "x", "shape": [1], "data": [1]}), None, "input 'x': no 'datatype'"),
    (request({"name": "x", "datatype": "FP32", "data": [1]}), None, "input 'x': no 'shape'"),
    (request(one(datatype="FP33", data=[])), None, "datatype 'FP33'; .*did you mean 'FP32'"),
    (request(one(shape=[-1], data=[])), None, r"shape \[-1\]; expected integers of 0 or more"),
    (request(one(shape=[1.5], data=[])), None, "shape"),
    (request(one(shape="2", data=[])), None, "expected a list of integers"),
    (request(one()), None, "neither of 'data' and binary_data_size"),
    (request(one(data=[], parameters={"binary_data_size": 0})), None, "both 'data' and binary_data_size"),
    (request(one(parameters=[])), None, "'parameters' is list; expected an object"),
    (request(one(data=[1, 2, 3])), None, r"data of shape \[3\] \(3 values\); expected shape \[2, 2\] \(4 values\)"),
    (request(one(data=[[1, 2, 3, 4]])), None, r"data of shape \[1, 4\]"),
    (request(one(data=[[1, 2], [3]])), None, r"1 values at \[1\]; expected 2"),
    (request(one(data=["a"] * 4)), None, "is a text; expected a number for FP32"),
    (request(one(datatype="INT8", data=[1, 2, 3, 300])), None, "300 is out of range of INT8"),
    (request(one(datatype="INT8", data=[1, 2, 3, 0.5])), None, "expected an integer for INT8"),
    (request(one(datatype="BF16", data=[1] * 4)), None, "BF16 as JSON; expected it in binary"),
    (request(one(datatype="BYTES", data=[{"b64": ""}] * 4)), None, "is an object; expected a text"),
    (request(one(data=[0] * 4), one(data=[0] * 4)), None, "input 'x': given twice"),
    (request(one(data=[0] * 4), id=3), None, "'id' is an integer; expected a text"),
    (request(one(data=[0] * 4), outputs=[{}]), None, r"outputs\[0\]: no 'name'"),
    (request(one(data=[0] * 4), outputs=[{"name": "a"}] * 2), None, "output 'a': given twice"),
    (request(one(data=[0] * 4), outputs=[{"name": "a", "parameters": {"binary_data": 1}}]), None, "binary_data 1; expected true or false"),
    (request(one(data=[0] * 4), outputs=[{"name": "a", "parameters": {"classification": -1}}]), None, "classification -1; expected a number"),
    (request(one(data=[0] * 4), parameters={"binary_data_output": "yes"}), None, "binary_data_output 'yes'"),
    (request(one(parameters={"binary_data_size": 16})), None, "binary_data_size 16; the body has 0 bytes left"),
    (request(one(parameters={"binary_data_size": -1})), None, "binary_data_size -1; expected a number of bytes"),
    (request(one(parameters={"binary_data_size": True})), None, "binary_data_size True; expected"),
    (request(one(parameters={"binary_data_size": "16"})), None, "binary_data_size '16'; expected"),
    (b"", None, "Inference-Header-Content-Length: 0; the body has 0 bytes"),
]  # fmt: skip


@PADDED
@pytest.mark.parametrize(("body", "length", "said"), LIES)
def test_each_mistake_of_a_document_is_a_problem(padding, body, length, said):
    with pytest.raises(Problem, match=said):
        read_infer((padding.encode() if body else b"") + body, length)


@pytest.mark.parametrize(
    ("size", "extra", "shift", "said"),
    [
        (16, 15, 0, "binary_data_size 16; the body has 15 bytes left"),
        (16, 17, 0, "1 bytes after the last input"),
        (12, 12, 0, r"12 bytes; expected 16 for FP32 of shape \[2, 2\]"),
        (16, 16, 1, "JSON Parse error"),
        (16, 16, -1, "JSON Parse error"),
        (16, 16, 10**6, "Inference-Header-Content-Length: .*; the body has"),
        (2**60, 16, 0, "the body has 16 bytes left"),
    ],
)
def test_each_lie_about_a_length_is_a_problem(size, extra, shift, said):
    head = request(one(parameters={"binary_data_size": size}))
    with pytest.raises(Problem, match=said):
        read_infer(head + bytes(extra), len(head) + shift)


@pytest.mark.parametrize("length", [0, -1])
def test_a_document_has_a_length(length):
    with pytest.raises(Problem, match=f"Inference-Header-Content-Length: {length}; "):
        read_infer(request(one(data=[0] * 4)), length)


@given(st.data())
def test_a_body_with_flaws_is_read_or_a_problem(data):
    head = request(one(parameters={"binary_data_size": 16}), one(name="y", data=[[1, 2], [3, 4]]))
    body = bytearray(data.draw(PADS).encode() + head + bytes(16))
    length = len(body) - 16
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(-len(head) - 16, -1))
        body[at] = data.draw(st.sampled_from(b'0123456789"[]{},:e-. \\\0\xff'))
    try:
        found = read_infer(body, length)
    except Problem:
        return
    assert found.inputs


def test_limits_hold_for_the_document_alone():
    head = request(one(shape=[1, 400], parameters={"binary_data_size": 1600}))
    read_infer(head + b"[" * 1600, len(head), JsonLimits(depth=5, elements=20))
    with pytest.raises(Problem, match="at most 20 are taken"):
        read_infer(request(one(data=[0] * 30)), None, JsonLimits(elements=20))


def test_messages_stay_short_and_many_inputs_quick():
    for tensor in (
        one(datatype="F" * 10**6),
        one(name="x" * 10**6),
        one(shape=[-1] * 10**5, data=[]),
    ):
        with pytest.raises(Problem) as caught:
            read_infer(request(tensor))
        assert len(str(caught.value)) < 400
    with pytest.raises(Problem, match="input '0': given twice"):
        read_infer(
            request(*(one(name=str(at % 50_000), shape=[0], data=[]) for at in range(50_001)))
        )


def test_parameters_of_an_answer_are_said():
    answer = InferAnswer(
        "m",
        "1",
        (InferTensor("y", "INT8", np.zeros(1, np.int8), {"a": 1}),),
        parameters={"b": True},
    )
    document = json.loads(infer_answer(answer, read_infer(request(one(data=[0] * 4))))[0])
    assert document["parameters"] == {"b": True}
    assert document["outputs"] == [
        {"name": "y", "datatype": "INT8", "shape": [1], "parameters": {"a": 1}, "data": [0]}
    ]
    assert "id" not in document


def test_bytes_that_are_no_text_are_to_be_asked_for_in_binary():
    answer = InferAnswer("m", "1", (InferTensor("y", "BYTES", np.array([b"\xff"], object)),))
    with pytest.raises(Problem, match=r"output 'y': bytes that are no text .*ask for binary"):
        infer_answer(answer, read_infer(request(one(data=[0] * 4))))
