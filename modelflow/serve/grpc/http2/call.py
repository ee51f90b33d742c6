"""One gRPC call: a stream of HTTP/2, its messages and their replies."""

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from modelflow.http.reply import BodyBudget
from modelflow.serve.grpc.http2.call_headers import ACCEPTED, OK, Pairs, pairs_of, trailers_of
from modelflow.serve.grpc.http2.message_reader import MessageReader, frame_message
from modelflow.serve.grpc.interceptor import GrpcInterceptor
from modelflow.serve.grpc.service import AHEAD, Method, Rpc
from modelflow.serve.requests.status import problem_of
from modelflow.wire.problem import Code, Problem, refuse

if TYPE_CHECKING:
    from zttp import Stream

    from modelflow.serve.grpc.http2.live_calls import LiveCalls


class GrpcCall:
    """A gRPC call. Call the methods on the loop's thread.

    Attributes:
        interceptor: The middleware steps of the call.
        stream: The stream for the replies.
        is_heard: Whether the client has sent all its messages.
        is_over: Whether the call has its status, or the client has gone.
        is_timed: Whether the call is in the list of timeouts for receiving a message.
        credit: Flow-control bytes that were withheld from the client.
    """

    __slots__ = (
        "_budget",
        "_coming",
        "_deadline",
        "_is_begun",
        "_is_closing",
        "_is_deaf",
        "_is_pumping",
        "_live_calls",
        "_method",
        "_reader",
        "_timer",
        "credit",
        "interceptor",
        "is_heard",
        "is_over",
        "is_timed",
        "stream",
    )

    def __init__(
        self,
        live_calls: "LiveCalls",
        stream: "Stream",
        method: Method,
        interceptor: GrpcInterceptor,
        reader: MessageReader,
        budget: BodyBudget,
    ) -> None:
        """Stores the parts of the call. `wait` sets the deadline."""
        self.interceptor = interceptor
        self.stream = stream
        self.is_heard = self.is_over = self.is_timed = False
        self.credit = 0
        self._live_calls = live_calls
        self._method = method
        self._reader = reader
        self._budget = budget
        self._coming: deque[Rpc] = deque()  # in the order of their messages
        self._is_begun = False  # the headers are sent
        self._is_closing = False  # the server stops: no further messages are read
        self._is_deaf = False  # further data are discarded
        self._is_pumping = False
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, seconds: float | None) -> None:
        """Sets the deadline of the call; None for no deadline."""
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.time() + seconds
            self._timer = loop.call_at(self._deadline, self._expire)

    # -- receiving --------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Returns whether the call must answer messages before the next message is read."""
        return len(self._coming) >= AHEAD

    @property
    def is_awaited(self) -> bool:
        """Returns whether the client has to send the rest of a message."""
        if self.is_over or self.is_heard or self._is_deaf or self.is_full:
            return False
        return not self._method.is_stream_in or not self._reader.is_between

    def receive(self, data: bytes) -> None:
        """Receives data from the client. Discards the data if the call is over."""
        if self.is_over or self._is_deaf:
            return
        try:
            self._reader.add(data)
        except Problem as problem:
            self._refuse(problem)
        else:
            self._read()

    def end(self) -> None:
        """Records that the client has sent all its messages."""
        self.is_heard = True
        if self.is_over:
            return
        if not self._is_deaf:
            self._read()
        self.pump()

    def close(self) -> None:
        """Stops reading messages. The call ends after the received messages are answered."""
        if self._method.is_stream_in and not self.is_heard and not self.is_over:
            self._is_closing = self._is_deaf = True
            self._reader.drop()
            self.pump()

    def on_cancel(self) -> None:
        """Records that the client has gone."""
        if not self.is_over:
            self._over()

    def drop(self) -> None:
        """Cancels the call because the client does not read the replies."""
        self.on_cancel()
        self._live_calls.drop(self)

    def fail(self, problem: Problem) -> None:
        """Ends the call with an error status."""
        if not self.is_over:
            self._say(trailers_of(self.interceptor.fail(problem)))

    def _read(self) -> None:
        """Starts the complete messages. A damaged message is the last one."""
        try:
            if self._method.is_stream_in:
                while not self.is_full and (data := self._reader.next()) is not None:
                    self._begin(data)
            elif (only := self._reader.only(self._method.path, self.is_heard)) is not None:
                self._begin(only)
            if self.is_heard and not self.is_full and not self._reader.is_between:
                refuse(
                    f"{self._method.path}: the call ends in the middle of a message", Code.INTERNAL
                )
        except Problem as problem:
            self._refuse(problem)

    def _begin(self, data: bytes) -> None:
        self.interceptor.bytes_in += len(data)
        rpc = Rpc(self._seconds(), self.interceptor.request_context)
        rpc.on_end = partial(self._budget.give_back, len(data))
        rpc.on_answer = self.pump
        self._coming.append(rpc)
        self.interceptor.begin(rpc, data)

    def _refuse(self, problem: Problem) -> None:
        """Fails the call after the replies to the earlier messages."""
        self._reader.drop()
        self._is_deaf = True
        rpc = Rpc(None)
        rpc.on_answer = self.pump
        self._coming.append(rpc)
        rpc.refuse(problem)

    def _seconds(self) -> float | None:
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - asyncio.get_running_loop().time())

    # -- sending ----------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Returns whether sent data wait for the client's flow control."""
        return bool(self.stream.pending_bytes)

    def pump(self) -> None:
        """Sends the ready replies as far as the client's flow control allows."""
        if self._is_pumping or self.is_over:
            return
        self._is_pumping = True
        try:
            self._send_all()
        except Exception as error:  # noqa: BLE001 - the client must get a reply to any error
            self.fail(problem_of(error))
        finally:
            self._is_pumping = False

    def _send_all(self) -> None:
        coming = self._coming
        while (
            coming and coming[0].has_answer and self._live_calls.is_writable and not self.is_waiting
        ):
            message = coming[0].take()
            if message is not None:
                self._send(self.interceptor.send(message))
                continue
            was_full = self.is_full
            coming.popleft()
            if was_full and not self._is_deaf:
                self._read()
                self._live_calls.resume(self)
        if coming or self.is_over:
            return
        if self._is_closing:
            refuse("the server is being stopped", Code.UNAVAILABLE)
        if self.is_heard:
            self.interceptor.succeed()
            self._say(OK + pairs_of(self.interceptor.trailers))

    def _send(self, message: bytes) -> None:
        if not self._is_begun:
            self._is_begun = True
            self.stream.send_response(200, ACCEPTED)
        self.stream.send_data(frame_message(message))
        self._live_calls.flush()
        if self.is_waiting:
            self._live_calls.park(self)

    def _say(self, trailers: Pairs) -> None:
        """Sends the status and ends the call."""
        if self._is_begun:
            self.stream.end_message(trailers)
        else:
            self.stream.send_response(200, ACCEPTED + trailers, end_stream=True)
        self._over()
        self._live_calls.flush()
        self._live_calls.on_answer(self)

    def _expire(self) -> None:
        self._timer = None
        self.fail(Problem("the deadline of the call has passed", Code.DEADLINE_EXCEEDED))

    def _over(self) -> None:
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._reader.drop()
        for rpc in self._coming:
            rpc.leave()
        self._coming.clear()
        self.interceptor.end()
