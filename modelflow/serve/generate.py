"""``generate``: a request of one item, for people, browsers and ``curl``.

``{"image": {"b64": "..."}}`` is answered with ``{"label": "cat", "score": 0.9}``: input name to
value, output name to value. A body that is no JSON is the value of the only input.
"""

import base64
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.graph.signature import GraphPort
from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply, reply_of
from modelflow.serve.call import Call
from modelflow.serve.compression import compressed, whole_body
from modelflow.serve.limits import ReadLimits
from modelflow.serve.models import Models
from modelflow.serve.patience import seconds_of
from modelflow.serve.refusal import settle
from modelflow.serve.router import Endpoint, endpoint
from modelflow.serve.served_model import ServedModel
from modelflow.wire.json_array import array_of
from modelflow.wire.json_document import read_json
from modelflow.wire.problem import Problem

__all__ = ["Generate"]

_PATH = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>\d+))?/generate"
_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"  # what curl says of any body


class Generate:
    """Answers requests of one item."""

    def __init__(self, models: Models, limits: ReadLimits) -> None:
        """Takes what is served, and what a body may hold."""
        self._models = models
        self._limits = limits
        self.endpoints: tuple[Endpoint, ...] = (endpoint(_PATH, POST=self._generate),)

    def _generate(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        body = whole_body(exchange, self._limits.decompressed)
        kind = (exchange.header(b"content-type") or _JSON.encode()).decode("latin-1").lower()
        is_json = kind.partition(";")[0].strip() in (_JSON, _FORM)
        items = _of_json(body, model, self._limits) if is_json else _of_raw(body, kind, model)
        exchange.on_gone = model.send(
            items, partial(_answer, exchange), seconds_of(exchange), exchange.visit
        ).cancel


def _of_json(body: bytes, model: ServedModel, limits: ReadLimits) -> dict[str, list[Any]]:
    document = read_json(body, limits.json)
    if not isinstance(document, dict):
        message = f"request: expected a JSON object, {{{_names(model)}}}"
        raise Problem(message)
    ports = {port.name: port for port in model.signature.inputs}
    if set(document) != set(ports):
        message = f"request: got {sorted(document)}; expected the inputs {sorted(ports)}"
        raise Problem(message)
    return {name: [_item(ports[name], value)] for name, value in document.items()}


def _of_raw(body: bytes, kind: str, model: ServedModel) -> dict[str, list[Any]]:
    ports = model.signature.inputs
    if len(ports) != 1:
        message = (
            f"a body of type {kind!r} is for a model with one input; {model.name!r} has "
            f"{len(ports)}: send {{{_names(model)}}} as {_JSON}"
        )
        raise Problem(message)
    tensor = ports[0].tensor
    if tensor is not None and tensor.dtype != object:
        message = (
            f"a body of type {kind!r} is for an input of bytes; {ports[0].name!r} is "
            f"{tensor}: send {{{_names(model)}}} as {_JSON}"
        )
        raise Problem(message)
    return {ports[0].name: [body]}


def _names(model: ServedModel) -> str:
    return ", ".join(f'"{port.name}": ...' for port in model.signature.inputs)


def _item(port: GraphPort, value: Any) -> Any:
    """One item of an input: an array, a number, bytes, or whatever JSON says."""
    tensor = port.tensor
    if tensor is None:
        if isinstance(value, dict | str) and not _is_b64(value):
            return value
        return _plain(array_of(value, None, f"input {port.name!r}"))
    return _plain(array_of(value, tensor.dtype, f"input {port.name!r}"))


def _is_b64(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"b64"}


def _plain(array: np.ndarray[Any, Any]) -> Any:
    return array.item() if array.ndim == 0 and array.dtype == object else array


def _answer(exchange: Exchange, call: Call) -> None:
    settle(exchange, lambda: compressed(exchange, _reply(call)))


def _reply(call: Call) -> Reply:
    ports = {port.name: port for port in call.model.signature.outputs}
    found = call.buffers().items()
    return reply_of(Buffer({name: _value(ports[name].is_single, part) for name, part in found}))


def _value(is_single: bool, buffers: list[Buffer]) -> Any:
    values = [_text(buffer.data) for buffer in buffers]
    return values[0] if is_single and len(values) == 1 else values


def _text(value: Any) -> Any:
    """Bytes that are text, as text; others as base64 says them."""
    if not isinstance(value, bytes | bytearray | memoryview):
        return value
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}
