"""A request that has come, and the place for its answer."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from modelflow.http.mailbox import Mailbox
from modelflow.http.outflow import StreamedReply
from modelflow.http.request_head import RequestHead

if TYPE_CHECKING:
    from modelflow.http.body import BodyLimits
    from modelflow.http.reply import Reply

__all__ = ["Exchange", "Handler", "Visit"]


class Handler(Protocol):
    """Who answers requests. Called on the server's thread, which it must not hold up."""

    def begin(self, exchange: "Exchange") -> "BodyLimits":
        """Looks at the head of a request; says what its body may be.

        Raises:
            RefusedError: it is answered so, without its body.
        """

    def handle(self, exchange: "Exchange") -> None:
        """Takes a whole request; calls `Exchange.answer`, now or later."""


class Visit(Protocol):
    """What is known of a request beside what it asks, and noted of it. For the server's thread."""

    def enter(self, model: str, version: int) -> Mapping[str, Any]:
        """Notes which model it is for; returns what its session is told (its context)."""

    def watcher(self) -> Any:
        """Returns who is told of the batches of a session of its; None: nobody."""

    def answered(self, reply: "Reply | StreamedReply") -> "Reply | StreamedReply":
        """Notes how it is answered; returns the answer as it goes out."""

    def over(self, bytes_in: int, bytes_out: int) -> None:
        """Notes that all of the answer was given."""

    def gone(self, bytes_in: int, bytes_out: int) -> None:
        """Notes that who asked has gone away before that."""


class Exchange:
    """A request, and who is waiting for its answer. For the server's thread but `answer_soon`.

    Attributes:
        head: What was read of it before its body.
        body: What was sent, once it is whole.
        client: The address of who asks; ``""``: unknown.
        on_end: Called once when it is answered, or who asks has gone away.
        on_gone: Called before that if who asks has gone away: what works on it may stop.
        visit: What is noted of it; None: nothing.
        is_over: It is answered, or who asks has gone away.
    """

    __slots__ = (
        "_is_answered",
        "_mailbox",
        "_send",
        "body",
        "client",
        "head",
        "is_over",
        "on_end",
        "on_gone",
        "visit",
    )

    def __init__(
        self,
        head: RequestHead,
        client: str,
        send: Callable[["Exchange", "Reply | StreamedReply"], None],
        mailbox: Mailbox,
    ) -> None:
        """Made by the connection: ``send`` takes the answer, ``mailbox`` is its loop's."""
        self.head = head
        self.body = b""
        self.client = client
        self.on_end: Callable[[], None] | None = None
        self.on_gone: Callable[[], None] | None = None
        self.visit: Visit | None = None
        self._send = send
        self._mailbox = mailbox
        self._is_answered = False
        self.is_over = False

    @property
    def path(self) -> str:
        """What was asked for, without the query."""
        return self.head.target.partition("?")[0]

    def answer(self, reply: "Reply | StreamedReply") -> None:
        """Answers; a second answer, or one to somebody who has gone, is dropped."""
        if self._is_answered:
            return
        self._is_answered = True
        self.on_gone = None
        if self.visit is not None:
            reply = self.visit.answered(reply)
        if self.visit is None and self.on_end is None and type(reply) is not StreamedReply:
            self.is_over = True  # nobody wants to know
        elif not isinstance(reply, StreamedReply):  # that is over when it has been sent
            self.over(len(reply.body))
        self._send(self, reply)

    def answer_soon(self, reply: "Reply") -> None:
        """Does what `answer` does, from any thread; where the server has ended, nobody is told."""
        self._mailbox.post(partial(self.answer, reply))

    def over(self, bytes_out: int) -> None:
        """Notes that the answer is whole (called by the connection where it goes part by part)."""
        if self.visit is not None:
            self.visit.over(len(self.body), bytes_out)
        self.is_over = True
        self.on_gone = None
        if self.on_end is not None:
            self.on_end()

    def gone(self, bytes_out: int = 0) -> None:
        """Notes that who asks has gone away (called by the connection).

        Args:
            bytes_out: What was sent of an answer that goes part by part.
        """
        if self.is_over:
            return
        if self.on_gone is not None:
            self.on_gone()
        if self.visit is not None:
            self.visit.gone(len(self.body), bytes_out)
        self._is_answered = self.is_over = True
        self.on_gone = None
        if self.on_end is not None:
            self.on_end()
