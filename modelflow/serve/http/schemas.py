"""The JSON of a model's inputs, outputs and endpoints, as JSON Schema and as text."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np

from modelflow.files.unix_socket import PREFIX, is_unix
from modelflow.graph.graph_port import GraphPort, Signature
from modelflow.serve.requests.model import Model
from modelflow.serve.requests.rows import describe_tensor
from modelflow.wire.form_data import FORM_DATA
from modelflow.wire.tensor import TensorSpec, datatype_of, shape_text
from modelflow.wire.tf_serving.documents import CLASSIFY_METHOD, DEFAULT_SIGNATURE

Schema = Mapping[str, Any]

_B64: Schema = {
    "type": "object",
    "description": "bytes, in base64",
    "properties": {"b64": {"type": "string", "contentEncoding": "base64"}},
    "required": ["b64"],
}
_TEXT: Schema = {"oneOf": [{"type": "string"}, _B64]}
_FORMATS = {"float32": "float", "float64": "double", "int32": "int32", "int64": "int64"}
_PARAMETERS: Schema = {"type": "object", "additionalProperties": True}


def item_schema(port: GraphPort) -> Schema:
    """Returns the schema of one item of a port."""
    return _describe(_nest(port.tensor), port)


def items_of(port: GraphPort) -> Schema:
    """Returns the schema of a port's values in a whole request. A batch axis is axis 0."""
    return _describe(_nest(describe_tensor(port)), port)


def object_of(schemas: Mapping[str, Schema]) -> Schema:
    """Returns the schema of an object with exactly the given keys."""
    return {
        "type": "object",
        "properties": dict(schemas),
        "required": [*schemas],
        "additionalProperties": False,
    }


def infer_schema(ports: Iterable[GraphPort]) -> Schema:
    """Returns the schema of the list of tensors in an infer request or its reply."""
    return {"type": "array", "items": {"anyOf": [_tensor(port) for port in ports]}, "minItems": 1}


def outputs_of(ports: Sequence[GraphPort], schema: Mapping[str, Schema]) -> Schema:
    """Returns the schema of a single port's value, or of an object with several values."""
    return schema[ports[0].name] if len(ports) == 1 else object_of(schema)


def example_of(tensor: TensorSpec | None) -> Any:
    """Returns zeros of a tensor's shape as JSON. A free axis gets length 1."""
    if tensor is None or tensor.dtype == object:
        value: Any = "text"
    else:
        value = False if tensor.dtype.kind == "b" else 0.0 if tensor.dtype.kind == "f" else 0
    for extent in reversed((tensor.shape or ()) if tensor is not None else ()):
        value = [value] * (1 if extent is None else extent)
    return value


def _describe(schema: Schema, port: GraphPort) -> Schema:
    return {**schema, "description": port.description} if port.description else schema


def _tensor(port: GraphPort) -> Schema:
    tensor = describe_tensor(port)
    axes = {"type": "array", "items": {"type": "integer", "minimum": 0}}
    known: dict[str, Schema] = {
        "name": {"const": port.name},
        "shape": axes,
        "datatype": {"type": "string"} if tensor is None else {"const": datatype_of(tensor.dtype)},
        "data": {"type": "array", "description": "nested as the shape says, or flat"},
        "parameters": _PARAMETERS,
    }
    if tensor is not None and tensor.shape is not None:
        known["shape"] = {
            "type": "array",
            "prefixItems": [
                {"type": "integer", "minimum": 0} if extent is None else {"const": extent}
                for extent in tensor.shape
            ],
            "minItems": len(tensor.shape),
            "maxItems": len(tensor.shape),
        }
    required = ["name", "shape", "datatype"]
    return _describe({"type": "object", "properties": known, "required": required}, port)


def _nest(tensor: TensorSpec | None) -> Schema:
    if tensor is None:
        return {}
    if tensor.shape is None:
        return {"description": f"{datatype_of(tensor.dtype)} of any shape"}
    schema = _element(tensor.dtype)
    for extent in reversed(tensor.shape):
        length = {} if extent is None else {"minItems": extent, "maxItems": extent}
        schema = {"type": "array", "items": schema, **length}
    return schema


def _element(dtype: np.dtype[Any]) -> Schema:
    if dtype.kind == "O":
        return _TEXT
    if dtype.kind == "b":
        return {"type": "boolean"}
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        bounds = {"minimum": int(info.min), "maximum": int(info.max)}
        form = {"format": _FORMATS[dtype.name]} if dtype.name in _FORMATS else {}
        return {"type": "integer", **bounds, **form}
    return {"type": "number", "format": _FORMATS.get(dtype.name, "float")}


JSON_TYPE = "application/json"
"""The content type of JSON."""

_STRING: Schema = {"type": "string"}
_EVENTS = "text/event-stream"
_BYTES: Schema = {"type": "string", "contentMediaType": "application/octet-stream"}
_MOST_EXAMPLE = 1000  # the most elements of an example value
_VALUE: Schema = {"type": ["number", "boolean", "string", "object"]}
_FEATURES: Schema = {
    "type": "object",
    "description": "values by feature name: a value, or a list of values of one kind",
    "additionalProperties": {"anyOf": [_VALUE, {"type": "array", "items": _VALUE}]},
}


