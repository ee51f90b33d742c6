"""What there is to call: services, methods, and one call of a method.

This is all that services know of gRPC. A server (there are two: `grpcio_server.py`, `http2/`) makes
one of each message, and takes the answers when its client has room for them.
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
"""So many messages of a stream are worked on at once; the client's further ones wait outside."""


class Rpc:
    """A message that is to be answered: once, or in a stream any number of times.

    For the loop's thread. A stream is as many of these as messages come in it.

    Attributes:
        seconds: How long the client waits, as it says; None: for ever.
        request_context: What is noted of the call; None: nothing.
        is_over: It has its last answer, or nobody waits for it.
        on_gone: Called when the client has gone before the last answer.
        on_room: Called when an answer is on its way to the client, and none waits behind it.
        on_end: Called when it is over, whatever the reason.
        on_answer: Called when there is something to `take`.
        refusal: Makes an answer of what went wrong; None: it ends the call.
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
        self._answers: deque[Any] = deque()  # None: there is none behind it

    @property
    def terms(self) -> Terms:
        """What it says beside its message."""
        return Terms(self.seconds, self.request_context)

    @property
    def has_room(self) -> bool:
        """Tells whether no answer waits for the client to take the one before it."""
        return not self._answers

    @property
    def has_answer(self) -> bool:
        """Tells whether there is something to `take`."""
        return bool(self._answers)

    def send(self, message: Any, /) -> None:
        """Gives an answer; others may follow."""
        if not self.is_over:
            self._answers.append(message)
            self.on_answer()

    def answer(self, message: Any, /) -> None:
        """Gives the last answer."""
        self.send(message)
        self.end()

    def refuse(self, problem: Problem) -> None:
        """Says in place of an answer what went wrong."""
        self.answer(problem if self.refusal is None else self.refusal(problem))

    def settle(self, make: Callable[..., Any], *given: Any) -> None:
        """Gives the last answer, which ``make`` makes of ``given``, or says why it does not."""
        try:
            message = make(*given)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is not left waiting
            self.refuse(problem_of(error))
        else:
            self.answer(message)

    def end(self) -> None:
        """Ends it: there is no further answer."""
        if not self.is_over:
            self._answers.append(None)
            self._over()
            self.on_answer()

    def leave(self) -> None:
        """Notes that nobody takes answers any more."""
        if not self.is_over:
            self._over()
            self.on_gone()

    def take(self) -> Any:
        """Returns the next answer, which must be there (`has_answer`); None: that was the last.

        Raises:
            Problem: what went wrong.
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
    """What is called where nobody wants to know."""


Answerer = Callable[[Rpc, Any], None]
"""Answers a message, now or later."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service.

    Attributes:
        name: Its name.
        path: What a call names: ``/SERVICE/METHOD``.
        group: What a key must open to call it; None: no key is needed.
        is_stream_in: Any number of messages come in one call.
        is_stream_out: Any number of answers go out.
        parse: Gives the message that bytes hold; raises `Problem`.
        answer: Answers one.
    """

    name: str
    path: str
    group: Group | None
    is_stream_in: bool
    is_stream_out: bool
    parse: Callable[[bytes], Any]
    answer: Answerer

    def begin(self, rpc: Rpc, data: bytes) -> None:
        """Has a message answered, now or later."""
        try:
            self.answer(rpc, self.parse(data))
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is not left waiting
            rpc.refuse(problem_of(error))


@dataclass(frozen=True, slots=True)
class Service:
    """A service of a protocol.

    Attributes:
        name: Its full name.
        protocol: Where it is described.
        answers: Who answers, by the method's name.
        missing: What is said of the methods that nobody answers.
        groups: What a key must open to call a method (None: nothing), where it is not
            `Group.INFER`.
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
        """Gives all methods that the descriptor lists."""
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
            message = f"{self.name}/{name} is not there: {self.missing[name]}"
            rpc.refuse(Problem(message, Code.UNIMPLEMENTED))

        return refuse
