r"""One HTTP request with its head, its trace, its handler and its reply.

The meaning of a head depends only on its bytes. If a message has a known head and then exactly the
announced body, the head need not be parsed again::

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
    """The head of a request. A client usually sends the same head with every request.

    Attributes:
        method: ``GET``, ``POST``, ...
        target: The path and the query, as the client sent them; see `split_target`.
        headers: Names in lower case, with values, in the order of arrival.
        named: The values by name. Of several values of one name, the last.
        route: The handler's result for this head, or None. Requests with the same head reuse it.
        limits: The result of `Handler.begin` for every request with this head. If None, `begin` is
            called for each request.
    """

    __slots__ = ("headers", "limits", "method", "named", "route", "target")

    def __init__(
        self, method: str, target: str, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """Stores the parsed values."""
        self.method = method
        self.target = target
        self.headers = headers
        self.named: Mapping[bytes, bytes] = dict(headers)
        self.route: Any = None
        self.limits: BodyLimits | None = None

    def with_headers(self, more: Sequence[tuple[bytes, bytes]]) -> "RequestHead":
        """Returns a head with further headers and the same route."""
        head = RequestHead.__new__(RequestHead)
        head.method, head.target, head.route = self.method, self.target, self.route
        head.limits = None
        head.headers = [*self.headers, *more]
        head.named = {**self.named, **dict(more)}
        return head


LONGEST = 2048
"""Bytes of the longest cached head."""
END = b"\r\n\r\n"
"""The end of a head."""

_MOST = 512  # cached heads: 1 MiB together
# The headers whose values differ with each request, in their usual form. Other forms are parsed. A
# line before the header, because the first line of a head is the request.
_MARK = re.compile(
    rb"(?<=[^\n])\r\n(x-request-id|traceparent): ([\w.:/+=@-]{1,128})(?=\r\n[^ \t])", re.I
)


def split_marks(head: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Returns the key of a head in `HeaderCache`, and the headers that identify the request.

    The key is the head itself, or the head without these headers and then their names.

    Args:
        head: The bytes of a head, with `END`.
    """
    parts = _MARK.split(head)
    if len(parts) == 1:
        return head, []
    names = [name.lower() for name in parts[1::3]]
    return b"".join([*parts[::3], *names]), list(zip(names, parts[2::3], strict=True))


class HeaderCache:
    """A cache of heads that clients have sent more than once. Used on the server's thread only.

    The cache has only heads of HTTP/1.1 requests after which the connection stays open. Heads that
    differ only in the id of the request have one entry.

    Attributes:
        known: The heads and the lengths of their bodies, by the key of the head (`split_marks`).
    """

    def __init__(self) -> None:
        self.known: dict[bytes, tuple[RequestHead, int]] = {}

    def find_marked(self, head: bytes) -> tuple[RequestHead, int] | None:
        """Returns a cached head with the id of the given head, or None if no head matches."""
        key, marks = split_marks(head)
        found = self.known.get(key) if marks else None
        return None if found is None else (found[0].with_headers(marks), found[1])

    def learn(self, message: bytes, head: RequestHead, length: int) -> None:
        """Caches the parsed head of a whole message.

        A full cache is cleared. Heads in use are then soon cached again.

        Args:
            message: Head and body.
            head: The parsed head.
            length: Bytes of the body.
        """
        end = len(message) - length
        if len(END) < end <= LONGEST:
            key, marks = split_marks(message[:end])
            if marks:
                names = {name for name, _ in marks}
                others = [pair for pair in head.headers if pair[0] not in names]
                if len(others) + len(marks) < len(head.headers):
                    return  # the head has another id, in a form that is parsed
                plain = RequestHead(head.method, head.target, others)
                plain.route, head = head.route, plain
            if len(self.known) >= _MOST:
                self.known.clear()
            self.known[key] = head, length


# No user name before the host: RFC 9110, 4.2.4.
_ABSOLUTE = re.compile(r"https?://(?P<host>[^/?#@\s]+)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?", re.I)


def split_target(target: str) -> tuple[str, str | None]:
    """Returns path and query of a request's target, and the host or None.

    Clients of a proxy send ``http://h:80/a?b`` (RFC 9112, 3.2.2). The result is then ``/a?b`` and
    ``h:80``. Any other form is returned unchanged.

    Args:
        target: The target, as the client sent it.
    """
    if target.startswith("/"):
        return target, None
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        return target, None
    return (found["path"] or "/") + (found["query"] or ""), found["host"]


_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?", re.ASCII)
_NO_VERSION = "ff"
# The length of ``tracestate`` that the specification requires to pass on. A longer text is dropped.
_LONGEST_STATE = 512


@dataclass(frozen=True, slots=True)
class Trace:
    """The trace context from a client's headers, to be passed on unchanged.

    Attributes:
        id: The id of the trace: 32 hexadecimal digits.
        parent: The whole value of ``traceparent``.
        state: The whole value of ``tracestate``, or ``""`` if missing or invalid.
    """

    id: str
    parent: str
    state: str = ""

    @property
    def is_sampled(self) -> bool:
        """Returns whether the client, or the tracer of this server, records the trace."""
        return bool(int(self.parent.split("-")[3], 16) & 1)