@dataclass(frozen=True, slots=True)
class BodySchema:
    """The schemas of a request and its reply.

    Attributes:
        asked: The schema of the request.
        answer: The schema of the reply.
        example: A valid request, or None if unknown or too long.
        forms: The schemas of the request in other content types than JSON.
        answer_type: The content type of the reply.
    """

    asked: Schema
    answer: Schema
    example: Any = None
    forms: Mapping[str, Schema] = field(default_factory=dict)
    answer_type: str = JSON_TYPE


def predict_body(model: Model) -> BodySchema:
    """Returns the schemas of TensorFlow Serving's ``:predict`` for every signature."""
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
    """Returns the schemas of ``:classify`` or ``:regress``.

    The features have no schema, because only the model knows them.

    Args:
        model: The model.
        method: The method, in TensorFlow Serving's names.
    """
    signatures = [one for one in model.all_signatures() if one.method == method]
    examples: Schema = {"type": "array", "items": _FEATURES, "minItems": 1}
    asked = _of_signature(signatures, "examples", examples, context=_FEATURES)
    scored: Schema = {"type": "array", "prefixItems": [_STRING, {"type": "number"}], "minItems": 2}
    of_one = {"type": "array", "items": scored} if method == CLASSIFY_METHOD else {"type": "number"}
    return BodySchema(asked, object_of({"results": {"type": "array", "items": of_one}}))


def infer_body(model: Model) -> BodySchema:
    """Returns the schemas of Open Inference's ``infer``."""
    inputs, outputs = model.signature.inputs, model.signature.outputs
    asked = {
        "type": "object",
        "properties": {
            "id": _STRING,
            "parameters": {"type": "object"},
            "inputs": infer_schema(inputs),
            "outputs": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        },
        "required": ["inputs"],
    }
    answer = {
        "type": "object",
        "properties": {
            "model_name": _STRING,
            "model_version": _STRING,
            "id": _STRING,
            "outputs": infer_schema(outputs),
        },
        "required": ["model_name", "outputs"],
    }
    tensors = []
    for port in inputs:
        tensor = describe_tensor(port)
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
    """Returns the schemas of ``generate`` or ``generate_stream``."""
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
            asked, {**_STRING, "description": text}, _if_short(model, example), forms, _EVENTS
        )
    return BodySchema(asked, answer, _if_short(model, example), forms)


def _of_signature(signatures: Sequence[Model], key: str, schema: Schema, **more: Schema) -> Schema:
    """Returns the schema of a request for any of the signatures.

    The request must name the signature, unless the default signature is among them.
    """
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


_MOST = 16  # the most elements that a ``curl`` call contains inline


def description(name: str, version: int, signature: Signature, address: str) -> str:
    """Returns a readable text with the inputs, the outputs and a ``curl`` call.

    Args:
        name: The name of the model.
        version: The version of the model.
        signature: The inputs and outputs.
        address: The URL of the server: ``http://127.0.0.1:8501``.
    """
    return "\n".join(_lines(name, version, signature, address))


def _lines(name: str, version: int, signature: Signature, address: str) -> Iterator[str]:
    yield f"{name}, version {version}"
    for side, ports in (("input", signature.inputs), ("output", signature.outputs)):
        for port in ports:
            meaning = f"  {port.description}" if port.description else ""
            yield f"  {side:<6} {port.name}: {_type_text(port)}{meaning}"
    yield f"  {_call(name, signature, address)}"


def _type_text(port: GraphPort) -> str:
    tensor = describe_tensor(port)
    if tensor is None:
        return "any type"
    shape = "" if tensor.shape is None else f" {shape_text(tensor.shape)}"
    labels = f", {len(port.labels)} labels" if port.labels else ""
    return f"{datatype_of(tensor.dtype)}{shape}{labels}"


def _call(name: str, signature: Signature, address: str) -> str:
    """Returns a ``curl`` call for one item, with short data inline and long data from a file."""
    if is_unix(address):
        address = f"--unix-socket {address.removeprefix(PREFIX)} http://localhost"
    model = f"{address}/v2/models/{quote(name)}"
    one = signature.inputs[0] if len(signature.inputs) == 1 else None
    if one is not None and (one.tensor is None or one.tensor.dtype == object):
        return (
            f"curl --data-binary @FILE -H 'Content-Type: application/octet-stream' {model}/generate"
        )
    if all(_is_short(port.tensor) for port in signature.inputs):
        items = {port.name: example_of(port.tensor) for port in signature.inputs}
        return f"curl -d '{json.dumps(items)}' {model}/generate"
    if one is not None:
        return f"curl --data-binary @FILE -H 'Inference-Header-Content-Length: 0' {model}/infer"
    return f"curl -d @FILE {model}/generate"


def _is_short(tensor: TensorSpec | None) -> bool:
    elements = 1
    for extent in (tensor.shape or ()) if tensor is not None else ():
        elements *= extent or 1
    return elements <= _MOST
