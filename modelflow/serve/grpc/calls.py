"""Calls as ``grpc.aio`` brings them in, and their answers on the way out."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc

from modelflow.http.body import BodyBudget
from modelflow.serve.grpc.rpc import Rpc
from modelflow.serve.grpc.service import Method
from modelflow.serve.refusal import come_again
from modelflow.serve.status import GRPC_STATUS, inside
from modelflow.wire.problem import Code, Problem

__all__ = ["Calls"]

_STATUS = {status.value[0]: status for status in grpc.StatusCode}
# A text goes out in the trailers, of which clients take 8 KiB; there a byte may become three.
_LONGEST_TEXT = 2000
# So many messages of a stream are worked on at once; the client's further ones wait outside.
_AHEAD = 64


class Calls:
    """Brings messages to the methods, and their answers back. For the loop's thread."""

    def __init__(self, budget: BodyBudget) -> None:
        """Takes where the bytes of messages are taken from while they are worked on."""
        self._budget = budget
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

    async def _one(self, method: Method, data: bytes, context: Any) -> bytes:
        rpc = Rpc(context.time_remaining())
        try:
            self._begin(rpc, method, data)
            answer = await rpc.next()
        except Problem as problem:
            await _abort(context, problem)
            raise  # `_abort` does not return
        finally:
            rpc.leave()
        found: bytes = answer.SerializeToString()
        return found

    async def _one_in(self, method: Method, data: bytes, context: Any) -> None:
        async def requests() -> AsyncIterator[bytes]:
            yield data

        await self._stream(method, requests(), context)

    async def _stream(self, method: Method, requests: AsyncIterator[bytes], context: Any) -> None:
        """Answers the messages of a stream, in their order."""
        coming: asyncio.Queue[Rpc | None] = asyncio.Queue(_AHEAD)
        reader = asyncio.create_task(self._read(method, requests, context, coming))
        self._readers.add(reader)
        try:
            while (rpc := await coming.get()) is not None:
                await _write_answers(rpc, context)
            await _end_of(reader)
        except Problem as problem:
            await _abort(context, problem)
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
    ) -> None:
        try:
            async for data in requests:
                rpc = Rpc(context.time_remaining())
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


async def _write_answers(rpc: Rpc, context: Any) -> None:
    try:
        while (message := await rpc.next()) is not None:
            await context.write(message.SerializeToString())
    finally:
        rpc.leave()


async def _end_of(reader: asyncio.Task[None]) -> None:
    await asyncio.wait([reader])
    if reader.cancelled():
        message = "the server is being stopped"
        raise Problem(message, Code.UNAVAILABLE)
    reader.result()


async def _abort(context: Any, problem: Problem) -> None:
    seconds = come_again(problem)
    metadata = () if seconds is None else (("retry-after", str(seconds)),)
    text = str(problem).encode()[:_LONGEST_TEXT].decode(errors="ignore")
    await context.abort(_STATUS[GRPC_STATUS[problem.code]], text, metadata)