def read_trace(parents: Sequence[str], states: Sequence[str] = ()) -> Trace | None:
    """Returns the trace context of the headers, or None without a valid ``traceparent``.

    Of a newer version, the known fields are read.

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
    """The body of a streamed reply. Call the methods on the server's thread.

    Attributes:
        on_room: Called when the client has read the sent data and more may be sent.
        on_gone: Called when the client goes away before the end.
        sent: The number of sent bytes of the body.
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
        """Is called by the connection only.

        Args:
            write: Sends bytes to the client.
            room: Returns whether the transport accepts data for the client.
            end: Called after the last part.
            is_chunked: Whether each part is a chunk with its length. If False, closing the
                connection marks the end.
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
        """Returns whether the client reads its data. If not, further parts stay in memory."""
        return not self._is_over and self._room()

    def send(self, data: bytes) -> None:
        """Sends a part."""
        if data and not self._is_over:  # an empty chunk would mark the end
            self.sent += len(data)
            self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    def end(self) -> None:
        """Ends the reply."""
        if not self._is_over:
            self._is_over = True
            if self._is_chunked:
                self._write(b"0\r\n\r\n")
            self._end()

    def on_cancel(self) -> None:
        """Records that the client has gone. Called by the connection."""
        if not self._is_over:
            self._is_over = True
            self.on_gone()


@dataclass(frozen=True, slots=True)
class StreamingReply:
    """A reply whose body is sent part by part.

    Attributes:
        status: The HTTP status.
        begin: Called with the stream for the body, when all earlier requests of the connection are
            answered.
        headers: The values by name.
        own: Further headers, which differ between replies.
    """

    status: int
    begin: Callable[[StreamingResponse], None]
    headers: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


def _nothing() -> None:
    """Does nothing. The default of the callbacks."""


class Handler(Protocol):
    """The handler of requests. The server's thread calls the methods, which must not block."""

    def begin(self, http_request: "HttpRequest") -> "BodyLimits":
        """Checks the head of a request, and returns the limits on its body.

        Raises:
            RefusedError: The request is refused before its body is read.
        """

    def handle(self, http_request: "HttpRequest") -> None:
        """Handles a whole request. Calls `HttpRequest.answer`, now or later."""


class RequestObserver(Protocol):
    """An observer of a request, for ids, traces and logs. Called on the server's thread."""

    @property
    def sampled_trace(self) -> str:
        """Returns the id of the request's trace if the trace is sampled, else ``""``."""

    @property
    def is_single(self) -> bool:
        """Returns whether the request must be read alone, not together with others."""

    def enter(self, model: str, version: int, rows: int = 0) -> Mapping[str, Any]:
        """Records the model of the request, and returns the context values for its session.

        ``rows`` is the number of rows, or 0 if it is not known yet. Raises `Problem` if the rows
        exceed a limit.
        """

    def watcher(self) -> Any:
        """Returns the observer of the session's batches, or None."""

    def on_answer(self, reply: "Reply | StreamingReply") -> "Reply | StreamingReply":
        """Records the reply, and returns the reply to send, possibly with more headers."""

    def over(self, bytes_in: int, bytes_out: int) -> None:
        """Records that the whole reply was sent."""

    def on_cancel(self, bytes_in: int, bytes_out: int) -> None:
        """Records that the client has gone before the end of the reply."""


class HttpRequest:
    """An HTTP request that waits for its reply.

    Call the methods on the server's thread, except `answer_soon` and `call_soon`.

    Attributes:
        head: The head.
        body: The whole body, or ``b""`` before its end.
        budget: The byte budget to which the body is given back at the end, or None.
        client: The address of the client, or ``""`` if unknown.
        on_end: Called once, when the request is answered or the client has gone.
        on_gone: Called before `on_end` if the client has gone, to cancel the work.
        request_context: The observer of the request, or None.
        is_over: Whether the request is answered, or the client has gone.
        is_spare: Whether the connection is beyond the limits. Then the handler answers only
            requests for health and metrics.
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
        "is_spare",
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
        """Is called by the connection only. ``send`` sends a reply."""
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
        self.is_over = self.is_spare = False

    @property
    def path(self) -> str:
        """Returns the target without the query."""
        return self.head.target.partition("?")[0]

    def answer(self, reply: "Reply | StreamingReply") -> None:
        """Sends a reply. A second reply, or a reply to a client that has gone, is dropped."""
        if self._is_answered:
            return
        self._is_answered = True
        self.on_gone = None
        if self.request_context is not None:
            reply = self.request_context.on_answer(reply)
        # Like `over`, without the calls, for speed. A streamed reply calls `over` at its end.
        if not isinstance(reply, StreamingReply):
            if self.request_context is not None:
                self.request_context.over(len(self.body), len(reply.body))
            self.is_over = True
            if self.budget is not None:
                self.budget.taken -= len(self.body)
            if self.on_end is not None:
                self.on_end()
        self._send(self, reply)

    def answer_soon(self, reply: "Reply | StreamingReply") -> None:
        """Calls `answer` on the server's thread, from any thread, unless the server has ended."""
        self.call_soon(partial(self.answer, reply))

    def call_soon(self, call: Callable[[], None]) -> None:
        """Calls ``call`` on the server's thread, from any thread, unless the server has ended."""
        self._loop_queue.post(call)

    def over(self, bytes_out: int) -> None:
        """Records the end of a streamed reply. Called by the connection."""
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
        """Records that the client has gone. Called by the connection.

        Args:
            bytes_out: The sent bytes of a streamed reply.
        """
        if self.is_over:
            return
        if self.on_gone is not None:
            self.on_gone()
        if self.request_context is not None:
            self.request_context.on_cancel(len(self.body), bytes_out)
        self._is_answered = True
        self._end()
