r"""One HTTP request: its head, its trace, its handler and the reply that it waits for.

What a head means depends on its bytes alone. So where a message begins with one that was read
before, and ends with the body that it announces, nothing of it need be read again::

    b"POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: 37\r\n\r\n" + 37 bytes
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from modelflow.ipc.loop_queue import LoopQueue

if TYPE_CHECKING:
    from modelflow.http.reply import BodyBudget, BodyLimits, Reply


class RequestHead:
    """What a request says before its body. A client sends the same one with every request.

    Attributes:
        method: ``GET``, ``POST``, ...
        target: What was asked for: path and query, as sent; see `modelflow.http.request`.
        headers: Names in lower case, and values, in the order in which they came.
        named: The same by name; of several of one name the last.
        route: What whoever handles requests has found out from the head alone; None: nothing yet.
        limits: What `Handler.begin` says of every request with this head; None: it is to be asked
            of each.
    """

    __slots__ = ("headers", "limits", "method", "named", "route", "target")

    def __init__(
        self, method: str, target: str, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """Takes what was read."""
        self.method = method
        self.target = target
        self.headers = headers
        self.named: Mapping[bytes, bytes] = dict(headers)
        self.route: Any = None
        self.limits: BodyLimits | None = None


LONGEST = 2048
"""Bytes of the longest head that is kept."""
END = b"\r\n\r\n"
"""What is behind a head."""

_MOST = 512  # heads that are kept: 1 MiB together


class HeaderCache:
    """The heads that the connections of a server have sent more than once. For its thread alone.

    Each of a request over HTTP/1.1 behind which the connection goes on.

    Attributes:
        known: By their bytes, up to the body; with the length of that.
    """

    def __init__(self) -> None:
        self.known: dict[bytes, tuple[RequestHead, int]] = {}

    def learn(self, message: bytes, head: RequestHead, length: int) -> None:
        """Keeps the head of a whole message, which was read as ``head``.

        Where there are too many all are forgotten: those in use come again.

        Args:
            message: Head and body.
            head: What the head says.
            length: Bytes of the body.
        """
        end = len(message) - length
        if len(END) < end <= LONGEST:
            if len(self.known) >= _MOST:
                self.known.clear()
            self.known[message[:end]] = head, length


# Without a user's name before the host: RFC 9110, 4.2.4.
_ABSOLUTE = re.compile(r"https?://(?P<host>[^/?#@\s]+)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?", re.I)


def split_target(target: str) -> tuple[str, str | None]:
    """Returns path and query of a request's target, and the host that it names; None: it does not.

    ``http://h:80/a?b`` (RFC 9112, 3.2.2), as a client of a proxy sends it, is ``/a?b`` of ``h:80``;
    any other form is returned as it is.

    Args:
        target: As sent.
    """
    if target.startswith("/"):
        return target, None
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        return target, None
    return (found["path"] or "/") + (found["query"] or ""), found["host"]


_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?", re.ASCII)
_NO_VERSION = "ff"
# What must be passed on, at least; what is longer is dropped as a whole.
_LONGEST_STATE = 512


@dataclass(frozen=True, slots=True)
class Trace:
    """What a caller said of the trace that its request belongs to, to be passed on as it is.

    Attributes:
        id: The trace's id: 32 digits of 16.
        parent: The whole of ``traceparent``.
        state: The whole of ``tracestate``; ``""``: none was sent, or none that may be passed on.
    """

    id: str
    parent: str
    state: str = ""


def read_trace(parents: Sequence[str], states: Sequence[str] = ()) -> Trace | None:
    """Returns what the headers say; None: there is no ``traceparent``, or none that is valid.

    A version that is not known yet is read as far as it is known.

    Args:
        parents: The values of all headers ``traceparent``.
        states: The values of all headers ``tracestate``.
    """
    if len(parents) != 1:
        return None
    parent = parents[0].strip(" \t")
    found = _FORM.fullmatch(parent)
    if found is None:
        return None
    version, trace, span, more = found.groups()
    is_known_form = version != _NO_VERSION and not (version == "00" and more)
    if not is_known_form or not trace.strip("0") or not span.strip("0"):
        return None
    return Trace(trace, parent, _state(states))


def _state(states: Sequence[str]) -> str:
    state = ",".join(one.strip(" \t") for one in states)
    is_fit = len(state) <= _LONGEST_STATE and state.isascii() and state.isprintable()
    return state if is_fit else ""


class StreamingResponse:
    """The body of an answer that is being sent. For the server's thread.

    Attributes:
        on_room: Called when the client has taken what it was sent, and takes more.
        on_gone: Called when it has gone before the end.
        sent: How many bytes of the body were sent.
    """

    __slots__ = ("_end", "_is_chunked", "_is_over", "_room", "_write", "on_gone", "on_room", "sent")

    def __init__(
        self,
        write: Callable[[bytes], None],
        room: Callable[[], bool],
        end: Callable[[], None],
        *,
        is_chunked: bool,
    ) -> None:
        """Made by the connection.

        Args:
            write: Takes bytes for the client.
            room: Tells whether the client takes what it is sent.
            end: Called behind the last part.
            is_chunked: Each part says its length; else the end of the connection is the end.
        """
        self.on_room: Callable[[], None] = _nothing
        self.on_gone: Callable[[], None] = _nothing
        self.sent = 0
        self._write = write
        self._room = room
        self._end = end
        self._is_chunked = is_chunked
        self._is_over = False

    @property
    def has_room(self) -> bool:
        """Tells whether the client takes what it is sent; more is kept in memory until it does."""
        return not self._is_over and self._room()

    def send(self, data: bytes) -> None:
        """Sends a part."""
        if data and not self._is_over:  # a part of no bytes would be the end
            self.sent += len(data)
            self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    def end(self) -> None:
        """Ends the answer."""
        if not self._is_over:
            self._is_over = True
            if self._is_chunked:
                self._write(b"0\r\n\r\n")
            self._end()

    def on_cancel(self) -> None:
        """Notes that the client has gone (called by the connection)."""
        if not self._is_over:
            self._is_over = True
            self.on_gone()


@dataclass(frozen=True, slots=True)
class StreamingReply:
    """An answer whose body comes part by part.

    Attributes:
        status: The HTTP status.
        begin: Called when its turn has come: all that was asked for before on the same connection
            is answered. Is given what the body goes into.
        headers: Name -> value.
        own: Further headers, which differ from answer to answer.
    """

    status: int
    begin: Callable[[StreamingResponse], None]
    headers: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


def _nothing() -> None:
    """What is called where nobody wants to know."""


class Handler(Protocol):
    """Who answers requests. Called on the server's thread, which it must not hold up."""

    def begin(self, http_request: "HttpRequest") -> "BodyLimits":
        """Looks at the head of a request; says what its body may be (`RequestHead.limits`).

        Raises:
            RefusedError: it is answered so, without its body.
        """

    def handle(self, http_request: "HttpRequest") -> None:
        """Takes a whole request; calls `HttpRequest.answer`, now or later."""


