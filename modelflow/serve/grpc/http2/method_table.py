"""The state that all connections of a server share: methods, limits and running calls."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from modelflow.http.connections import Connections
from modelflow.http.listener import ReplyTimeouts
from modelflow.http.reply import BodyBudget
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.grpc.http2.call import GrpcCall
from modelflow.serve.grpc.http2.call_headers import (
    CallHead,
    head_of,
    seconds_of,
    texts_of,
)
from modelflow.serve.grpc.http2.message_reader import MessageReader
from modelflow.serve.grpc.interceptor import GrpcInterceptor
from modelflow.serve.grpc.service import Method, Service
from modelflow.serve.options import ServeOptions
from modelflow.wire.problem import Code, Problem, refuse, shorten

if TYPE_CHECKING:
    from zttp import Request, Stream

    from modelflow.serve.grpc.http2.live_calls import LiveCalls


class MethodTable:
    """The table of methods, which also creates calls. Call the methods on the loop's thread.

    Attributes:
        middleware: The checks for every call.
        options: The limits on calls.
        budget: The byte budget for messages.
        connections: All connections of the server.
        reading: The timeouts of calls that wait for the rest of a message.
        writing: The timeouts of calls that wait for the client to read a reply.
        calls: All running calls.
    """

    def __init__(
        self,
        services: Iterable[Service],
        middleware: Middleware,
        options: ServeOptions,
        budget: BodyBudget,
        connections: Connections,
    ) -> None:
        """Stores the methods of the services, and the limits."""
        self.middleware = middleware
        self.options = options
        self.budget = budget
        self.connections = connections
        self.reading = ReplyTimeouts(options.body_time_out, _late)
        self.writing = ReplyTimeouts(options.connections.keepalive, _unread)
        self.calls: dict[GrpcCall, None] = {}
        self._methods: dict[bytes, Method] = {
            method.path.encode(): method for service in services for method in service.methods()
        }

    def method(self, head: CallHead, target: bytes) -> Method:
        """Returns the method of a call.

        Raises:
            Problem: The method does not exist, the metadata are too long, or the server has too
                many calls.
        """
        most = self.options.connections.header_bytes
        if head.size > most:
            refuse(
                f"the metadata have {head.size} bytes; at most {most} are taken",
                Code.RESOURCE_EXHAUSTED,
            )
        method = self._methods.get(target)
        if method is None:
            refuse(f"there is no method {shorten(target.decode('latin-1'))}", Code.UNIMPLEMENTED)
        if len(self.calls) >= self.options.max_calls:
            refuse(
                f"the server has {len(self.calls)} calls, the most it accepts; call again later",
                Code.RESOURCE_EXHAUSTED,
            )
        return method

    def head(self, request: "Request") -> CallHead:
        """Returns the values of the headers of a request."""
        return head_of(request.headers, self.middleware.marks)

    def begin(
        self,
        live_calls: "LiveCalls",
        stream: "Stream",
        request: "Request",
        head: CallHead,
        peer: str,
    ) -> GrpcCall:
        """Creates a call. Call `admit` next.

        Args:
            live_calls: The calls of the same connection.
            stream: The stream for the replies.
            request: The headers of the call.
            head: The values of the headers.
            peer: The client's address in gRPC's form.

        Raises:
            Problem: As in `method`.
        """
        method = self.method(head, request.target)
        metadata = texts_of(request.headers) if head.is_marked or self.middleware.sees_all else ()
        interceptor = GrpcInterceptor(self.middleware, method, metadata, lambda: peer)
        budget = self.budget
        reader = MessageReader(self.options.max_body, budget, head.encoding)
        call = GrpcCall(live_calls, stream, method, interceptor, reader, budget)
        self.calls[call] = None
        return call

    def admit(self, call: GrpcCall, head: CallHead) -> None:
        """Checks the key of a call and sets its deadline, or fails the call."""
        try:
            call.interceptor.admit()
            call.wait(seconds_of(head.time_out))
        except Problem as problem:
            call.fail(problem)

    def watch(self, call: GrpcCall) -> None:
        """Starts or stops the timeout for the message that a call waits for."""
        if call.is_awaited != call.is_timed:
            call.is_timed = not call.is_timed
            (self.reading.add if call.is_timed else self.reading.forget)(call)

    def forget(self, call: GrpcCall) -> None:
        """Removes a call that is over and has no more data to send."""
        self.calls.pop(call, None)
        self.reading.forget(call)
        self.writing.forget(call)


def _late(call: GrpcCall) -> None:
    call.fail(Problem("the message did not arrive in time", Code.DEADLINE_EXCEEDED))


def _unread(call: GrpcCall) -> None:
    call.drop()
