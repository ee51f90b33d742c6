"""The calls of one connection whose replies are not complete or not sent yet."""

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
    """The calls of a connection. Starts calls and passes received data to them.

    Call the methods on the loop's thread.

    Attributes:
        is_writable: Whether the transport accepts data for the client.
        credit: The withheld flow-control credit.
    """

    def __init__(self, table: MethodTable, http2: "Http2", connection: "GrpcConnection") -> None:
        """Stores the shared method table, the frame parser and the connection."""
        self.flush = connection.send_soon
        self.is_writable = True
        self.credit = Credit()
        self._table = table
        self._http2 = http2
        self._connection = connection
        self._calls: dict[int, GrpcCall] = {}  # by stream
        self._parked: dict[GrpcCall, None] = {}  # with data that wait for the client's flow control
        self._heard: list[GrpcCall] = []  # with data in this loop turn

    def __len__(self) -> int:
        return len(self._calls)

    def request(self, request: "Request") -> None:
        """Starts a call from its headers, or refuses the call."""
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
        """Passes received data to their call. Ignores data for a finished call."""
        call = self._calls.get(event.stream_id)
        if call is not None:
            call.receive(event.data)
            self._heard.append(call)
            if call.is_full:
                self.credit.hold(call, self._http2.data_to_send())

    def end(self, event: "EndOfMessage") -> None:
        """Passes the end of the client's data to the call."""
        call = self._calls.get(event.stream_id)
        if call is not None:
            call.end()

    def look(self) -> None:
        """Starts or stops the message timeouts of the calls with data in this loop turn."""
        for call in self._heard:
            self._table.watch(call)
        self._heard.clear()

    def go_on(self) -> None:
        """Continues the calls for which the client has raised the flow-control window."""
        for call in tuple(self._parked):
            if not call.is_waiting:
                del self._parked[call]
                self._table.writing.forget(call)
                if call.is_over:
                    self.on_answer(call)
                else:
                    call.pump()

    def pump(self) -> None:
        """Sends the ready replies of all calls."""
        for call in tuple(self._calls.values()):
            call.pump()

    def on_cancel(self, stream: int) -> None:
        """Cancels the call of a stream that the client has reset."""
        call = self._calls.get(stream)
        if call is not None:
            call.on_cancel()
            self._forget(call)

    def drop_all(self) -> None:
        """Cancels every call."""
        for call in tuple(self._calls.values()):
            call.on_cancel()
            self._table.forget(call)
        self._calls.clear()
        self._parked.clear()

    # -- called by the calls ----------------------------------------------------------------------

    def park(self, call: GrpcCall) -> None:
        """Records that sent data of a call wait for the client's flow control."""
        if call not in self._parked:
            self._parked[call] = None
            self._table.writing.add(call)

    def on_answer(self, call: GrpcCall) -> None:
        """Forgets a call that has its status, unless data still wait for the client."""
        if call not in self._parked:
            end_stream(call.stream, is_heard=call.is_heard)
            self._forget(call)

    def resume(self, call: GrpcCall) -> None:
        """Releases the credit of a call that accepts messages again."""
        self.credit.release(call)
        self.flush()

    def drop(self, call: GrpcCall) -> None:
        """Resets a call whose client does not read the replies."""
        call.stream.reset(H2ErrorCode.CANCEL)
        self._forget(call)
        self.flush()

    def _forget(self, call: GrpcCall) -> None:
        del self._calls[call.stream.stream_id]
        self._parked.pop(call, None)
        self._table.forget(call)
        if not self._calls:
            self._connection.rest()
