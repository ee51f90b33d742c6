"""A request while a flow works on it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from modelflow.http.body import BodyBudget
from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply, reply_of_status

__all__ = ["PendingRequest"]

_NO_ANSWER = reply_of_status(
    HTTPStatus.INTERNAL_SERVER_ERROR, "the graph has ended the request without an answer"
)


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request, and the way back to who asked.

    Attributes:
        method: ``GET``, ``POST``, ...
        uri: The path, with the query.
        headers: Name in lower case -> value; of several of one name the last.
        body: What was sent.
        client: The address of who asked; ``""``: unknown.
        arrived: When it was whole, by the system's monotonic clock: who asked waits from then on.
    """

    method: str
    uri: str
    headers: Mapping[str, str]
    body: bytes
    client: str
    _exchange: Exchange = field(repr=False)
    _bodies: BodyBudget = field(repr=False)
    arrived: float = field(default_factory=time.monotonic)
    _has_answer: bool = field(default=False, init=False, repr=False)

    def answer(self, reply: Reply) -> None:
        """Answers; from any thread. A second answer, or one that comes too late, is dropped."""
        self._has_answer = True
        self._exchange.answer_soon(reply)

    def end(self, reply: Reply = _NO_ANSWER) -> None:
        """Notes that nobody works on it any more; to be called once, from any thread.

        Who asked and has no answer yet is told so, by ``reply``, and is not left to wait.
        """
        self._bodies.give_back(len(self.body))
        if not self._has_answer:
            self.answer(reply)
