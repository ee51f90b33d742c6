"""``generate``: a request with one item, for people, browsers and ``curl``.

The body has one of three forms:

- JSON such as ``{"image": {"b64": "..."}}``, with a value for each input. Keys that are no inputs,
  and the object ``parameters``, are parameters of the request, as in Triton.
- A form with files, whose fields are the inputs. Fields that are no inputs are parameters.
- Any other body is the value of the only input.

The reply has a value for each output, for example ``{"label": "cat", "score": 0.9}``.
``generate_stream`` sends the same values as server-sent events, one event for each buffer.
"""

import base64
from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.graph.graph_port import GraphPort
from modelflow.http.reply import Reply, reply_of
from modelflow.http.request import HttpRequest, StreamingReply
from modelflow.serve.access.error_reply import compress_reply, refusal, settle, whole_body
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.options import ServeOptions
from modelflow.serve.protocols.open_inference import check_extras, extend_terms
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Inference, Model, Terms
from modelflow.serve.requests.response_stream import ResponseStream
from modelflow.serve.requests.rows import check_item
from modelflow.serve.rest.row_reader import terms_of
from modelflow.wire.form_data import FORM_DATA, fields_of
from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.json_reader import read_json
from modelflow.wire.json_to_array import array_of, json_type
from modelflow.wire.problem import Problem, refuse

_JSON = "application/json"
_CURL = "application/x-www-form-urlencoded"  # curl's default content type


Values = tuple[dict[str, Any], dict[str, Any]]
"""The value of each input, and the parameters of a request."""


def item_of(
    body: bytes, kind: str, model: Model, limits: JsonLimits
) -> tuple[dict[str, list[Any]], Mapping[str, Any]]:
    """Returns the values for the inputs of a model, one buffer for each input, and the parameters.

    Args:
        body: The whole body of a request.
        kind: The content type. ``""`` and the default of ``curl -d`` mean JSON.
        model: The model.
        limits: The limits on JSON, for the body or for each field of a form.

    Raises:
        Problem: The body does not fit the model's inputs or its content type, or exceeds a limit.
    """
    name = kind.partition(";")[0].strip().lower()
    if name == FORM_DATA:
        found, parameters = _of_form(fields_of(body, kind), model, limits)
    elif name in ("", _JSON, _CURL):
        found, parameters = _of_json(body, model, limits)
    else:
        found, parameters = _of_raw(body, kind, model), {}
    for key, value in found.items():
        if isinstance(value, np.ndarray):
            model.options.check_elements(value.size, f"input {key!r}")
    if parameters:
        check_extras(parameters, model)
    return {key: [value] for key, value in found.items()}, parameters


def _of_form(fields: dict[str, bytes], model: Model, limits: JsonLimits) -> Values:
    """Reads a form, with files for inputs of bytes, and JSON for other inputs and for parameters.

    A parameter that is no JSON is a text. If the model has a single input and the form a single
    field, the field may have any name.
    """
    ports = {port.name: port for port in model.signature.inputs}
    if len(ports) == len(fields) == 1:
        fields = dict(zip(ports, fields.values(), strict=True))
    if not ports.keys() <= fields.keys():
        _check_names(fields, ports)
    found = {
        name: fields[name] if _takes_bytes(port) else _item(port, read_json(fields[name], limits))
        for name, port in ports.items()
    }
    extras = {name: value for name, value in fields.items() if name not in ports}
    return found, _join_parameters(
        {name: _json_or_text(value, limits) for name, value in extras.items()}
    )


def _json_or_text(value: bytes, limits: JsonLimits) -> Any:
    try:
        return read_json(value, limits)
    except Problem:
        return value.decode(errors="replace")


def _check_names(given: Collection[str], ports: Collection[str]) -> None:
    if set(given) != set(ports):
        refuse(f"request: got {sorted(given)}; expected the inputs {sorted(ports)}")


def _takes_bytes(port: GraphPort) -> bool:
    return port.tensor is None or port.tensor.dtype == object


def _of_json(body: bytes, model: Model, limits: JsonLimits) -> Values:
    document = read_json(body, limits)
    if not isinstance(document, dict):
        refuse(f"request: expected a JSON object, {{{_names(model)}}}")
    ports = {port.name: port for port in model.signature.inputs}
    given = {name: value for name, value in document.items() if name in ports}
    if len(given) < len(ports):
        _check_names(document, ports)
    extras = {name: value for name, value in document.items() if name not in ports}
    found = {name: _item(ports[name], value) for name, value in given.items()}
    return found, _join_parameters(extras)


