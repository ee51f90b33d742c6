"""What a model takes and gives at each of its endpoints, described as JSON Schema says it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modelflow.serve.json_schema import (
    Schema,
    example_of,
    infer_schema,
    item_schema,
    items_of,
    object_of,
    outputs_of,
)
from modelflow.serve.model import Model
from modelflow.serve.tensors import served_tensor
from modelflow.wire.datatype import datatype_of
from modelflow.wire.form_data import FORM_DATA
from modelflow.wire.tf_serving.documents import CLASSIFY_METHOD, DEFAULT_SIGNATURE

__all__ = [
    "JSON_TYPE",
    "BodySchema",
    "examples_body",
    "generate_body",
    "infer_body",
    "predict_body",
]

JSON_TYPE = "application/json"
"""The content type of what is JSON."""

_TEXT: Schema = {"type": "string"}
_EVENTS = "text/event-stream"
_BYTES: Schema = {"type": "string", "contentMediaType": "application/octet-stream"}
_MOST_EXAMPLE = 1000  # elements of a value that is written out
_VALUE: Schema = {"type": ["number", "boolean", "string", "object"]}
_FEATURES: Schema = {
    "type": "object",
    "description": "values by the name of a feature: one, or a list of one kind",
    "additionalProperties": {"anyOf": [_VALUE, {"type": "array", "items": _VALUE}]},
}


@dataclass(frozen=True, slots=True)
class BodySchema:
    """A request and its answer.

    Attributes:
        asked: What may be sent.
        answer: What comes back.
        example: A request that is answered; None: none is known, or it is long.
        forms: What may be sent as another content type than JSON.
        answer_type: The content type of the answer.
    """

    asked: Schema
    answer: Schema
    example: Any = None
    forms: Mapping[str, Schema] = field(default_factory=dict)
    answer_type: str = JSON_TYPE


def predict_body(model: Model) -> BodySchema:
    """Describes TensorFlow Serving's ``:predict``, with every signature of the model."""
    asked: list[Schema] = []
    answers: list[Schema] = []
    for one in model.all_signatures():
        inputs, outputs = one.signature.inputs, one.signature.outputs
        rows, columns = (
            outputs_of(inputs, {port.name: make(port) for port in inputs})
            for make in (item_schema, items_of)
        )
        instances: Schema = {"type": "array", "items": rows, "minItems": 1}
        if inputs:
            asked.append(_of_signature([one], "instances", instances))
        asked.append(_of_signature([one], "inputs", columns if inputs else object_of({})))
        rows, columns = (
            outputs_of(outputs, {port.name: make(port) for port in outputs})
            for make in (item_schema, items_of)
        )
        answers += [
            object_of({"predictions": {"type": "array", "items": rows}}),
            object_of({"outputs": columns}),
        ]
    inputs = model.signature.inputs
    values = {port.name: example_of(port.tensor) for port in inputs}
    row = values[inputs[0].name] if len(inputs) == 1 else values
    example: Schema = {"instances": [row]} if inputs else {"inputs": {}}
    return BodySchema({"anyOf": asked}, {"anyOf": answers}, _if_short(model, example))


def examples_body(model: Model, method: str) -> BodySchema:
    """Describes ``:classify`` or ``:regress``; what the features are the model alone knows.

    Args:
        model: What is asked.
        method: Which of the two (TensorFlow Serving's names).
    """
    signatures = [one for one in model.all_signatures() if one.method == method]
    examples: Schema = {"type": "array", "items": _FEATURES, "minItems": 1}
    asked = _of_signature(signatures, "examples", examples, context=_FEATURES)
    scored: Schema = {"type": "array", "prefixItems": [_TEXT, {"type": "number"}], "minItems": 2}
    of_one = {"type": "array", "items": scored} if method == CLASSIFY_METHOD else {"type": "number"}
    return BodySchema(asked, object_of({"results": {"type": "array", "items": of_one}}))


def infer_body(model: Model) -> BodySchema:
    """Describes Open Inference's ``infer``."""
    inputs, outputs = model.signature.inputs, model.signature.outputs
    asked = {
        "type": "object",
        "properties": {
            "id": _TEXT,
            "parameters": {"type": "object"},
            "inputs": infer_schema(inputs),
            "outputs": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        },
        "required": ["inputs"],
    }
    answer = {
        "type": "object",
        "properties": {
            "model_name": _TEXT,
            "model_version": _TEXT,
            "id": _TEXT,
            "outputs": infer_schema(outputs),
        },
        "required": ["model_name", "outputs"],
    }
    tensors = []
    for port in inputs:
        tensor = served_tensor(port)
        shape = (None,) if tensor is None or tensor.shape is None else tensor.shape
        tensors.append(
            {
                "name": port.name,
                "shape": [1 if extent is None else extent for extent in shape],
                "datatype": "BYTES" if tensor is None else datatype_of(tensor.dtype),
                "data": ["text"] if tensor is None else example_of(tensor),
            }
        )
    return BodySchema(asked, answer, _if_short(model, {"inputs": tensors}))


def generate_body(model: Model, *, is_stream: bool) -> BodySchema:
    """Describes ``generate``, or ``generate_stream``."""
    inputs, outputs = model.signature.inputs, model.signature.outputs
    asked = object_of({port.name: item_schema(port) for port in inputs})
    example = {port.name: example_of(port.tensor) for port in inputs}
    takes_bytes = {port.name: port.tensor is None or port.tensor.dtype == object for port in inputs}
    forms: dict[str, Schema] = {
        FORM_DATA: object_of(
            {port.name: _BYTES if takes_bytes[port.name] else item_schema(port) for port in inputs}
        )
    }
    if [*takes_bytes.values()] == [True]:
        forms["application/octet-stream"] = {}
    answer = object_of(
        {port.name: item_schema(port) if port.is_single else {"type": "array"} for port in outputs}
    )
    if is_stream:
        text = 'data: {"output": value}, an event for each buffer; data: {"error": text} ends it'
        return BodySchema(
            asked, {**_TEXT, "description": text}, _if_short(model, example), forms, _EVENTS
        )
    return BodySchema(asked, answer, _if_short(model, example), forms)


def _of_signature(signatures: Sequence[Model], key: str, schema: Schema, **more: Schema) -> Schema:
    """The object of a request for one of some signatures; only the default one needs no name."""
    names = [one.signature_name for one in signatures]
    is_default = DEFAULT_SIGNATURE in names
    named: Schema = {"enum": [*names, ""] if is_default else names}
    return {
        "type": "object",
        "properties": {key: schema, "signature_name": named, **more},
        "required": [key] if is_default else [key, "signature_name"],
        "additionalProperties": False,
    }


def _if_short(model: Model, example: Any) -> Any:
    tensors = (port.tensor for port in model.signature.inputs)
    shapes = [one.shape or () for one in tensors if one is not None]
    return example if all(_elements(shape) <= _MOST_EXAMPLE for shape in shapes) else None


def _elements(shape: Iterable[int | None]) -> int:
    return math.prod(extent or 1 for extent in shape)