class RequestObserver(Protocol):
    """What is known of a request beside what it asks, and noted of it. For the server's thread."""

    def enter(self, model: str, version: int) -> Mapping[str, Any]:
        """Notes which model it is for; returns what its session is told (its context)."""

    def watcher(self) -> Any:
        """Returns who is told of the batches of a session of its; None: nobody."""

    def on_answer(self, reply: "Reply | StreamingReply") -> "Reply | StreamingReply":
        """Notes how it is answered; returns the answer as it goes out."""

    def over(self, bytes_in: int, bytes_out: int) -> None:
        """Notes that all of the answer was given."""

    def on_cancel(self, bytes_in: int, bytes_out: int) -> None:
        """Notes that who asked has gone away before that."""


class HttpRequest:
    """A request, and who is waiting for its answer. For the server's thread but
    `answer_soon` and `call_soon`.

    Attributes:
        head: What was read of it before its body.
        body: What was sent, once it is whole.
        budget: What the body's bytes are given back to when it is over; None: nothing.
        client: The address of who asks; ``""``: unknown.
        on_end: Called once when it is answered, or who asks has gone away.
        on_gone: Called before that if who asks has gone away: what works on it may stop.
        request_context: What is noted of it; None: nothing.
        is_over: It is answered, or who asks has gone away.
    """

    __slots__ = (
        "_is_answered",
        "_loop_queue",
        "_send",
        "body",
        "budget",
        "client",
        "head",
        "is_over",
        "on_end",
        "on_gone",
        "request_context",
    )

    def __init__(
        self,
        head: RequestHead,
        client: str,
        send: Callable[["HttpRequest", "Reply | StreamingReply"], None],
        loop_queue: LoopQueue,
    ) -> None:
        """Made by the connection: ``send`` takes the answer, ``loop_queue`` is its loop's."""
        self.head = head
        self.body = b""
        self.budget: BodyBudget | None = None
        self.client = client
        self.on_end: Callable[[], None] | None = None
        self.on_gone: Callable[[], None] | None = None
        self.request_context: RequestObserver | None = None
        self._send = send
        self._loop_queue = loop_queue
        self._is_answered = False
        self.is_over = False

    @property
    def path(self) -> str:
        """What was asked for, without the query."""
        return self.head.target.partition("?")[0]

    def answer(self, reply: "Reply | StreamingReply") -> None:
        """Answers; a second answer, or one to somebody who has gone, is dropped."""
        if self._is_answered:
            return
        self._is_answered = True
        self.on_gone = None
        if self.request_context is not None:
            reply = self.request_context.on_answer(reply)
        # As `over`, without calls; what goes part by part is over when it has been sent.
        if not isinstance(reply, StreamingReply):
            if self.request_context is not None:
                self.request_context.over(len(self.body), len(reply.body))
            self.is_over = True
            if self.budget is not None:
                self.budget.taken -= len(self.body)
            if self.on_end is not None:
                self.on_end()
        self._send(self, reply)

    def answer_soon(self, reply: "Reply") -> None:
        """Does what `answer` does, from any thread; where the server has ended, nobody is told."""
        self.call_soon(partial(self.answer, reply))

    def call_soon(self, call: Callable[[], None]) -> None:
        """Has ``call`` called on the server's thread, from any thread, unless that has ended."""
        self._loop_queue.post(call)

    def over(self, bytes_out: int) -> None:
        """Notes that the answer is whole (called by the connection where it goes part by part)."""
        if self.request_context is not None:
            self.request_context.over(len(self.body), bytes_out)
        self._end()

    def _end(self) -> None:
        self.is_over = True
        self.on_gone = None
        if self.budget is not None:
            self.budget.give_back(len(self.body))
        if self.on_end is not None:
            self.on_end()

    def on_cancel(self, bytes_out: int = 0) -> None:
        """Notes that who asks has gone away (called by the connection).

        Args:
            bytes_out: What was sent of an answer that goes part by part.
        """
        if self.is_over:
            return
        if self.on_gone is not None:
            self.on_gone()
        if self.request_context is not None:
            self.request_context.on_cancel(len(self.body), bytes_out)
        self._is_answered = True
        self._end()
