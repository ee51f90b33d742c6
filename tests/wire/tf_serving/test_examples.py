import json

import numpy as np
import pytest

from modelflow.wire.problem import Problem
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.tf_serving.examples import (
    classify_answer,
    examples_of_input,
    read_examples,
    regress_answer,
    serialize,
)

PADDED = pytest.mark.parametrize("padding", ["", " " * (1 << 14)], ids=["small", "large"])


@PADDED
def test_features_are_rows_of_one_of_three_types(padding):
    document = {
        "signature_name": "s",
        "context": {"c": "all", "i": 7},
        "examples": [{"i": [1, 2], "f": 0.5, "t": ["a", {"b64": "/w=="}], "z": True, "n": []}, {}],
    }
    body = read_examples((padding + json.dumps(document)).encode())
    first, second = body.examples
    assert body.signature_name == "s"
    assert {name: (array.dtype.name, array.tolist()) for name, array in first.items()} == {
        "c": ("object", [b"all"]),
        "i": ("int64", [1, 2]),
        "f": ("float32", [0.5]),
        "t": ("object", [b"a", b"\xff"]),
        "z": ("int64", [1]),
        "n": ("int64", []),
    }
    assert second["i"].tolist() == [7]


@PADDED
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "key 'examples' is expected and was not found"),
        ('{"examples": 1}', "Expecting 'examples' value to be an list/array"),
        ('{"examples": []}', "'examples' value is an empty array"),
        ('{"examples": [1]}', "'examples'.* JSON"),
        (
            '{"examples": [{"a": [1, "x"]}]}',
            "'examples'.0., feature 'a': has element with unexpected",
        ),
        ('{"examples": [{"a": null}]}', "unexpected JSON type"),
        ('{"examples": [{"a": [[1]]}]}', "unexpected JSON type"),
        ('{"examples": [{"a": {"b": 1}}]}', "unexpected JSON type"),
        ('{"examples": [{"a": 18446744073709551615}]}', "out of range of INT64"),
        ('{"examples": [{"a": 1e39}]}', "out of range of FP32"),
        ('{"examples": [{"a": 1}], "context": 1}', "'context': Example must be JSON object"),
    ],
)
def test_what_are_no_examples_is_a_problem(padding, text, said):
    with pytest.raises(Problem, match=said):
        read_examples((padding + text).encode())


def test_examples_of_a_message_have_its_context():
    message = TF_SERVING["tensorflow.serving.Input"]()
    with pytest.raises(Problem, match="Input is empty"):
        examples_of_input(message)
    held = message.example_list_with_context
    held.context.features.feature["c"].bytes_list.value.append(b"x")
    feature = held.examples.add().features.feature
    feature["f"].float_list.value.extend([1.5, 2.5])
    feature["i"].int64_list.value.append(3)
    feature["n"].SetInParent()
    (example,) = examples_of_input(message)
    assert {name: array.tolist() for name, array in example.items()} == {
        "c": [b"x"],
        "f": [1.5, 2.5],
        "i": [3],
        "n": [],
    }


def test_an_example_goes_out_as_tensorflow_reads_it():
    body = read_examples(b'{"examples": [{"i": 1, "f": [0.5], "t": "a", "n": []}]}')
    message = TF_SERVING.parse("tensorflow.Example", serialize(body.examples[0]))
    feature = message.features.feature
    assert list(feature["i"].int64_list.value) == [1]
    assert list(feature["f"].float_list.value) == [0.5]
    assert list(feature["t"].bytes_list.value) == [b"a"]
    assert feature["n"].WhichOneof("kind") == "int64_list"


def test_answers_are_results():
    labels = np.array([[b"a", b"b"], [b"c", b"d"]], object)
    scores = np.array([[0.1, 0.9], [1, 0]], np.float32)
    assert (
        classify_answer(labels, scores)
        == b'{"results":[[["a",0.1],["b",0.9]],[["c",1.0],["d",0.0]]]}'
    )
    assert classify_answer(None, scores[:1]) == b'{"results":[[["",0.1],["",0.9]]]}'
    assert classify_answer(labels[:1], None) == b'{"results":[[["a",0.0],["b",0.0]]]}'
    assert regress_answer(np.array([[0.1], [2]], np.float32)) == b'{"results":[0.1,2.0]}'
