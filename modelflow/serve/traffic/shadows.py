"""The copies of requests that shadow versions compute, whose answers are discarded."""

import asyncio
import copy
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import numpy as np

from modelflow.http.reply import Reply
from modelflow.http.request import StreamingReply
from modelflow.serve.requests.model import NO_TERMS, SHADOW, Inference, Model, Terms
from modelflow.wire.problem import Problem


class ShadowObserver:
    """The observer of a copy, which logs and traces nothing. A `RequestObserver`."""

    sampled_trace = ""
    is_single = False

    def enter(self, _model: str, _version: int, _rows: int = 0) -> Mapping[str, Any]:
        """Returns the context with the mark."""
        return {SHADOW: True}

    def watcher(self) -> None:
        """Returns None, because a copy has no span."""

    def on_answer(self, reply: Reply | StreamingReply) -> Reply | StreamingReply:
        """Returns the reply."""
        return reply

    def over(self, _bytes_in: int, _bytes_out: int) -> None:
        """Does nothing, because no client gets the answer."""

    on_cancel = over


class Shadows:
    """The copies of requests that shadow versions compute. For the server's thread."""

    def __init__(self) -> None:
        self._running: set[Inference] = set()
        self._is_over = False

    def with_copies(self, model: Model, shadows: Iterable[Model]) -> Model:
        """Returns a model whose requests are copied to shadow models."""
        found = [*shadows]
        return cast("Model", _CopiedModel(self, model, found)) if found else model

    def send(self, shadow: Model, kind: str, values: Any, terms: Terms) -> None:
        """Sends a copy, and drops the copy if the model has no room or does not fit."""
        if self._is_over:
            return
        own = Terms(terms.deadline, ShadowObserver(), parameters=terms.parameters)
        try:
            call = getattr(shadow, kind)(values, self._on_done, own)
        except Exception as error:  # noqa: BLE001 - must not fail the client's request
            shadow.on_shadow_refused(error)
            return
        self._running.add(call)  # `_on_done` is called later

    def _on_done(self, call: Inference) -> None:
        self._running.discard(call)
        try:
            call.buffers()  # counts the request
        except Problem:
            """The count of failures holds it."""

    def end(self) -> None:
        """Cancels all copies, and sends no more."""
        self._is_over = True
        running, self._running = self._running, set()
        for call in running:
            call.cancel()


class _CopiedModel:
    """A `Model` whose requests are copied. All else is the model's own."""

    pending = None  # each request is read alone, because its values are needed

    def __init__(self, shadows: Shadows, model: Model, copies: list[Model]) -> None:
        self._shadows, self._model, self._copies = shadows, model, copies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def with_signature(self, name: str) -> Model:
        """Returns the model of a signature. Shadow models without the signature get no copy."""
        copies = []
        for one in self._copies:
            try:
                copies.append(one.with_signature(name))
            except Problem as problem:
                one.on_shadow_refused(problem)
        return self._shadows.with_copies(self._model.with_signature(name), copies)

    def infer(
        self, arrays: Any, done: Callable[[Inference], None], terms: Terms = NO_TERMS
    ) -> Inference:
        return self._send("infer", arrays, done, terms)

    def send(
        self, items: Any, done: Callable[[Inference], None], terms: Terms = NO_TERMS
    ) -> Inference:
        return self._send("send", items, done, terms)

    def _send(
        self, kind: str, values: Any, done: Callable[[Inference], None], terms: Terms
    ) -> Inference:
        if terms.sequence is not None:  # the state of a sequence has no copy
            call: Inference = getattr(self._model, kind)(values, done, terms)
            return call
        # Before the model gets the values, whose units may write into them.
        copies = [{name: _copy(one) for name, one in values.items()} for _ in self._copies]
        call = getattr(self._model, kind)(values, done, terms)
        for shadow, own in zip(self._copies, copies, strict=True):
            send = partial(self._shadows.send, shadow, kind, own, terms)
            asyncio.get_running_loop().call_soon(send)  # after the other requests of this turn
        return call


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray) and not (value.flags.writeable or value.dtype.hasobject):
        return value
    return copy.deepcopy(value)
