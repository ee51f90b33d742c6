"""One message of a client and its answers: what a method is called with.

This is all that services know of gRPC. A server (there are two: `server.py`, `http2/`) makes one of
each message, and takes the answers when its client has room for them.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from modelflow.http.exchange import Visit
from modelflow.serve.status import inside
from modelflow.wire.problem import Problem

__all__ = ["Rpc"]


class Rpc:
    """A message that is to be answered: once, or in a stream any number of times.

    For the loop's thread. A stream is as many of these as messages come in it.

    Attributes:
        seconds: How long the client waits, as it says; None: for ever.
        visit: What is noted of the call; None: nothing.
        is_over: It has its last answer, or nobody waits for it.
        on_gone: Called when the client has gone before the last answer.
        on_room: Called when an answer is on its way to the client, and none waits behind it.
        on_end: Called when it is over, whatever the reason.
        on_answer: Called when there is something to `take`.
        body: The message, of one that is answered together with others; else None.
        refusal: Makes an answer of what went wrong; None: it ends the call.
    """

    __slots__ = (
        "_answers",
        "body",
        "is_over",
        "on_answer",
        "on_end",
        "on_gone",
        "on_room",
        "refusal",
        "seconds",
        "visit",
    )

    def __init__(self, seconds: float | None, visit: Visit | None = None) -> None:
        self.seconds = seconds
        self.visit = visit
        self.body: Any = None
        self.is_over = False
        self.on_gone: Callable[[], None] = _nothing
        self.on_room: Callable[[], None] = _nothing
        self.on_end: Callable[[], None] = _nothing
        self.on_answer: Callable[[], None] = _nothing
        self.refusal: Callable[[Problem], Any] | None = None
        self._answers: deque[Any] = deque()  # None: there is none behind it

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
        except Problem as problem:
            self.refuse(problem)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is not left waiting
            self.refuse(inside(error))
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
