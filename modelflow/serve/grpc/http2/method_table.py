"""What all connections of a server share: the methods, the limits, and how many calls there are."""

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
    """Brings calls to their methods. For the loop's thread.

    Attributes:
        middleware: What every call passes first.
        options: What calls may cost.
        budget: Where the bytes of messages are taken from.
        connections: All of the server's.
        reading: The calls whose message has begun, and is not there.
        writing: The calls whose answer has begun, and is not taken.
        calls: All that are under way.
    """

    def __init__(
        self,
        services: Iterable[Service],
        middleware: Middleware,
        options: ServeOptions,
        budget: BodyBudget,
        connections: Connections,
    ) -> None:
        """Takes what there is to call, and what it may cost."""
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
        """Returns what is called.

        Raises:
            Problem: there is none, its metadata are too long, or there are too many calls.
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
                f"there are {len(self.calls)} calls; no further one is taken now",
                Code.RESOURCE_EXHAUSTED,
            )
        return method

    def head(self, request: "Request") -> CallHead:
        """Returns what the headers of a request say."""
        return head_of(request.headers, self.middleware.marks)

    def begin(
        self,
        live_calls: "LiveCalls",
        stream: "Stream",
        request: "Request",
        head: CallHead,
        peer: str,
    ) -> GrpcCall:
        """Begins a call; `admit` is next.

        Args:
            live_calls: The connection that it comes over.
            stream: Where its answers go.
            request: What has come.
            head: What its headers say.
            peer: The client's address, as gRPC says it.

        Raises:
            Problem: as `method`.
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
        """Lets a call go on, or ends it: its key, and how long its client waits."""
        try:
            call.interceptor.admit()
            call.wait(seconds_of(head.time_out))
        except Problem as problem:
            call.fail(problem)

    def watch(self, call: GrpcCall) -> None:
        """Has a message come in its time, or the call ends."""
        if call.is_awaited != call.is_timed:
            call.is_timed = not call.is_timed
            (self.reading.add if call.is_timed else self.reading.forget)(call)

    def forget(self, call: GrpcCall) -> None:
        """Notes that a call is over, and that its answer is taken, or never will be."""
        self.calls.pop(call, None)
        self.reading.forget(call)
        self.writing.forget(call)


def _late(call: GrpcCall) -> None:
    call.fail(Problem("the message was not there in time", Code.DEADLINE_EXCEEDED))


def _unread(call: GrpcCall) -> None:
    call.drop()
