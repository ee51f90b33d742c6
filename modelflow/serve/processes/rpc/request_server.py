"""The server side of a link: answers the requests of a worker in the process with the models."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol
from weakref import WeakSet

from modelflow.errors import EndOfStream
from modelflow.http.reply import Reply
from modelflow.http.request import StreamingReply, read_trace
from modelflow.ipc.frame import Value
from modelflow.ipc.link import Link
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.ipc.shared_memory import ChannelDescriptors
from modelflow.serve.processes.rpc.rpc_client import words_of
from modelflow.serve.requests.model import SHADOW, Inference, Model, SequenceStep, Terms
from modelflow.serve.requests.status import problem_of
from modelflow.wire.problem import Code, Problem


class _ForwardedContext:
    """The request context of the worker, for the session of the request."""

    def __init__(self, context: Mapping[str, Any]) -> None:
        self._context = context

    @property
    def sampled_trace(self) -> str:
        parent = self._context.get("traceparent")
        trace = read_trace([parent]) if parent else None
        return trace.id if trace is not None and trace.is_sampled else ""

    @property
    def is_single(self) -> bool:
        return False

    def enter(self, _model: str, _version: int, _rows: int = 0) -> Mapping[str, Any]:
        return self._context  # the worker counts the rows

    def watcher(self) -> None:
        """Returns None. The worker has the trace span of the request, which contains no nodes."""

    def on_answer(self, reply: Reply | StreamingReply) -> Reply | StreamingReply:
        return reply

    def over(self, _bytes_in: int, _bytes_out: int) -> None:
        """Does nothing, because the worker logs the request."""

    on_cancel = over


class RequestedModels(Protocol):
    """The models that another process may ask. A `ModelDirectory`, for example."""

    def find(self, key: Any, /) -> Model:
        """Returns the model of a key. Raises `Problem` or `KeyError` without one."""

    def add(self, reader: "RequestServer", /) -> None:
        """Adds a process that asks."""

    def remove(self, reader: "RequestServer", /) -> None:
        """Removes a process that has ended."""

    def look(self) -> None:
        """Notes that a process has seen a change."""


class RequestServer:
    """A server for the requests of a single worker. For the server's thread.

    Attributes:
        seen: The number of the last directory that the worker has seen.
    """

    def __init__(
        self,
        ends: ChannelDescriptors,
        loop_queue: LoopQueue,
        directory: "RequestedModels",
        on_lost: "Callable[[RequestServer], object]",
    ) -> None:
        """Starts the link.

        Args:
            ends: The descriptors of this side of the link. The server owns them.
            loop_queue: Passes calls from other threads to the server's thread.
            directory: The models for the worker.
            on_lost: Called when the worker has ended.
        """
        self._on_lost = on_lost
        self.seen = 0
        self._directory = directory
        self._calls: dict[int, Inference] = {}
        self._is_answered = asyncio.Event()  # set again when no request is left
        self._is_answered.set()
        self._wanting: set[int] = set()
        self._given_up: WeakSet[Inference] = WeakSet()
        self._link = Link(ends, loop_queue, self)
        self._link.begin()
        directory.add(self)

    def tell(self, number: int, document: Any) -> None:
        """Sends the directory to the worker."""
        self._link.say("models", number, document)

    def hear(self, _: Link, message: list[Any], read: Callable[[Value], Any]) -> None:
        """Handles a message of the worker."""
        kind, number, *rest = message
        match kind:
            case "infer" | "send":
                self._take(kind, number, rest, read)
            case "cancel":
                self._cancel(number)
            case "more":
                if number in self._calls:
                    self._wanting.add(number)
                    self._give(number)
            case "seen":
                self.seen = number
                self._directory.look()

    def on_lost(self, _: Link) -> None:
        """Cancels the requests of a worker that has ended."""
        self._on_lost(self)
        calls, self._calls = self._calls, {}
        self._is_answered.set()
        for call in calls.values():
            self._given_up.add(call)
            call.cancel()
        self._directory.remove(self)

    async def wait_until_answered(self) -> None:
        """Waits until no request of the worker is under way."""
        await self._is_answered.wait()

    async def close(self) -> None:
        """Closes the link."""
        await self._link.close()

    # -- requests ---------------------------------------------------------------------------------

    def _take(self, kind: str, number: int, rest: list[Any], read: Callable[[Value], Any]) -> None:
        key, values, deadline, context, is_stream, further = rest
        is_first, sequence, parameters = further or (False, None, None)
        step = None if sequence is None else SequenceStep(*sequence)
        request_context = None if context is None else _ForwardedContext(context)
        found: Any = {
            name: read(value) if kind == "infer" else [*map(read, value)]
            for name, value in values.items()
        }
        model: Model | None = None
        try:
            model = self._directory.find(key)
            ask: Any = model.infer if kind == "infer" else model.send
            done = self._stream_done(number) if is_stream else self._answer_done(number, kind)
            terms = Terms(deadline, request_context, is_stream, is_first, step, parameters)
            self._calls[number] = ask(found, done, terms)
            self._is_answered.clear()
        except Exception as error:  # noqa: BLE001 - every client gets an answer
            if model is not None and context is not None and SHADOW in context:
                model.on_shadow_refused(error)
            self._link.say("problem", number, *words_of(problem_of(error)))
        else:
            if is_stream:
                self._link.say("taken", number)

    def _cancel(self, number: int) -> None:
        call = self._pop(number)
        if call is not None:
            self._wanting.discard(number)
            self._given_up.add(call)
            call.cancel()
            gone = Problem("the request was cancelled", Code.CANCELLED)
            self._link.say("problem", number, *words_of(gone))

    # -- answers ----------------------------------------------------------------------------------

    def _answer_done(self, number: int, kind: str) -> Callable[[Inference], None]:
        return partial(self._answer, number, _arrays if kind == "infer" else _items)

    def _answer(
        self, number: int, given: "Callable[[Inference, Link], Any]", call: Inference
    ) -> None:
        """Sends the answer to a request, unless the worker has cancelled the request.

        Reads the result even then, because reading counts the request.
        """
        is_wanted = self._pop(number) is not None
        try:
            found = given(call, self._link) if is_wanted else call.buffers()
        except Exception as error:  # noqa: BLE001 - every client gets an answer
            words = words_of(problem_of(error))
        else:
            if is_wanted:
                self._link.say("answer", number, found)
            return
        if is_wanted:
            self._link.say("problem", number, *words)

    def _stream_done(self, number: int) -> Callable[[Inference], None]:
        def came(call: Inference) -> None:
            if number in self._calls:
                self._give(number)
            elif call in self._given_up and _has_ended(call):
                self._given_up.discard(call)

        return came

    def _give(self, number: int) -> None:
        """Sends a part of a stream, if the worker has requested a part and a part is ready."""
        call = self._calls[number]
        if number not in self._wanting:
            return
        try:
            found = call.part()
            if found is None:
                return
            name, buffer = found
            said = ["part", number, name, self._link.value(buffer.data), call.is_drained]
            self._wanting.discard(number)
        except EndOfStream:
            said = ["end", number]
            self._forget(number)
        except Exception as error:  # noqa: BLE001 - every client gets an answer
            said = ["problem", number, *words_of(problem_of(error))]
            self._forget(number).cancel()
        self._link.say(*said)

    def _forget(self, number: int) -> Inference:
        self._wanting.discard(number)
        call = self._pop(number)
        assert call is not None  # the caller has found it
        return call

    def _pop(self, number: int) -> Inference | None:
        call = self._calls.pop(number, None)
        if not self._calls:
            self._is_answered.set()
        return call


def _has_ended(call: Inference) -> bool:
    """Reads the rest of a cancelled stream, to count its end once. Returns True at the end."""
    try:
        while call.part() is not None:
            pass
    except (EndOfStream, Problem):
        return True
    return False


def _arrays(call: Inference, link: Link) -> dict[str, Value]:
    return {name: link.value(value) for name, value in call.outputs().items()}


def _items(call: Inference, link: Link) -> dict[str, Value]:
    return {
        name: ["each", *(link.value(buffer.data) for buffer in buffers)]
        for name, buffers in call.buffers().items()
    }
