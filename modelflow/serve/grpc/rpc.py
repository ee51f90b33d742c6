"""One message of a client and its answers: what a method is called with."""

import asyncio
from collections.abc import Callable, Iterable
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
        refusal: Makes an answer of what went wrong; None: it ends the call.
    """

    __slots__ = (
        "_answers",
        "is_over",
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
        self.is_over = False
        self.on_gone: Callable[[], None] = _nothing
        self.on_room: Callable[[], None] = _nothing
        self.on_end: Callable[[], None] = _nothing
        self.refusal: Callable[[Problem], Any] | None = None
        self._answers: asyncio.Queue[Any] = asyncio.Queue()

    @property
    def has_room(self) -> bool:
        """Tells whether no answer waits for the client to take the one before it."""
        return self._answers.empty()

    def send(self, message: Any, /) -> None:
        """Gives an answer; others may follow."""
        if not self.is_over:
            self._answers.put_nowait(message)

    def answer(self, message: Any) -> None:
        """Gives the last answer."""
        self.send(message)
        self.end()

    def refuse(self, problem: Problem) -> None:
        """Says in place of an answer what went wrong."""
        self.answer(problem if self.refusal is None else self.refusal(problem))

    def settle(self, make: Callable[[], Iterable[Any]]) -> None:
        """Gives the answers that ``make`` makes, the last one last, or says why it does not."""
        try:
            messages = list(make())
        except Problem as problem:
            self.refuse(problem)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is not left waiting
            self.refuse(inside(error))
        else:
            for message in messages:
                self.send(message)
            self.end()

    def end(self) -> None:
        """Ends it: there is no further answer."""
        if not self.is_over:
            self._answers.put_nowait(None)
            self._over()

    def leave(self) -> None:
        """Notes that nobody takes answers any more."""
        if not self.is_over:
            self._over()
            self.on_gone()

    async def next(self) -> Any:
        """Waits for the next answer; None: there is none.

        Raises:
            Problem: what went wrong.
        """
        found = await self._answers.get()
        if not self.is_over and self._answers.empty():
            self.on_room()
        if isinstance(found, Problem):
            raise found
        return found

    def _over(self) -> None:
        self.is_over = True
        self.on_end()


def _nothing() -> None:
    """What is called where nobody wants to know."""
