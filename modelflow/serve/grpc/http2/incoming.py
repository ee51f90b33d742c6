"""What comes over a connection for its calls."""

from typing import TYPE_CHECKING, Protocol

from zttp import H2ErrorCode

from modelflow.serve.grpc.http2.call_headers import refuse_call, refuse_request
from modelflow.serve.grpc.http2.live_calls import LiveCalls
from modelflow.serve.grpc.http2.method_table import MethodTable
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    from zttp import Data, EndOfMessage, Request
    from zttp import H2Connection as Http2


class ConnectionWriter(Protocol):
    """What it needs of the connection."""

    peer: str
    """The client's address, as gRPC says it."""

    def takes(self, stream: int) -> bool:
        """Tells whether there may be a further call."""

    def wake(self) -> None:
        """Notes that there is a call again."""


class IncomingFrames:
    """Begins calls, and gives them what comes for them. For the loop's thread."""

    def __init__(
        self, board: MethodTable, calls: LiveCalls, http2: "Http2", bearer: ConnectionWriter
    ) -> None:
        """Takes what all connections share, the calls of this one, and what reads its frames."""
        self._board = board
        self._calls = calls
        self._http2 = http2
        self._bearer = bearer

    def request(self, request: "Request") -> None:
        """Takes the head of a call."""
        board, calls = self._board, self._calls
        stream = self._http2.stream(request.stream_id)
        if not self._bearer.takes(request.stream_id):
            stream.reset(H2ErrorCode.REFUSED_STREAM)
            return
        head = board.head(request)
        if refuse_request(request, head, stream):
            return
        try:
            call = board.begin(calls, stream, request, head, self._bearer.peer)
        except Problem as problem:
            refuse_call(problem, stream, is_heard=request.end_stream)
            return
        if not calls:
            self._bearer.wake()
        calls.add(call)
        call.is_heard = request.end_stream
        board.admit(call, head)
        if request.end_stream:
            call.end()

    def data(self, event: "Data") -> None:
        """Takes a part of a call."""
        call = self._calls.find(event.stream_id)
        if call is not None:
            self._calls.hear(call, event.data)
            if call.is_full:
                self._calls.credit.hold(call, self._http2.data_to_send())

    def end(self, event: "EndOfMessage") -> None:
        """Takes the end of what comes for a call."""
        call = self._calls.find(event.stream_id)
        if call is not None:
            call.end()
