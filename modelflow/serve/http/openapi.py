"""The OpenAPI 3.1 description of the server, with the types of each model."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import modelflow
from modelflow.serve.http.schemas import (
    JSON_TYPE,
    BodySchema,
    Schema,
    examples_body,
    generate_body,
    infer_body,
    object_of,
    predict_body,
)
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Model
from modelflow.wire.tf_serving.documents import CLASSIFY_METHOD, REGRESS_METHOD

Operation = Mapping[str, Any]

_TEXT: Schema = {"type": "string"}
_DOCUMENT: Schema = {"type": "object"}
_ERROR: Schema = {"$ref": "#/components/responses/Error"}
_KEYS: Mapping[str, Schema] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}
_DESCRIPTION = (
    "Models, for the clients of TensorFlow Serving (/v1) and of the Open Inference Protocol (/v2). "
    "With gRPC on, these services offer the same: tensorflow.serving.PredictionService, "
    "tensorflow.serving.ModelService and inference.GRPCInferenceService."
)


def openapi_document(models: Models, *, has_keys: bool, is_repository_open: bool) -> dict[str, Any]:
    """Returns the description of a server.

    Args:
        models: The models that are served now.
        has_keys: Whether requests need an API key.
        is_repository_open: Whether clients may load and unload models.
    """
    paths = dict(_of_server(is_repository_open=is_repository_open))
    if models.regions.is_allowed:
        paths |= dict(_of_shared_memory())
    for name in sorted({model.name for model in models}):
        newest, *older = models.versions(name)
        for model, place in ((newest, ""), *((one, f"/versions/{one.version}") for one in older)):
            for path, operations in _of_model(model, place):
                # "/v2/models/stats" stays the server's, also with a model named "stats"
                paths.setdefault(path, operations)
    error = {"description": "the error", "content": _json(object_of({"error": _TEXT}))}
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
        ("/readyz", "Whether all models are loaded"),
        ("/v2/health/live", "Whether the server runs"),
        ("/v2/health/ready", "Whether all models are loaded"),
    ):
        yield path, {"get": {**_operation(summary, "server", path, None), **free}}
    yield (
        "/v2",
        {
            "get": _operation(
                "Name, version and extensions of the server", "server", "/v2", _DOCUMENT
            )
        },
    )
    metrics = {"200": {"description": "for Prometheus", "content": {"text/plain": {}}}}
    about = _operation("Metrics", "server", "/metrics", None)
    yield "/metrics", {"get": {**about, "responses": {**about["responses"], **metrics}}}
    rows = {"type": "array", "items": {"type": "object"}}
    stats = "/v2/models/stats"
    yield stats, {"get": _operation("Statistics of all models", "server", stats, _DOCUMENT)}
    yield "/stats", {"get": _operation("Statistics of every node", "server", "/stats", _DOCUMENT)}
    index = "/v2/repository/index"
    yield index, {"post": _operation("Models and their states", "repository", index, rows)}
    if is_repository_open:
        for action in ("load", "unload"):
            path = f"/v2/repository/models/{{name}}/{action}"
            name = {"name": "name", "in": "path", "required": True, "schema": _TEXT}
            about = _operation(f"{action.title()}s a model", "repository", path, None)
            yield path, {"post": {**about, "parameters": [name]}}


def _of_shared_memory() -> Iterator[tuple[str, Operation]]:
    name = {"name": "name", "in": "path", "required": True, "schema": _TEXT}
    region = object_of({"key": _TEXT, "byte_size": {"type": "integer"}})
    whole, tag = "/v2/systemsharedmemory", "shared memory"
    for place, parameters in ((whole, []), (f"{whole}/region/{{name}}", [name])):
        path = f"{place}/status"
        about = _operation("The registered memory", tag, path, {"type": "array"})
        yield path, {"get": {**about, "parameters": parameters}}
        path = f"{place}/unregister"
        about = _operation("Removes registered memory", tag, path, None)
        yield path, {"post": {**about, "parameters": parameters}}
    path = f"{whole}/region/{{name}}/register"
    about = _operation("Registers memory for tensors", tag, path, None)
    body = {"required": True, "content": _json(region)}
    yield path, {"post": {**about, "parameters": [name], "requestBody": body}}


def _of_model(model: Model, place: str) -> Iterator[tuple[str, Operation]]:
    rest = f"/v1/models/{quote(model.name, safe='')}{place}"
    oip = f"/v2/models/{quote(model.name, safe='')}{place}"
    tag = model.name
    for path, summary, answer in (
        (rest, "States of the versions (TensorFlow Serving)", _DOCUMENT),
        (f"{rest}/metadata", "Inputs and outputs (TensorFlow Serving)", _DOCUMENT),
        (oip, "Inputs and outputs (Open Inference)", _DOCUMENT),
        (f"{oip}/ready", "Whether the model answers", None),
        (f"{oip}/config", "Configuration and batching (Open Inference)", _DOCUMENT),
        (f"{oip}/stats", "Statistics (Open Inference)", _DOCUMENT),
        (f"/stats/{quote(model.name, safe='')}{place}", "Statistics of every node", _DOCUMENT),
    ):
        yield path, {"get": _operation(summary, tag, path, answer)}
    for path, summary, body in (
        (f"{rest}:predict", "Predict (TensorFlow Serving)", predict_body(model)),
        *_of_examples(model, rest),
        (f"{oip}/infer", "Infer (Open Inference)", infer_body(model)),
        (f"{oip}/generate", "One item", generate_body(model, is_stream=False)),
        (
            f"{oip}/generate_stream",
            "One item, streamed",
            generate_body(model, is_stream=True),
        ),
    ):
        content = {
            **_json(body.asked),
            **{kind: {"schema": one} for kind, one in body.forms.items()},
        }
        if body.example is not None:
            content[JSON_TYPE]["example"] = body.example
        operation = _operation(summary, tag, path, body.answer, body.answer_type)
        yield path, {"post": {**operation, "requestBody": {"required": True, "content": content}}}


def _of_examples(model: Model, rest: str) -> Iterator[tuple[str, str, BodySchema]]:
    methods = {one.method for one in model.all_signatures()}
    for method, verb in ((CLASSIFY_METHOD, "classify"), (REGRESS_METHOD, "regress")):
        if method in methods:
            summary = f"{verb.title()} (TensorFlow Serving)"
            yield f"{rest}:{verb}", summary, examples_body(model, method)


def _operation(
    summary: str, tag: str, path: str, answer: Schema | None, kind: str = JSON_TYPE
) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "success"}
    if answer is not None:
        good["content"] = {kind: {"schema": answer}}
    return {
        "summary": summary,
        "tags": [tag],
        "operationId": path,
        "responses": {"200": good, "default": _ERROR},
    }


def _json(schema: Schema) -> dict[str, Any]:
    return {JSON_TYPE: {"schema": schema}}
