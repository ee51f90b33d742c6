"""What comes over a connection for its calls."""

from typing import TYPE_CHECKING, Protocol

from zttp import H2ErrorCode

from modelflow.serve.grpc.http2.call_headers import (
    refuse_call,
    refuse_request,
    seconds_of,
    without_deadline,
)
from modelflow.serve.grpc.http2.live_calls import LiveCalls
from modelflow.serve.grpc.http2.message_reader import is_plain
from modelflow.serve.grpc.http2.method_table import MethodTable
from modelflow.serve.grpc.http2.whole_call import WholeCall
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zttp import Data, EndOfMessage, Request, Stream
    from zttp import H2Connection as Http2

_PREFIX = 5  # bytes before a message


class ConnectionWriter(Protocol):
    """What it needs of the connection."""

    peer: str
    """The client's address, as gRPC says it."""

    def takes(self, stream: int) -> bool:
        """Tells whether there may be a further call."""

    def wake(self) -> None:
        """Notes that there is a call again."""


class IncomingFrames:
    """Begins calls, and gives them what comes for them. For the loop's thread.

    A call is tried as a `WholeCall` where its head is known; if it turns out to be another it goes
    on as any, before anything has come of it.
    """

    def __init__(
        self, board: MethodTable, calls: LiveCalls, http2: "Http2", bearer: ConnectionWriter
    ) -> None:
        """Takes what all connections share, the calls of this one, and what reads its frames."""
        self._board = board
        self._calls = calls
        self._http2 = http2
        self._bearer = bearer
        self._before: Hashable = None  # the head of the last other call

    def request(self, request: "Request") -> None:
        """Takes the head of a call."""
        number, calls, board = request.stream_id, self._calls, self._board
        stream = self._http2.stream(number)
        if not self._bearer.takes(number):
            stream.reset(H2ErrorCode.REFUSED_STREAM)
            return
        key, time_out = (request.method, request.target, *request.headers), None
        method = board.heads.known.get(key)
        if method is None:
            headers, time_out = without_deadline(request.headers)
            key = (request.method, request.target, *headers)
            method = board.heads.known.get(key)
        is_full = len(board.calls) >= board.limits.calls
        seconds = None if method is None or is_full else _seconds(time_out)
        if method is None or request.end_stream or is_full or seconds == 0.0:
            self._begin(request, stream, key, time_out)
            return
        if not calls.others and not calls.whole:
            self._bearer.wake()
        call = WholeCall(calls, stream, method, request)
        board.calls[call] = None
        calls.whole[number] = calls.on_begin[number] = call
        if seconds is not None:
            call.wait(seconds)

    def _begin(
        self, request: "Request", stream: "Stream", key: "Hashable", time_out: bytes | None
    ) -> None:
        board, calls = self._board, self._calls
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
        if key == self._before:  # twice in a row
            method = board.usual(head, request.target, time_out)
            if method is not None:
                board.heads.learn(key, method)
        self._before = key

    def data(self, event: "Data") -> None:
        """Takes a part of a call."""
        calls, number, data = self._calls, event.stream_id, event.data
        whole = calls.on_begin.get(number)
        if whole is not None:
            size, limits = len(data) - _PREFIX, self._board.limits
            is_whole = not whole.data and is_plain(data, limits.message)
            if is_whole and limits.messages.take(size):
                whole.data, whole.size = data, size
                return
            calls.begin_other(whole, self._bearer.peer)
        call = calls.find(number)
        if call is not None:
            calls.hear(call, data)
            if call.is_full:
                calls.credit.hold(call, self._http2.data_to_send())

    def end(self, event: "EndOfMessage") -> None:
        """Takes the end of what comes for a call."""
        calls, number = self._calls, event.stream_id
        whole = calls.on_begin.pop(number, None)
        if whole is not None:
            if whole.data:
                whole.start()
                return
            calls.begin_other(whole, self._bearer.peer)
        call = calls.find(number)
        if call is not None:
            call.end()

    def look(self) -> None:
        """Looks, behind a turn, for whose messages there is still to wait."""
        calls = self._calls
        if calls.on_begin:
            for whole in tuple(calls.on_begin.values()):
                calls.begin_other(whole, self._bearer.peer)
        calls.look()


def _seconds(time_out: bytes | None) -> float | None:
    """How long the client waits; None: for ever; 0: not at all, or nobody knows."""
    try:
        return seconds_of(time_out)
    except Problem:
        return 0.0