def _join_parameters(extras: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters: the keys that are no inputs, and the object `parameters`."""
    parameters = extras.pop("parameters", {})
    if not isinstance(parameters, dict):
        refuse(f"request: 'parameters' is {json_type(parameters)}; expected an object")
    return {**extras, **parameters}


def _of_raw(body: bytes, kind: str, model: Model) -> dict[str, Any]:
    ports = model.signature.inputs
    if len(ports) != 1:
        refuse(
            f"a body of type {kind!r} is for a model with one input; {model.name!r} has "
            f"{len(ports)}: send {{{_names(model)}}} as {_JSON}"
        )
    if not _takes_bytes(ports[0]):
        refuse(
            f"a body of type {kind!r} is for an input of bytes; {ports[0].name!r} is "
            f"{ports[0].tensor}: send {{{_names(model)}}} as {_JSON}"
        )
    return {ports[0].name: body}


def _names(model: Model) -> str:
    return ", ".join(f'"{port.name}": ...' for port in model.signature.inputs)


def _item(port: GraphPort, value: Any) -> Any:
    """Returns one item of an input: an array, a number, bytes, or a plain JSON value."""
    tensor = port.tensor
    if tensor is None:
        if isinstance(value, dict | str) and not _is_b64(value):
            return value
        return _plain(array_of(value, None, f"input {port.name!r}"))
    array = array_of(value, tensor.dtype, f"input {port.name!r}")
    check_item(port, array)
    return _plain(array)


def _is_b64(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"b64"}


def _plain(array: np.ndarray[Any, Any]) -> Any:
    return array.item() if array.ndim == 0 and array.dtype == object else array


_PATH = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?/generate"
_EVENTS: Mapping[str, str] = MappingProxyType(
    {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
)


class Generate:
    """The endpoints for requests with one item."""

    def __init__(self, models: Models, options: ServeOptions) -> None:
        """Stores the models, and the limits on bodies."""
        self._models = models
        self._options = options
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint(_PATH, POST=self._generate),
            endpoint(f"{_PATH}_stream", POST=self._stream),
        )

    def _generate(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        model = self._models.route(**path)
        items, terms = self._read(http_request, model)
        done = partial(_answer, http_request)
        http_request.on_gone = model.send(items, done, terms).cancel

    def _stream(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        model = self._models.route(**path)
        items, terms = self._read(http_request, model)
        if terms.sequence is not None:
            refuse("generate_stream: parameter 'sequence_id'; expected it in generate, or in infer")
        terms = terms._replace(is_stream=True)
        feed = ResponseStream(_Events(), lambda done: model.send(items, done, terms))
        http_request.on_gone = feed.cancel

        def notify(problem: Problem | None) -> None:
            if problem is None:
                http_request.answer(StreamingReply(200, feed.begin, _EVENTS))
            else:
                http_request.answer(refusal(problem))

        feed.call_when_taken(notify)

    def _read(self, http_request: HttpRequest, model: Model) -> tuple[dict[str, list[Any]], Terms]:
        body = whole_body(http_request, self._options.expanded)
        kind = http_request.head.named.get(b"content-type", b"").decode("latin-1")
        items, parameters = item_of(body, kind, model, self._options.json)
        terms = terms_of(http_request)
        return items, extend_terms(terms, parameters, model) if parameters else terms


class _Events:
    """The form of a reply with a server-sent event per buffer. A `response_stream.Form`.

    Example: ``data: {"output": value}``.
    """

    def part(self, name: str, buffer: Buffer, *, is_last: bool) -> bytes:  # noqa: ARG002 - the body's end marks it
        return _event({name: _text(buffer.data)})

    def problem(self, problem: Problem) -> bytes:
        return _event({"error": str(problem)})

    def end(self) -> None:
        return None


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: %b\n\n" % reply_of(Buffer(value)).body


def _answer(http_request: HttpRequest, call: Inference) -> None:
    settle(http_request, lambda: compress_reply(http_request, _reply(call)))


def _reply(call: Inference) -> Reply:
    ports = {port.name: port for port in call.model.signature.outputs}
    found = call.buffers().items()
    return reply_of(Buffer({name: _value(ports[name].is_single, part) for name, part in found}))


def _value(is_single: bool, buffers: list[Buffer]) -> Any:
    values = [_text(buffer.data) for buffer in buffers]
    return values[0] if is_single and len(values) == 1 else values


def _text(value: Any) -> Any:
    """Returns bytes as text if they are UTF-8, or else in base64; other values unchanged."""
    if not isinstance(value, bytes | bytearray | memoryview):
        return value
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}
