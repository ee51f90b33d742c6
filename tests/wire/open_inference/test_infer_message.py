import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modelflow.wire.open_inference.infer import InferAnswer, InferTensor
from modelflow.wire.open_inference.infer_message import infer_message, infer_request
from modelflow.wire.problem import Problem
from modelflow.wire.proto import OPEN_INFERENCE
from modelflow.wire.tensor import DATATYPES

CONTENTS = {
    "BOOL": "bool_contents", "UINT8": "uint_contents", "UINT16": "uint_contents",
    "UINT32": "uint_contents", "UINT64": "uint64_contents", "INT8": "int_contents",
    "INT16": "int_contents", "INT32": "int_contents", "INT64": "int64_contents",
    "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip


def arrays(name):
    shape = hnp.array_shapes(max_dims=3, min_side=0)
    elements = st.binary() if name == "BYTES" else None
    return st.tuples(st.just(name), hnp.arrays(DATATYPES[name], shape, elements=elements))


def message(*inputs, **more):
    return OPEN_INFERENCE["inference.ModelInferRequest"](inputs=inputs, **more)


def one(datatype="FP32", shape=(1,), **contents):
    tensor = {"name": "x", "datatype": datatype, "shape": shape}
    return {**tensor, "contents": contents} if contents else tensor


@given(st.sampled_from(list(DATATYPES)).flatmap(arrays))
def test_an_answer_read_as_a_request_is_the_same_tensor(drawn):
    name, array = drawn
    answer = infer_message(InferAnswer("m", "1", (InferTensor("x", name, array),), id="7"))
    assert (answer.model_name, answer.model_version, answer.id) == ("m", "1", "7")
    output = answer.outputs[0]
    asked = message(
        {"name": output.name, "datatype": output.datatype, "shape": output.shape},
        raw_input_contents=list(answer.raw_output_contents),
    )
    found = infer_request(asked).inputs["x"].array
    np.testing.assert_array_equal(found, array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)


@given(st.sampled_from(list(CONTENTS)).flatmap(arrays))
def test_typed_contents_become_the_array_and_stay_when_the_message_is_gone(drawn):
    name, array = drawn
    asked = message(one(name, array.shape, **{CONTENTS[name]: array.ravel().tolist()}))
    found = infer_request(asked).inputs["x"].array
    asked.Clear()
    del asked
    np.testing.assert_array_equal(found, array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)


def test_names_and_parameters_are_read():
    asked = message(one(fp32_contents=[1]), model_name="m", model_version="2", id="7")
    asked.parameters["timeout"].int64_param = 5
    asked.parameters["text"].string_param = "a"
    asked.parameters["none"].SetInParent()
    asked.inputs[0].parameters["d"].double_param = 0.5
    asked.outputs.add(name="y").parameters["classification"].int64_param = 2
    found = infer_request(asked)
    assert (found.model_name, found.model_version, found.id) == ("m", "2", "7")
    assert found.parameters == {"timeout": 5, "text": "a", "none": None}
    assert found.inputs["x"].parameters == {"d": 0.5}
    assert found.outputs["y"].classes == 2


def test_parameters_are_written():
    parameters = {"a": True, "b": 1, "c": 0.5, "d": "x"}
    answer = infer_message(
        InferAnswer(
            "m",
            "1",
            (InferTensor("y", "FP32", np.zeros(0, np.float32), parameters),),
            parameters=parameters,
        )
    )
    for held in (answer.parameters, answer.outputs[0].parameters):
        assert held["a"].bool_param is True
        assert (held["b"].int64_param, held["c"].double_param, held["d"].string_param) == (
            1,
            0.5,
            "x",
        )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (message(one()), r"0 values in fp32_contents; expected 1 for shape \[1\]"),
        (message(one(fp32_contents=[1, 2])), "2 values in fp32_contents; expected 1"),
        (message(one(shape=(2**24, 2**24), fp32_contents=[1])), "1 values in fp32_contents; expected"),
        (message(one(shape=(-1,), fp32_contents=[1])), r"shape \[-1\]"),
        (message(one("FP31", fp32_contents=[1])), "did you mean 'FP32'"),
        (message(one("FP16", fp32_contents=[1])), "FP16 in contents; expected it in raw_input_contents"),
        (message(one("FP64", fp32_contents=[1])), "values in fp32_contents; expected fp64_contents for FP64"),
        (message(one("INT8", int_contents=[128])), "a value beyond -128 to 127, the range of INT8"),
        (message(one("UINT8", uint_contents=[256])), "a value beyond 0 to 255"),
        (message(one(), raw_input_contents=[b"abc"]), "3 bytes; expected 4"),
        (message(one(), raw_input_contents=[b"abcd", b""]), "2 tensors for 1 inputs"),
        (message(one(), one(), raw_input_contents=[b"abcd"]), "1 tensors for 2 inputs"),
        (message(one(fp32_contents=[1]), raw_input_contents=[b"abcd"], model_name="m"), "contents field must not be specified when using raw_input_contents for 'x' for model 'm'"),
        (message(one(fp32_contents=[1]), one(), raw_input_contents=[b"abcd"]), "contents field must not be specified"),
        (message(one(fp32_contents=[1]), one(fp32_contents=[1])), "given twice"),
    ],
)  # fmt: skip
def test_a_tensor_that_is_not_what_it_says_is_a_problem(asked, said):
    with pytest.raises(Problem, match=said):
        infer_request(asked)
