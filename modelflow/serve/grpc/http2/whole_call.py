"""A call that comes whole: its head has come before, and its message is one frame."""

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from modelflow.serve.grpc.http2.call_headers import ACCEPTED, OK
from modelflow.serve.grpc.http2.message_reader import frame_message, plain_message
from modelflow.serve.grpc.service import Method, Rpc
from modelflow.serve.requests.status import inside
from modelflow.wire.problem import Code, Problem

if TYPE_CHECKING:
    from zttp import Request, Stream

    from modelflow.serve.grpc.http2.call import GrpcCall


class WholeCallStream(Protocol):
    """What such a call needs of its connection."""

    is_writable: bool
    """The client takes what it is sent."""

    def finished(self, call: "WholeCall") -> None:
        """Notes that a call is answered, and its stream ended."""

    def on_done(self, call: "WholeCall") -> None:
        """Notes that nobody works on a call any more."""

    def hand_over(self, call: "WholeCall", *, is_begun: bool) -> "GrpcCall":
        """Has a call go on as any other, whose answer does not go out at once."""


class WholeCall(Rpc):
    """The usual call: one message, one answer. For the loop's thread.

    It is its own `Rpc`, and ends with one write to its stream. Whatever else happens (it fails, the
    client takes nothing now, or only a part) a `GrpcCall` takes it over.

    Attributes:
        stream: Where its answer goes.
        method: What is called.
        request: Its head.
        data: What has come for it, with the prefix.
        size: Bytes that are taken from the budget.
    """

    __slots__ = ("_deadline", "_line", "_timer", "data", "method", "request", "size", "stream")

    def __init__(
        self, line: WholeCallStream, stream: "Stream", method: Method, request: "Request"
    ) -> None:
        """Begins; `start` is next, when its message is there."""
        super().__init__(None)
        self.stream = stream
        self.method = method
        self.request = request
        self.data = b""
        self.size = 0
        self._line = line
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.on_answer = self._hand_over

    def wait(self, seconds: float) -> None:
        """Says how long the client waits."""
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + seconds
        self._timer = loop.call_at(self._deadline, self._expire)

    def remaining_seconds(self) -> float | None:
        """Returns how long the client still waits; None: for ever."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - asyncio.get_running_loop().time())

    def stop_waiting(self) -> None:
        """Notes that somebody else looks at its time, or nobody."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        problem = Problem("the deadline of the call has passed", Code.DEADLINE_EXCEEDED)
        self._line.hand_over(self, is_begun=False).fail(problem)

    def start(self) -> None:
        """Has its message answered, now or later."""
        try:
            message = self.method.parse(plain_message(self.data))
            self.data = b""  # it has been read
            gather = self.method.gather
            if self._deadline is not None:
                self.seconds = self.remaining_seconds()
                self.method.answer(self, message)
            elif gather is not None:
                self.body = message
                gather(self)
            else:
                self.method.answer(self, message)
        except Problem as problem:
            self.refuse(problem)
        except Exception as error:  # noqa: BLE001 - a mistake of ours, whose text stays inside
            self.refuse(inside(error))

    def answer(self, message: Any, /) -> None:
        """Gives the only answer."""
        line, stream = self._line, self.stream
        if self.is_over or not line.is_writable or isinstance(message, Problem):
            super().answer(message)
            return
        try:
            data = frame_message(message.SerializeToString())
        except Exception as error:  # noqa: BLE001 - as in `start`
            super().answer(inside(error))
            return
        stream.send_response(200, ACCEPTED)
        stream.send_data(data)
        if stream.pending_bytes:
            line.hand_over(self, is_begun=True)
            self.end()
            return
        stream.end_message(OK)
        self._over()
        self.on_answer = self.on_gone = _nothing  # who is told holds it, mostly
        line.finished(self)

    def _hand_over(self) -> None:
        self._line.hand_over(self, is_begun=False)

    def _over(self) -> None:
        self.is_over = True
        self.stop_waiting()
        self._line.on_done(self)
        self.on_end()


def _nothing() -> None:
    """What is called where nobody wants to know."""
