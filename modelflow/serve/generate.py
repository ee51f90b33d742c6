"""``generate``: a request of one item, for people, browsers and ``curl``.

``{"image": {"b64": "..."}}`` is answered with ``{"label": "cat", "score": 0.9}``: input name to
value, output name to value. A body that is no JSON is the value of the only input.
``generate_stream`` answers the same as server-sent events, one for each buffer, as it comes.
"""

import base64
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.graph.signature import GraphPort
from modelflow.http.exchange import Exchange
from modelflow.http.outflow import StreamedReply
from modelflow.http.reply import Reply, reply_of
from modelflow.serve.call import Call
from modelflow.serve.compression import compressed, whole_body
from modelflow.serve.feed import Feed
from modelflow.serve.models import Models
from modelflow.serve.patience import seconds_of
from modelflow.serve.refusal import settle
from modelflow.serve.router import Endpoint, endpoint
from modelflow.serve.rows import check_item
from modelflow.serve.served_model import ServedModel
from modelflow.wire.json_array import array_of
from modelflow.wire.json_document import read_json
from modelflow.wire.problem import Problem

__all__ = ["Generate"]

_PATH = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>\d+))?/generate"
_JSON = "application/json"
_EVENTS: Mapping[str, str] = MappingProxyType(
    {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
)
_FORM = "application/x-www-form-urlencoded"  # what curl says of any body


class Generate:
    """Answers requests of one item."""

    def __init__(self, models: Models, max_body: int) -> None:
        """Takes what is served, and most bytes of a body that was compressed."""
        self._models = models
        self._most = max_body
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint(_PATH, POST=self._generate),
            endpoint(f"{_PATH}_stream", POST=self._stream),
        )

    def _generate(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        items = self._items(exchange, model)
        exchange.on_gone = model.send(
            items, partial(_answer, exchange), seconds_of(exchange)
        ).cancel

    def _stream(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        items, seconds = self._items(exchange, model), seconds_of(exchange)
        feed = Feed(_Events(), lambda done: model.send(items, done, seconds, is_stream=True))
        exchange.answer(StreamedReply(200, feed.begin, _EVENTS))

    def _items(self, exchange: Exchange, model: ServedModel) -> dict[str, list[Any]]:
        body = whole_body(exchange, self._most)
        kind = (exchange.header(b"content-type") or _JSON.encode()).decode("latin-1").lower()
        is_json = kind.partition(";")[0].strip() in (_JSON, _FORM)
        return _of_json(body, model) if is_json else _of_raw(body, kind, model)


class _Events:
    """A buffer as a server-sent event: ``data: {"output": value}``. A `Form`."""

    def part(self, name: str, buffer: Buffer, *, is_last: bool) -> bytes:  # noqa: ARG002 - the end of the body says it
        return _event({name: _text(buffer.data)})

    def problem(self, problem: Problem) -> bytes:
        return _event({"error": str(problem)})

    def end(self) -> None:
        return None


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: %b\n\n" % reply_of(Buffer(value)).body


def _of_json(body: bytes, model: ServedModel) -> dict[str, list[Any]]:
    document = read_json(body)
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
    array = array_of(value, tensor.dtype, f"input {port.name!r}")
    check_item(port, array)
    return _plain(array)


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
