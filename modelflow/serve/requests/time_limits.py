"""How long a client waits, and when a request without an answer is given up."""

import asyncio
import math
from typing import TYPE_CHECKING, Protocol

from modelflow.http.listener import ReplyTimeouts
from modelflow.http.request import HttpRequest
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.wire.problem import Code, Problem, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelflow.serve.requests.request_batch import BatchMember


DEADLINE = b"inference-timeout-ms"
"""The header that says how long a client waits."""


def seconds_of(http_request: HttpRequest) -> float | None:
    """Returns what the header ``Inference-Timeout-Ms`` says, in seconds; None: nothing.

    Raises:
        Problem: it is no number above 0.
    """
    value = http_request.head.named.get(DEADLINE)
    if value is None:
        return None
    text = value.decode("latin-1")
    try:
        milliseconds = float(text)
    except ValueError:
        milliseconds = 0.0
    if not 0 < milliseconds < float("inf"):
        refuse(f"header Inference-Timeout-Ms: got {text!r}; expected milliseconds above 0")
    return milliseconds / 1e3


def earlier(*seconds: float | None) -> float | None:
    """Returns the shortest of some times to wait; None: for ever."""
    return min((one for one in seconds if one is not None), default=None)


# Seconds by which a timer of the loop may be before the clock.
_EARLY = 0.001
# What would be given up so little before others waits with them: it needs no timer of its own.
_NEAR = 0.05
# What a unit has begun when a deadline passes is worth its answer a little later: under load that
# is the batch that the request is in (benchmarks/serving_overload.py).
_GRACE = 0.1


class LimitedRequest(Protocol):
    """Requests that may be given up."""

    def give_up(self, problem: Problem, /) -> None:
        """Ends them with this problem; what is computed for them is dropped when it comes."""


class TimeLimit(ReplyTimeouts[LimitedRequest]):
    """Gives up what has no answer in time. For the server's thread.

    Attributes:
        own: Those that are given up before the limit, with the timer of each.
    """

    def __init__(self, seconds: float) -> None:
        """Takes how long any request may take."""
        super().__init__(seconds, lambda one: one.give_up(self.problem()))
        self.own: dict[LimitedRequest, asyncio.TimerHandle] = {}

    def add(self, waiting: LimitedRequest, deadline: float | None = None) -> None:
        """Begins to wait for an answer.

        Args:
            waiting: What is given up.
            deadline: Seconds after which nothing is begun for it any more, and a moment later it is
                given up; None: the limit alone counts.
        """
        if deadline is None or self.is_whole(deadline):
            super().add(waiting)
        else:
            loop = asyncio.get_running_loop()
            self.own[waiting] = loop.call_later(deadline + _GRACE, self._expire, waiting)

    def is_whole(self, seconds: float) -> bool:
        """Tells whether so many seconds are as good as the limit itself."""
        return seconds > self.seconds - _NEAR

    def end_of(self, began: float, deadline: float) -> float:
        """Returns when a request is given up that may take so many seconds, by the clock."""
        return began + min(self.seconds, deadline + _GRACE)

    def add_until(self, one: LimitedRequest, until: float) -> None:
        """Begins to wait for the answers to many requests.

        Args:
            one: What is given up: with `list_late` it finds which, and adds itself again.
            until: When the first of them is to be given up, by the clock; ``math.inf``: none is.
        """
        if until == math.inf:
            return
        seconds = max(0.0, until - SYSTEM_CLOCK.now())
        if self.is_whole(seconds):
            super().add(one)
        else:
            self.own[one] = asyncio.get_running_loop().call_later(seconds, self._expire, one)

    def list_late(self, members: "Iterable[BatchMember]") -> "list[BatchMember]":
        """Returns those that have waited as long as they may."""
        now = SYSTEM_CLOCK.now() + _EARLY
        return [member for member in members if member.until <= now and waits(member)]

    def problem_of(self, member: "BatchMember") -> Problem:
        """Returns what a request is told that has waited as long as it may."""
        is_own = member.deadline is not None and member.until < member.began + self.seconds
        return _too_late() if is_own else self.problem()

    def renew(self, one: LimitedRequest) -> None:
        """Begins anew for a stream, which has given a part; its deadline stays."""
        if one not in self.own:
            self.until.pop(one, None)
            super().add(one)

    def forget(self, waiting: LimitedRequest) -> None:
        """Waits no more: there is an answer. May be called again."""
        timer = self.own.pop(waiting, None)
        if timer is None:
            super().forget(waiting)
        else:
            timer.cancel()

    def _expire(self, one: LimitedRequest) -> None:
        del self.own[one]
        one.give_up(_too_late())

    def problem(self) -> Problem:
        """Returns what a request is told that has taken as long as any may."""
        text = f"there was no answer within {self.seconds:g} s (--request-timeout)"
        return Problem(text, Code.DEADLINE_EXCEEDED)


def waits(member: "BatchMember") -> bool:
    """Tells whether a request is still to be answered, or given up."""
    return not (member.responder.is_over or member.is_given_up)


def _too_late() -> Problem:
    return Problem("its deadline passed before it was computed", Code.DEADLINE_EXCEEDED)
