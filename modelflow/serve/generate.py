"""``generate``: a request of one item, for people, browsers and ``curl``.

``{"image": {"b64": "..."}}`` is answered with ``{"label": "cat", "score": 0.9}``: input name to
value, output name to value; what else a request may be: `one_item`.
``generate_stream`` answers the same as server-sent events, one for each buffer, as it comes.
"""

import base64
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from modelflow.buffer import Buffer
from modelflow.http.exchange import Exchange
from modelflow.http.outflow import StreamedReply
from modelflow.http.reply import Reply, reply_of
from modelflow.serve.compression import compressed, whole_body
from modelflow.serve.feed import Feed
from modelflow.serve.limits import ReadLimits
from modelflow.serve.model import Inference, Model
from modelflow.serve.one_item import item_of
from modelflow.serve.patience import seconds_of
from modelflow.serve.refusal import refusal, settle
from modelflow.serve.repository.models import Models
from modelflow.serve.router import Endpoint, endpoint
from modelflow.wire.problem import Problem

__all__ = ["Generate"]

_PATH = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>\d+))?/generate"
_EVENTS: Mapping[str, str] = MappingProxyType(
    {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
)


class Generate:
    """Answers requests of one item."""

    def __init__(self, models: Models, limits: ReadLimits) -> None:
        """Takes what is served, and what a body may hold."""
        self._models = models
        self._limits = limits
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint(_PATH, POST=self._generate),
            endpoint(f"{_PATH}_stream", POST=self._stream),
        )

    def _generate(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        items = self._items(exchange, model)
        exchange.on_gone = model.send(
            items, partial(_answer, exchange), seconds_of(exchange), exchange.visit
        ).cancel

    def _stream(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        items, seconds, visit = self._items(exchange, model), seconds_of(exchange), exchange.visit
        send = lambda done: model.send(items, done, seconds, visit, is_stream=True)  # noqa: E731
        feed = Feed(_Events(), send)
        exchange.on_gone = feed.cancel

        def told(problem: Problem | None) -> None:
            if problem is None:
                exchange.answer(StreamedReply(200, feed.begin, _EVENTS))
            else:
                exchange.answer(refusal(problem))

        feed.when_taken(told)

    def _items(self, exchange: Exchange, model: Model) -> dict[str, list[Any]]:
        body = whole_body(exchange, self._limits.decompressed)
        kind = exchange.head.named.get(b"content-type", b"").decode("latin-1")
        return item_of(body, kind, model, self._limits.json)


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


def _answer(exchange: Exchange, call: Inference) -> None:
    settle(exchange, lambda: compressed(exchange, _reply(call)))


def _reply(call: Inference) -> Reply:
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
