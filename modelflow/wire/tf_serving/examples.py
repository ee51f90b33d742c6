"""Classify and regress requests: examples with named features, and the answers.

An example maps the name of a feature to its values, always in one row. The values are int64,
float32 or bytes (objects).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.json_to_array import array_of, is_b64, json_type
from modelflow.wire.json_writer import json_of
from modelflow.wire.problem import refuse, shorten
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.tf_serving.predict import read_object, signature_name

Example = Mapping[str, "npt.NDArray[Any]"]


@dataclass(frozen=True, slots=True)
class ExamplesBody:
    """A request of ``:classify`` or ``:regress``.

    Attributes:
        signature_name: The signature of the request. Empty for the default one.
        examples: One or more examples. Each includes the features of the request's ``context``.
    """

    signature_name: str
    examples: tuple[Example, ...]


def read_examples(body: bytes | memoryview, limits: JsonLimits | None = None) -> ExamplesBody:
    """Reads the body of ``:classify`` or ``:regress``.

    Raises:
        Problem: The body is no JSON, or has not the form of a request.
    """
    document = read_object(body, limits)
    name = signature_name(document)
    context = _example(document["context"], "'context'") if "context" in document else {}
    if "examples" not in document:
        refuse("JSON Value: When method is classify, key 'examples' is expected and was not found")
    found = document["examples"]
    if isinstance(found, np.ndarray):
        found = found.tolist()
    if not isinstance(found, list):
        refuse(
            f"JSON Value: Expecting 'examples' value to be an list/array; it is {json_type(found)}"
        )
    if not found:
        refuse("JSON Value: 'examples' value is an empty array")
    examples = (_example(value, f"'examples'[{at}]") for at, value in enumerate(found))
    return ExamplesBody(name, tuple({**context, **example} for example in examples))


def examples_of_input(message: Any) -> tuple[Example, ...]:
    """Returns the examples of a ``tensorflow.serving.Input``.

    Raises:
        Problem: The message has no examples.
    """
    kind = message.WhichOneof("kind")
    held = getattr(message, kind) if kind else None
    if held is None or not held.examples:
        refuse("Input is empty: expected one example or more")
    context = _of_features(held.context) if kind == "example_list_with_context" else {}
    return tuple({**context, **_of_features(example)} for example in held.examples)


def serialize(example: Example) -> bytes:
    """Serializes an example as a ``tensorflow.Example``, the input of such models."""
    message = TF_SERVING["tensorflow.Example"]()
    for name, values in example.items():
        feature = message.features.feature[name]
        kind = {"f": "float_list", "O": "bytes_list"}.get(values.dtype.kind, "int64_list")
        held = getattr(feature, kind)
        held.SetInParent()
        held.value.extend(values.tolist())
    return bytes(message.SerializeToString(deterministic=True))


def classify_answer(labels: npt.NDArray[Any] | None, scores: npt.NDArray[Any] | None) -> bytes:
    """Returns the document that answers ``:classify``.

    Args:
        labels: Texts, (examples, classes). None if the model returns no labels.
        scores: Numbers, (examples, classes). None if the model returns no scores.
    """
    one = labels if labels is not None else scores
    assert one is not None  # a classification has labels, scores or both
    texts = np.full(one.shape, "") if labels is None else labels
    numbers = np.zeros(one.shape, np.float32) if scores is None else scores
    rows = [
        [[label, score] for label, score in zip(row, row_scores, strict=True)]
        for row, row_scores in zip(texts.tolist(), numbers, strict=True)
    ]
    return json_of({"results": rows})


def regress_answer(values: npt.NDArray[Any]) -> bytes:
    """Returns the document that answers ``:regress``, with one value for each example."""
    return json_of({"results": values.reshape(-1)})


def _example(value: Any, where: str) -> dict[str, npt.NDArray[Any]]:
    if not isinstance(value, dict):
        refuse(f"{where}: Example must be JSON object but got JSON {json_type(value)}")
    return {
        name: _feature(held, f"{where}, feature {shorten(name)}") for name, held in value.items()
    }


def _feature(value: Any, where: str) -> npt.NDArray[Any]:
    """Converts the values of a feature: a single value or a list, all of one kind."""
    if isinstance(value, np.ndarray):
        kinds: set[type] = {float if value.dtype.kind == "f" else int}
    else:
        values: Sequence[Any] = value if isinstance(value, list) else [value]
        kinds = {bytes if is_b64(one) or type(one) is str else type(one) for one in values}
        # Booleans are integers here.
        value = [int(one) if type(one) is bool else one for one in values]
        kinds = {int if kind is bool else kind for kind in kinds}
    wanted = _KINDS.get(next(iter(kinds), int)) if len(kinds) < 2 else None
    if wanted is None:
        refuse(
            f"{where}: has element with unexpected JSON type; expected numbers (all with or all "
            "without a fraction), texts, or one of these alone"
        )
    array = array_of(value, wanted, where)
    if array.ndim != 1:
        refuse(f"{where}: has element with unexpected JSON type: Array")
    return array


_KINDS: Mapping[type, np.dtype[Any]] = {
    int: np.dtype(np.int64),
    float: np.dtype(np.float32),
    bytes: np.dtype(np.object_),
}


def _of_features(example: Any) -> dict[str, npt.NDArray[Any]]:
    features: dict[str, npt.NDArray[Any]] = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        if kind == "bytes_list":
            array = np.empty(len(feature.bytes_list.value), np.object_)
            array[:] = list(feature.bytes_list.value)
        elif kind == "float_list":
            array = np.asarray(feature.float_list.value, np.float32)
        else:  # a feature without a kind has no values
            array = np.asarray(feature.int64_list.value, np.int64)
        features[name] = array
    return features
