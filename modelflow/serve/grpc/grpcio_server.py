"""The gRPC server on ``grpc.aio``, which runs on the event loop of an HTTP server."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from modelflow.errors import MissingDependencyError
from modelflow.files.unix_socket import PREFIX, SocketFile, is_unix, private_host
from modelflow.http.options import TlsOptions
from modelflow.http.reply import BodyBudget
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.grpc.address import in_use, is_shared
from modelflow.serve.grpc.interceptor import GrpcInterceptor
from modelflow.serve.grpc.server import GrpcServer
from modelflow.serve.grpc.service import AHEAD, Method, Rpc
from modelflow.wire.problem import Code, Problem, refuse

try:
    import grpc.aio
except ImportError as error:
    raise MissingDependencyError("grpcio", "serve", "gRPC") from error

_STATUS = {status.value[0]: status for status in grpc.StatusCode}


class Calls:
    """The adapter between ``grpc.aio`` and the methods. Call it on the loop's thread."""

    def __init__(self, budget: BodyBudget, middleware: Middleware) -> None:
        """Stores the byte budget for messages, and the middleware for every call."""
        self._budget = budget
        self._middleware = middleware
        self._readers: set[asyncio.Task[None]] = set()

    def handler(self, method: Method) -> Any:
        """Returns the handler of a method for ``grpc.aio``."""
        if method.is_stream_in:
            return grpc.stream_stream_rpc_method_handler(partial(self._stream, method))
        if method.is_stream_out:
            return grpc.unary_stream_rpc_method_handler(partial(self._one_in, method))
        return grpc.unary_unary_rpc_method_handler(partial(self._one, method))

    def close(self) -> None:
        """Stops reading messages. Each stream ends when its received messages are answered."""
        for reader in self._readers:
            reader.cancel()

    def _receive(self, method: Method, context: Any) -> GrpcInterceptor:
        metadata = context.invocation_metadata() or ()
        interceptor = GrpcInterceptor(self._middleware, method, metadata, context.peer)
        if interceptor.request_context is not None:
            context.set_trailing_metadata(interceptor.trailers)
        return interceptor

    async def _one(self, method: Method, data: bytes, context: Any) -> bytes:
        interceptor = self._receive(method, context)
        rpc = Rpc(context.time_remaining(), interceptor.request_context)
        interceptor.bytes_in = len(data)
        try:
            interceptor.admit()
            self._begin(rpc, interceptor, data)
            found = interceptor.send(await _next(rpc))
            interceptor.succeed()
        except Problem as problem:
            await _abort(context, interceptor, problem)
            raise  # `_abort` does not return
        finally:
            rpc.leave()
            interceptor.end()
        return found

    async def _one_in(self, method: Method, data: bytes, context: Any) -> None:
        async def requests() -> AsyncIterator[bytes]:
            yield data

        await self._stream(method, requests(), context)

    async def _stream(self, method: Method, requests: AsyncIterator[bytes], context: Any) -> None:
        """Answers the messages of a stream in the order of arrival."""
        interceptor = self._receive(method, context)
        try:
            interceptor.admit()
            await self._answer(requests, context, interceptor)
            interceptor.succeed()
        except Problem as problem:
            await _abort(context, interceptor, problem)
        finally:
            interceptor.end()

    async def _answer(
        self,
        requests: AsyncIterator[bytes],
        context: Any,
        interceptor: GrpcInterceptor,
    ) -> None:
        coming: asyncio.Queue[Rpc | None] = asyncio.Queue(AHEAD)
        read = self._read(requests, context, coming, interceptor)
        reader = asyncio.create_task(read)
        self._readers.add(reader)
        try:
            while (rpc := await coming.get()) is not None:
                await _write_answers(rpc, context, interceptor)
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
        requests: AsyncIterator[bytes],
        context: Any,
        coming: asyncio.Queue[Rpc | None],
        interceptor: GrpcInterceptor,
    ) -> None:
        try:
            async for data in requests:
                interceptor.bytes_in += len(data)
                rpc = Rpc(context.time_remaining(), interceptor.request_context)
                await coming.put(rpc)
                self._begin(rpc, interceptor, data)
        finally:
            await coming.put(None)

    def _begin(self, rpc: Rpc, interceptor: GrpcInterceptor, data: bytes) -> None:
        size = len(data)
        if not self._budget.take(size):
            text = "there is no room for the message: other requests use the whole byte budget"
            rpc.refuse(Problem(text, Code.RESOURCE_EXHAUSTED))
            return
        rpc.on_end = partial(self._budget.give_back, size)
        interceptor.begin(rpc, data)


