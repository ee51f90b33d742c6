"""The calls of one connection that have an answer to come, or to be taken."""

from typing import TYPE_CHECKING

from zttp import H2ErrorCode

from modelflow.serve.grpc.http2.call import GrpcCall
from modelflow.serve.grpc.http2.call_headers import end_stream, refuse_call, refuse_request
from modelflow.serve.grpc.http2.connection_use import Credit
from modelflow.serve.grpc.http2.method_table import MethodTable
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    from zttp import Data, EndOfMessage, Request
    from zttp import H2Connection as Http2

    from modelflow.serve.grpc.http2.connection import GrpcConnection


class LiveCalls:
    """The calls of a connection: begins them, and gives them what comes. For the loop's thread.

    Attributes:
        is_writable: The client takes what it is sent.
        credit: What clients may not send yet.
    """

    def __init__(self, table: MethodTable, http2: "Http2", connection: "GrpcConnection") -> None:
        """Takes what all connections share, what reads the frames, and the connection."""
        self.flush = connection.send_soon
        self.is_writable = True
        self.credit = Credit()
        self._table = table
        self._http2 = http2
        self._connection = connection
        self._calls: dict[int, GrpcCall] = {}  # by stream
        self._parked: dict[GrpcCall, None] = {}  # whose client has yet to take what it was sent
        self._heard: list[GrpcCall] = []  # in this turn

    def __len__(self) -> int:
        return len(self._calls)

    def request(self, request: "Request") -> None:
        """Takes the head of a call."""
        table, number = self._table, request.stream_id
        stream = self._http2.stream(number)
        if not self._connection.takes(number):
            stream.reset(H2ErrorCode.REFUSED_STREAM)
            return
        head = table.head(request)
        if refuse_request(request, head, stream):
            return
        try:
            call = table.begin(self, stream, request, head, self._connection.peer)
        except Problem as problem:
            refuse_call(problem, stream, is_heard=request.end_stream)
            return
        if not self._calls:
            self._connection.wake()
        self._calls[number] = call
        self._heard.append(call)
        call.is_heard = request.end_stream
        table.admit(call, head)
        if request.end_stream:
            call.end()

    def data(self, event: "Data") -> None:
        """Takes a part of a call; of one that is over nobody wants it."""
        call = self._calls.get(event.stream_id)
        if call is not None:
            call.receive(event.data)
            self._heard.append(call)
            if call.is_full:
                self.credit.hold(call, self._http2.data_to_send())

    def end(self, event: "EndOfMessage") -> None:
        """Takes the end of what comes for a call."""
        call = self._calls.get(event.stream_id)
        if call is not None:
            call.end()

    def look(self) -> None:
        """Looks, behind a turn, for whose messages there is still to wait."""
        for call in self._heard:
            self._table.watch(call)
        self._heard.clear()

    def go_on(self) -> None:
        """Sends on where the client has made room."""
        for call in tuple(self._parked):
            if not call.is_waiting:
                del self._parked[call]
                self._table.writing.forget(call)
                if call.is_over:
                    self.on_answer(call)
                else:
                    call.pump()

    def pump(self) -> None:
        """Sends what there is of all."""
        for call in tuple(self._calls.values()):
            call.pump()

    def on_cancel(self, stream: int) -> None:
        """Notes that the client has given up the call of a stream, if there is one."""
        call = self._calls.get(stream)
        if call is not None:
            call.on_cancel()
            self._forget(call)

    def drop_all(self) -> None:
        """Tells every call that nobody waits for it."""
        for call in tuple(self._calls.values()):
            call.on_cancel()
            self._table.forget(call)
        self._calls.clear()
        self._parked.clear()

    # -- the calls' calls -------------------------------------------------------------------------

    def park(self, call: GrpcCall) -> None:
        """Notes that a call waits for its client to take what it was sent."""
        if call not in self._parked:
            self._parked[call] = None
            self._table.writing.add(call)

    def on_answer(self, call: GrpcCall) -> None:
        """Notes that a call has its status."""
        if call not in self._parked:
            end_stream(call.stream, is_heard=call.is_heard)
            self._forget(call)

    def resume(self, call: GrpcCall) -> None:
        """Notes that a call takes messages again."""
        self.credit.release(call)
        self.flush()

    def drop(self, call: GrpcCall) -> None:
        """Ends a call whose client does not take what it is sent."""
        call.stream.reset(H2ErrorCode.CANCEL)
        self._forget(call)
        self.flush()

    def _forget(self, call: GrpcCall) -> None:
        del self._calls[call.stream.stream_id]
        self._parked.pop(call, None)
        self._table.forget(call)
        if not self._calls:
            self._connection.rest()
