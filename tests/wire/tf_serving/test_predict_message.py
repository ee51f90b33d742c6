import numpy as np
import pytest

from modelflow.wire.problem import Code, Problem
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.tf_serving.predict_message import (
    list_wanted_outputs,
    predict_arrays,
    predict_response,
)
from modelflow.wire.tf_serving.tensor_proto import array_of_proto, fill_proto

ARRAYS = {"a": np.array([[1.5, 2]], np.float32), "b": np.array([b"x"], object)}
TYPES = {name: array.dtype for name, array in ARRAYS.items()}


def request(arrays):
    message = TF_SERVING["tensorflow.serving.PredictRequest"]()
    for name, array in arrays.items():
        fill_proto(message.inputs[name], array)
    return message


def test_inputs_become_arrays():
    for types in (TYPES, dict.fromkeys(TYPES)):
        found = predict_arrays(request(ARRAYS), types)
        assert found.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"a": ARRAYS["a"]}, "input size does not match signature: 1!=2 len({a}) != len({a,b}). Sent extra: {}. Missing but required: {b}."),
        ({**ARRAYS, "c": ARRAYS["a"]}, "input size does not match signature: 3!=2 len({a,b,c}) != len({a,b}). Sent extra: {c}. Missing but required: {}."),
        ({"a": ARRAYS["a"], "c": ARRAYS["a"]}, "input size does not match signature: 2!=2 len({a,c}) != len({a,b}). Sent extra: {c}. Missing but required: {b}."),
        ({**ARRAYS, "a": np.zeros(1)}, "input 'a': dtype DT_DOUBLE; expected DT_FLOAT, as the signature says"),
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit_are_told_so_in_the_words_that_clients_know(arrays, said):
    with pytest.raises(Problem) as caught:
        predict_arrays(request(arrays), TYPES)
    assert str(caught.value) == said
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_filter_chooses_outputs():
    assert list_wanted_outputs([], ["y", "z"]) == ("y", "z")
    assert list_wanted_outputs(["z"], ["y", "z"]) == ("z",)
    with pytest.raises(
        Problem,
        match=r"^output tensor alias not found in signature: q Outputs expected to be in the set {y,z}.$",
    ):
        list_wanted_outputs(["q"], ["z", "y"])
    with pytest.raises(Problem, match=r"^duplicate output tensor alias: y$"):
        list_wanted_outputs(["y", "y"], ["y"])


@pytest.mark.parametrize("as_content", [False, True])
def test_a_response_says_who_answers_and_what(as_content):
    found = predict_response("m", 3, "s", ARRAYS, as_content=as_content)
    assert (
        found.model_spec.name,
        found.model_spec.version.value,
        found.model_spec.signature_name,
    ) == ("m", 3, "s")
    assert bool(found.outputs["a"].tensor_content) == as_content
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(array_of_proto(found.outputs[name], name), array)