async def _abort(context: Any, interceptor: GrpcInterceptor, problem: Problem) -> None:
    """Ends a call with a problem. ``context.abort`` raises the exception that ends the handler."""
    ending = interceptor.fail(problem)
    await context.abort(_STATUS[ending.status], ending.text, ending.metadata)


async def _next(rpc: Rpc) -> Any:
    """Waits for the next reply to a message; see `Rpc.take`."""
    if not rpc.has_answer:
        come = asyncio.Event()
        rpc.on_answer = come.set
        await come.wait()
    return rpc.take()


async def _write_answers(rpc: Rpc, context: Any, interceptor: GrpcInterceptor) -> None:
    try:
        while (message := await _next(rpc)) is not None:
            await context.write(interceptor.send(message))
    finally:
        rpc.leave()


async def _end_of(reader: asyncio.Task[None]) -> None:
    await asyncio.wait([reader])
    if reader.cancelled():
        refuse("the server is being stopped", Code.UNAVAILABLE)
    reader.result()


_MOST = (1 << 31) - 1  # gRPC's options are signed 32-bit integers


class GrpcioServer(GrpcServer):
    """The gRPC server on ``grpc.aio``."""

    _server: grpc.aio.Server | None = None
    _file: SocketFile | None = None

    async def start(self) -> None:
        """Starts the server, as in `GrpcServer.start`."""
        options = self._options
        self._calls = Calls(self._budget, self._middleware)
        server = grpc.aio.server(
            options=(
                # gRPC's default would let other programs listen at the same address.
                ("grpc.so_reuseport", int(is_shared(self._bound))),
                ("grpc.max_receive_message_length", min(options.max_body, _MOST)),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", min(options.max_streams, _MOST)),
                ("grpc.max_metadata_size", min(options.connections.header_bytes, _MOST)),
                (
                    "grpc.server_handshake_timeout_ms",
                    int(options.connections.header_time_out * 1e3),
                ),
            ),
            maximum_concurrent_rpcs=min(options.max_calls, _MOST),
        )
        for service in self._services:
            methods = {one.name: self._calls.handler(one) for one in service.methods()}
            handler = grpc.method_handlers_generic_handler(service.name, methods)
            server.add_generic_rpc_handlers((handler,))
        # gRPC removes the file of a Unix socket at its end, also the file of another server. So it
        # listens at a private path, and the file is then moved to the path for clients.
        is_file = is_unix(self.address)
        address = private_host(self.address) if is_file else self.address
        try:
            if options.tls is None:
                server.add_insecure_port(address)
            else:
                server.add_secure_port(address, _credentials(options.tls))
        except RuntimeError as error:  # gRPC gives no errno
            raise in_use(errno.EADDRINUSE, self.address, error) from error
        if is_file:
            os.rename(*(one.removeprefix(PREFIX) for one in (address, self.address)))
            self._file = SocketFile(self.address)
        await server.start()
        self._server = server

    async def close(self, seconds: float) -> None:
        """Stops the server, as in `GrpcServer.close`."""
        if self._server is not None:
            if self._file is not None:
                self._file.remove()
            self._health.close()
            self._calls.close()
            await self._server.stop(seconds)


def _credentials(tls: TlsOptions) -> grpc.ServerCredentials:
    pair = tls.key.read_bytes(), tls.cert.read_bytes()
    if tls.client_ca is None:
        return grpc.ssl_server_credentials([pair])
    return grpc.ssl_server_credentials(
        [pair], root_certificates=tls.client_ca.read_bytes(), require_client_auth=True
    )
