"""Services, methods, and the `Rpc` for one message of a call.

Services depend on no other part of gRPC. There are two servers: `grpcio_server.py` and `http2/`. A
server creates an `Rpc` for each message, and takes the replies when the client has room for them.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from modelflow.http.request import RequestObserver
from modelflow.serve.access.keys import Group
from modelflow.serve.requests.model import Terms
from modelflow.serve.requests.status import problem_of
from modelflow.wire.problem import Code, Problem
from modelflow.wire.proto import Protocol

AHEAD = 64
"""The most messages of a stream that are processed at once. Further messages are not read yet."""


class Rpc:
    """A message with its replies: one reply, or any number of replies in a stream.

    Call the methods on the loop's thread. A stream has one `Rpc` for each of its messages.

    Attributes:
        seconds: The seconds that the client waits, or None for no deadline.
        request_context: The context of the call, or None.
        is_over: Whether the last reply was given, or the client has gone.
        on_gone: Called when the client goes away before the last reply.
        on_room: Called when a reply was taken for sending and the queue of replies is empty.
        on_end: Called at the end, after the last reply or when the client goes away.
        on_answer: Called when `take` has a reply.
        refusal: Converts an error to a reply message. If None, an error ends the call.
    """

    __slots__ = (
        "_answers",
        "is_over",
        "on_answer",
        "on_end",
        "on_gone",
        "on_room",
        "refusal",
        "request_context",
        "seconds",
    )

    def __init__(
        self, seconds: float | None, request_context: RequestObserver | None = None
    ) -> None:
        self.seconds = seconds
        self.request_context = request_context
        self.is_over = False
        self.on_gone: Callable[[], None] = _nothing
        self.on_room: Callable[[], None] = _nothing
        self.on_end: Callable[[], None] = _nothing
        self.on_answer: Callable[[], None] = _nothing
        self.refusal: Callable[[Problem], Any] | None = None
        self._answers: deque[Any] = deque()  # None marks the end

    @property
    def terms(self) -> Terms:
        """Returns the deadline and the context of the message."""
        return Terms(self.seconds, self.request_context)

    @property
    def has_room(self) -> bool:
        """Returns whether the queue of replies is empty."""
        return not self._answers

    @property
    def has_answer(self) -> bool:
        """Returns whether `take` has a reply."""
        return bool(self._answers)

    def send(self, message: Any, /) -> None:
        """Queues a reply, which others may follow."""
        if not self.is_over:
            self._answers.append(message)
            self.on_answer()

    def answer(self, message: Any, /) -> None:
        """Queues the last reply."""
        self.send(message)
        self.end()

    def refuse(self, problem: Problem) -> None:
        """Queues an error as the last reply."""
        self.answer(problem if self.refusal is None else self.refusal(problem))

    def settle(self, make: Callable[..., Any], *given: Any) -> None:
        """Queues the result of ``make(*given)`` as the last reply, or its error."""
        try:
            message = make(*given)
        except Exception as error:  # noqa: BLE001 - the client must get a reply to any error
            self.refuse(problem_of(error))
        else:
            self.answer(message)

    def end(self) -> None:
        """Ends the replies."""
        if not self.is_over:
            self._answers.append(None)
            self._over()
            self.on_answer()

    def leave(self) -> None:
        """Records that the client has gone, and calls `on_gone`."""
        if not self.is_over:
            self._over()
            self.on_gone()

    def take(self) -> Any:
        """Returns the next reply, or None after the last reply. `has_answer` must be true.

        Raises:
            Problem: The request failed.
        """
        found = self._answers.popleft()
        if not self.is_over and not self._answers:
            self.on_room()
        if isinstance(found, Problem):
            raise found
        return found

    def _over(self) -> None:
        self.is_over = True
        self.on_end()


def _nothing() -> None:
    """Does nothing. The default of the callbacks."""


Answerer = Callable[[Rpc, Any], None]
"""A handler that answers a message, now or later."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service.

    Attributes:
        name: The name of the method.
        path: The full name in a call: ``/SERVICE/METHOD``.
        group: The group that a key must open, or None if no key is needed.
        is_stream_in: Whether a call contains any number of messages.
        is_stream_out: Whether a call has any number of replies.
        parse: Returns the message for its bytes. Raises `Problem`.
        answer: The handler of a message.
    """

    name: str
    path: str
    group: Group | None
    is_stream_in: bool
    is_stream_out: bool
    parse: Callable[[bytes], Any]
    answer: Answerer

    def begin(self, rpc: Rpc, data: bytes) -> None:
        """Parses a message and calls the handler, which answers now or later."""
        try:
            self.answer(rpc, self.parse(data))
        except Exception as error:  # noqa: BLE001 - the client must get a reply to any error
            rpc.refuse(problem_of(error))


@dataclass(frozen=True, slots=True)
class Service:
    """A service of a protocol.

    Attributes:
        name: The full name of the service.
        protocol: The protocol that describes the service.
        answers: The handlers by method name.
        missing: The reasons why methods are not supported, by method name.
        groups: The group that a key must open, by method name; None if no key is needed. The
            default is `Group.INFER`.
    """

    name: str
    protocol: Protocol
    answers: Mapping[str, Answerer]
    missing: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Group | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        described = self.protocol.methods(self.name).keys()
        if (named := self.answers.keys() | self.missing.keys()) != described:
            raise ValueError(
                f"{self.name}: got methods {sorted(named)}; expected {sorted(described)}"
            )

    def methods(self) -> Iterator[Method]:
        """Yields all methods that the descriptor lists."""
        for name, descriptor in self.protocol.methods(self.name).items():
            yield Method(
                name,
                f"/{self.name}/{name}",
                self.groups.get(name, Group.INFER),
                descriptor.client_streaming,
                descriptor.server_streaming,
                partial(self.protocol.parse, descriptor.input_type.full_name),
                self.answers.get(name) or self._refuser(name),
            )

    def _refuser(self, name: str) -> Answerer:
        def refuse(rpc: Rpc, _: Any) -> None:
            message = f"{self.name}/{name} is not supported: {self.missing[name]}"
            rpc.refuse(Problem(message, Code.UNIMPLEMENTED))

        return refuse
