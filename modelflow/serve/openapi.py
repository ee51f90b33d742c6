"""OpenAPI 3.1: what there is to ask, each model with its own types."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import modelflow
from modelflow.serve.json_schema import (
    Schema,
    example_of,
    infer_schema,
    item_schema,
    items_of,
    object_of,
    outputs_of,
)
from modelflow.serve.models import Models
from modelflow.serve.served_model import ServedModel
from modelflow.serve.tensors import served_tensor
from modelflow.wire.datatype import datatype_of

__all__ = ["openapi_document"]

Operation = Mapping[str, Any]

_TEXT: Schema = {"type": "string"}
_ERROR: Schema = {"$ref": "#/components/responses/Error"}
_KEYS: Mapping[str, Schema] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}
_DESCRIPTION = (
    "Models, for the clients of TensorFlow Serving (/v1) and of the Open Inference Protocol (/v2). "
    "Over gRPC the same is asked of tensorflow.serving.PredictionService, "
    "tensorflow.serving.ModelService and inference.GRPCInferenceService, where it is on."
)
_MOST_EXAMPLE = 1000  # elements of a value that is written out


def openapi_document(models: Models, *, has_keys: bool, is_repository_open: bool) -> dict[str, Any]:
    """Returns the description of a server.

    Args:
        models: What is served at this moment.
        has_keys: API keys are asked for.
        is_repository_open: Clients may load and unload models.
    """
    paths = dict(_of_server(is_repository_open=is_repository_open))
    for name in sorted({model.name for model in models}):
        newest, *older = models.versions(name)
        for model, place in ((newest, ""), *((one, f"/versions/{one.version}") for one in older)):
            paths |= dict(_of_model(model, place))
    error = {"description": "what is wrong", "content": _json(object_of({"error": _TEXT}))}
    components: dict[str, Any] = {"responses": {"Error": error}}
    security: dict[str, Any] = {}
    if has_keys:
        components["securitySchemes"] = dict(_KEYS)
        security = {"security": [{name: []} for name in _KEYS]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "modelflow",
            "version": modelflow.__version__,
            "description": _DESCRIPTION,
        },
        "servers": [{"url": "/"}],
        **security,
        "paths": paths,
        "components": components,
    }


def _of_server(*, is_repository_open: bool) -> Iterator[tuple[str, Operation]]:
    free: Mapping[str, Any] = {"security": []}
    for path, summary in (
        ("/livez", "Whether the server runs"),
        ("/readyz", "Whether everything that was asked for is loaded"),
        ("/v2/health/live", "Whether the server runs"),
        ("/v2/health/ready", "Whether everything that was asked for is loaded"),
    ):
        yield path, {"get": {**_operation(summary, "server", path, None), **free}}
    yield "/v2", {"get": _operation("What the server is", "server", "/v2", {"type": "object"})}
    metrics = {"200": {"description": "for Prometheus", "content": {"text/plain": {}}}}
    about = _operation("Figures", "server", "/metrics", None)
    yield "/metrics", {"get": {**about, "responses": {**about["responses"], **metrics}}}
    rows = {"type": "array", "items": {"type": "object"}}
    index = "/v2/repository/index"
    yield index, {"post": _operation("What is served, and how it fares", "repository", index, rows)}
    if is_repository_open:
        for action in ("load", "unload"):
            path = f"/v2/repository/models/{{name}}/{action}"
            name = {"name": "name", "in": "path", "required": True, "schema": _TEXT}
            about = _operation(f"{action.title()}s a model", "repository", path, None)
            yield path, {"post": {**about, "parameters": [name]}}


def _of_model(model: ServedModel, place: str) -> Iterator[tuple[str, Operation]]:
    rest = f"/v1/models/{quote(model.name, safe='')}{place}"
    oip = f"/v2/models/{quote(model.name, safe='')}{place}"
    tag = model.name
    document: Schema = {"type": "object"}
    for path, summary, answer in (
        (rest, "How the model fares (TensorFlow Serving)", document),
        (f"{rest}/metadata", "Inputs and outputs (TensorFlow Serving)", document),
        (oip, "Inputs and outputs (Open Inference)", document),
        (f"{oip}/ready", "Whether the model answers", None),
    ):
        yield path, {"get": _operation(summary, tag, path, answer)}
    for path, summary, (asked, answer, example) in (
        (f"{rest}:predict", "Predict (TensorFlow Serving)", _predict(model)),
        (f"{oip}/infer", "Infer (Open Inference)", _infer(model)),
        (f"{oip}/generate", "One item", _generate(model)),
    ):
        content = _json(asked)
        if _is_short(model):
            content["application/json"]["example"] = example
        body = {"required": True, "content": content}
        yield path, {"post": {**_operation(summary, tag, path, answer), "requestBody": body}}


def _predict(model: ServedModel) -> tuple[Schema, Schema, Any]:
    inputs, outputs = model.signature.inputs, model.signature.outputs
    row = outputs_of(inputs, {port.name: item_schema(port) for port in inputs})
    columns = outputs_of(inputs, {port.name: items_of(port) for port in inputs})
    name = {"signature_name": _TEXT}
    asked: list[dict[str, Any]] = [
        {"properties": {"instances": {"type": "array", "items": row, "minItems": 1}, **name}},
        {"properties": {"inputs": columns, **name}},
    ]
    for one, key in zip(asked, ("instances", "inputs"), strict=True):
        one.update(type="object", required=[key], additionalProperties=False)
    rows = outputs_of(outputs, {port.name: item_schema(port) for port in outputs})
    whole = outputs_of(outputs, {port.name: items_of(port) for port in outputs})
    answer = [
        object_of({"predictions": {"type": "array", "items": rows}}),
        object_of({"outputs": whole}),
    ]
    values = {port.name: example_of(port.tensor) for port in inputs}
    example = values[inputs[0].name] if len(inputs) == 1 else values
    return {"oneOf": asked}, {"oneOf": answer}, {"instances": [example]}


def _infer(model: ServedModel) -> tuple[Schema, Schema, Any]:
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
    return asked, answer, {"inputs": tensors}


def _generate(model: ServedModel) -> tuple[Schema, Schema, Any]:
    inputs, outputs = model.signature.inputs, model.signature.outputs
    answers = {
        port.name: item_schema(port) if port.is_single else {"type": "array"} for port in outputs
    }
    asked = object_of({port.name: item_schema(port) for port in inputs})
    return asked, object_of(answers), {port.name: example_of(port.tensor) for port in inputs}


def _is_short(model: ServedModel) -> bool:
    tensors = (port.tensor for port in model.signature.inputs)
    return all(_elements(one.shape or ()) <= _MOST_EXAMPLE for one in tensors if one is not None)


def _elements(shape: Iterable[int | None]) -> int:
    return math.prod(extent or 1 for extent in shape)


def _operation(summary: str, tag: str, path: str, answer: Schema | None) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "all is well"}
    if answer is not None:
        good["content"] = _json(answer)
    return {
        "summary": summary,
        "tags": [tag],
        "operationId": path,
        "responses": {"200": good, "default": _ERROR},
    }


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
