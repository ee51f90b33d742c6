"""One call: a stream of HTTP/2, its messages and their answers."""

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
    """A call. For the loop's thread.

    Attributes:
        interceptor: Its way through the server.
        stream: Where its answers go.
        is_heard: The client has sent all that it will.
        is_over: It has its status, or its client has gone.
        is_timed: Somebody watches how long a message, or the taking of an answer, takes.
        credit: Bytes that the client may send, and is not told yet.
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
        """Begins; see `wait` for its deadline."""
        self.interceptor = interceptor
        self.stream = stream
        self.is_heard = self.is_over = self.is_timed = False
        self.credit = 0
        self._live_calls = live_calls
        self._method = method
        self._reader = reader
        self._budget = budget
        self._coming: deque[Rpc] = deque()  # in the order of their messages
        self._is_begun = False  # its headers are sent
        self._is_closing = False  # the server ends: no further messages
        self._is_deaf = False  # what still comes is not wanted
        self._is_pumping = False
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, seconds: float | None) -> None:
        """Says how long the client waits for the end; None: for ever."""
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.time() + seconds
            self._timer = loop.call_at(self._deadline, self._expire)

    # -- what comes -------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Tells whether it takes no further messages until it has answered some."""
        return len(self._coming) >= AHEAD

    @property
    def is_awaited(self) -> bool:
        """Tells whether the client has begun a message that is not there yet."""
        if self.is_over or self.is_heard or self._is_deaf or self.is_full:
            return False
        return not self._method.is_stream_in or not self._reader.is_between

    def receive(self, data: bytes) -> None:
        """Takes what has come; of a call that is over nobody wants it."""
        if self.is_over or self._is_deaf:
            return
        try:
            self._reader.add(data)
        except Problem as problem:
            self._refuse(problem)
        else:
            self._read()

    def end(self) -> None:
        """Notes that the client has sent all that it will."""
        self.is_heard = True
        if self.is_over:
            return
        if not self._is_deaf:
            self._read()
        self.pump()

    def close(self) -> None:
        """Takes no further messages of a stream; it ends when those that came are answered."""
        if self._method.is_stream_in and not self.is_heard and not self.is_over:
            self._is_closing = self._is_deaf = True
            self._reader.drop()
            self.pump()

    def on_cancel(self) -> None:
        """Notes that nobody waits for answers any more."""
        if not self.is_over:
            self._over()

    def drop(self) -> None:
        """Gives it up: its client does not take what it is sent."""
        self.on_cancel()
        self._live_calls.drop(self)

    def fail(self, problem: Problem) -> None:
        """Ends it with a status that says what went wrong."""
        if not self.is_over:
            self._say(trailers_of(self.interceptor.fail(problem)))

    def _read(self) -> None:
        """Begins with the messages that are there; one that is not to be had is the last."""
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
        self._method.begin(rpc, data)

    def _refuse(self, problem: Problem) -> None:
        """Fails behind the answers to the messages that came before."""
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

    # -- what goes --------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Tells whether the client has yet to take what it was sent."""
        return bool(self.stream.pending_bytes)

    def pump(self) -> None:
        """Sends the answers that are there, as far as the client takes them."""
        if self._is_pumping or self.is_over:
            return
        self._is_pumping = True
        try:
            self._send_all()
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is not left waiting
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
        """Ends it with a status; behind it nothing is sent."""
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
