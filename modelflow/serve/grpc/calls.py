"""Calls as ``grpc.aio`` brings them in, and their answers on the way out."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc

from modelflow.http.body import BodyBudget
from modelflow.serve.grpc.limits import AHEAD
from modelflow.serve.grpc.passage import Passage
from modelflow.serve.grpc.rpc import Rpc
from modelflow.serve.grpc.service import Method
from modelflow.serve.reception import Reception
from modelflow.serve.status import inside
from modelflow.wire.problem import Code, Problem

__all__ = ["Calls"]

_STATUS = {status.value[0]: status for status in grpc.StatusCode}


class Calls:
    """Brings messages to the methods, and their answers back. For the loop's thread."""

    def __init__(self, budget: BodyBudget, reception: Reception) -> None:
        """Takes where the bytes of messages are taken from, and what every call passes first."""
        self._budget = budget
        self._reception = reception
        self._readers: set[asyncio.Task[None]] = set()

    def handler(self, method: Method) -> Any:
        """Returns what ``grpc.aio`` calls for a method."""
        if method.is_stream_in:
            return grpc.stream_stream_rpc_method_handler(partial(self._stream, method))
        if method.is_stream_out:
            return grpc.unary_stream_rpc_method_handler(partial(self._one_in, method))
        return grpc.unary_unary_rpc_method_handler(partial(self._one, method))

    def close(self) -> None:
        """Takes no more messages from the streams; each ends when those that came are answered."""
        for reader in self._readers:
            reader.cancel()

    def _receive(self, method: Method, context: Any) -> Passage:
        metadata = context.invocation_metadata() or ()
        passage = Passage(self._reception, method, metadata, context.peer)
        if passage.visit is not None:
            context.set_trailing_metadata(passage.trailers)
        return passage

    async def _one(self, method: Method, data: bytes, context: Any) -> bytes:
        passage = self._receive(method, context)
        rpc = Rpc(context.time_remaining(), passage.visit)
        passage.bytes_in = len(data)
        try:
            passage.admit()
            self._begin(rpc, method, data)
            found = passage.send(await _next(rpc))
            passage.succeed()
        except Problem as problem:
            await _abort(context, passage, problem)
            raise  # `_abort` does not return
        finally:
            rpc.leave()
            passage.end()
        return found

    async def _one_in(self, method: Method, data: bytes, context: Any) -> None:
        async def requests() -> AsyncIterator[bytes]:
            yield data

        await self._stream(method, requests(), context)

    async def _stream(self, method: Method, requests: AsyncIterator[bytes], context: Any) -> None:
        """Answers the messages of a stream, in their order."""
        passage = self._receive(method, context)
        try:
            passage.admit()
            await self._answer(method, requests, context, passage)
            passage.succeed()
        except Problem as problem:
            await _abort(context, passage, problem)
        finally:
            passage.end()

    async def _answer(
        self, method: Method, requests: AsyncIterator[bytes], context: Any, passage: Passage
    ) -> None:
        coming: asyncio.Queue[Rpc | None] = asyncio.Queue(AHEAD)
        read = self._read(method, requests, context, coming, passage)
        reader = asyncio.create_task(read)
        self._readers.add(reader)
        try:
            while (rpc := await coming.get()) is not None:
                await _write_answers(rpc, context, passage)
            await _end_of(reader)
        finally:
            self._readers.discard(reader)
            reader.cancel()
            while not coming.empty():
                left = coming.get_nowait()
                if left is not None:
                    left.leave()

    async def _read(
        self,
        method: Method,
        requests: AsyncIterator[bytes],
        context: Any,
        coming: asyncio.Queue[Rpc | None],
        passage: Passage,
    ) -> None:
        try:
            async for data in requests:
                passage.bytes_in += len(data)
                rpc = Rpc(context.time_remaining(), passage.visit)
                await coming.put(rpc)
                self._begin(rpc, method, data)
        finally:
            await coming.put(None)

    def _begin(self, rpc: Rpc, method: Method, data: bytes) -> None:
        size = len(data)
        if not self._budget.take(size):
            text = "there is no room for the message beside those of other requests"
            rpc.refuse(Problem(text, Code.RESOURCE_EXHAUSTED))
            return
        rpc.on_end = partial(self._budget.give_back, size)
        try:
            method.answer(rpc, method.parse(data))
        except Problem as problem:
            rpc.refuse(problem)
        except Exception as error:  # noqa: BLE001 - a mistake of ours, whose text stays inside
            rpc.refuse(inside(error))


async def _abort(context: Any, passage: Passage, problem: Problem) -> None:
    """Ends a call with a problem; raises what ``grpc.aio`` wants to see then."""
    ending = passage.fail(problem)
    await context.abort(_STATUS[ending.status], ending.text, ending.metadata)


async def _next(rpc: Rpc) -> Any:
    """Waits for the next answer to a message; see `Rpc.take`."""
    if not rpc.has_answer:
        come = asyncio.Event()
        rpc.on_answer = come.set
        await come.wait()
    return rpc.take()


async def _write_answers(rpc: Rpc, context: Any, passage: Passage) -> None:
    try:
        while (message := await _next(rpc)) is not None:
            await context.write(passage.send(message))
    finally:
        rpc.leave()


async def _end_of(reader: asyncio.Task[None]) -> None:
    await asyncio.wait([reader])
    if reader.cancelled():
        message = "the server is being stopped"
        raise Problem(message, Code.UNAVAILABLE)
    reader.result()
