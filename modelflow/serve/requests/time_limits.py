"""Time limits: the deadline that a client sets, and the server's limit on every request."""

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
"""The header with the time for which a client waits."""


PRIORITY = b"inference-priority"
"""The header with the class of a request: 1 for the first, 0 or 2 for the second."""


def is_first(http_request: HttpRequest) -> bool:
    """Tells whether the header ``Inference-Priority`` asks for the first class.

    Raises:
        Problem: the value is none of 0, 1 and 2.
    """
    value = http_request.head.named.get(PRIORITY, b"0")
    if value not in (b"0", b"1", b"2"):
        refuse(f"header Inference-Priority: got {value.decode('latin-1')!r}; expected 0, 1 or 2")
    return value == b"1"


def seconds_of(http_request: HttpRequest) -> float | None:
    """Returns the header ``Inference-Timeout-Ms`` in seconds, or None without the header.

    Raises:
        Problem: the value is not a number above 0.
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
    """Returns the shortest of several timeouts, or None without any."""
    return min((one for one in seconds if one is not None), default=None)


# Seconds by which a timer of the event loop may fire early.
_EARLY = 0.001
# A deadline at most this many seconds before the server's limit counts as the limit. Such requests
# share one timer.
_NEAR = 0.05
# Seconds after the deadline for which an answer is still sent. The unit may have begun the batch of
# the request before the deadline, mostly under load (benchmarks/serving_overload.py).
_GRACE = 0.1


class LimitedRequest(Protocol):
    """Requests with a time limit."""

    def give_up(self, problem: Problem, /) -> None:
        """Ends the requests with this problem. Their later results are dropped."""


class TimeLimit(ReplyTimeouts[LimitedRequest]):
    """A time limit, which gives up requests without an answer in time. For the server's thread.

    Attributes:
        own: The requests that are given up before the server's limit, with the timer of each.
    """

    def __init__(self, seconds: float) -> None:
        """Sets the server's limit in seconds."""
        super().__init__(seconds, lambda one: one.give_up(self.problem()))
        self.own: dict[LimitedRequest, asyncio.TimerHandle] = {}

    def add(self, waiting: LimitedRequest, deadline: float | None = None) -> None:
        """Starts the time limit of a request.

        Args:
            waiting: The request.
            deadline: Seconds after which no unit begins work on the request. It is given up shortly
                after that. None if only the server's limit counts.
        """
        if deadline is None or self.is_whole(deadline):
            super().add(waiting)
        else:
            loop = asyncio.get_running_loop()
            self.own[waiting] = loop.call_later(deadline + _GRACE, self._expire, waiting)

    def is_whole(self, seconds: float) -> bool:
        """Tells whether a wait counts as the server's limit, because of its length."""
        return seconds > self.seconds - _NEAR

    def end_of(self, began: float, deadline: float) -> float:
        """Returns the time at which a request is given up.

        Args:
            began: The time at which the request arrived.
            deadline: The request's deadline, in seconds from its arrival.
        """
        return began + min(self.seconds, deadline + _GRACE)

    def add_until(self, one: LimitedRequest, until: float) -> None:
        """Starts the time limit of several requests.

        Args:
            one: The group of requests. Its `give_up` finds the late requests with `list_late`, and
                adds the group again.
            until: The time at which the first request is given up. ``math.inf`` if no request is.
        """
        if until == math.inf:
            return
        seconds = max(0.0, until - SYSTEM_CLOCK.now())
        if self.is_whole(seconds):
            super().add(one)
        else:
            self.own[one] = asyncio.get_running_loop().call_later(seconds, self._expire, one)

    def list_late(self, members: "Iterable[BatchMember]") -> "list[BatchMember]":
        """Returns the members whose time limit has passed."""
        now = SYSTEM_CLOCK.now() + _EARLY
        return [member for member in members if member.until <= now and waits(member)]

    def problem_of(self, member: "BatchMember") -> Problem:
        """Returns the error for a member whose time limit has passed."""
        is_own = member.deadline is not None and member.until < member.began + self.seconds
        return _too_late() if is_own else self.problem()

    def renew(self, one: LimitedRequest) -> None:
        """Restarts the server's limit for a stream that has sent a part. A deadline stays."""
        if one not in self.own:
            self.until.pop(one, None)
            super().add(one)

    def forget(self, waiting: LimitedRequest) -> None:
        """Stops the time limit of an answered request. May be called again."""
        timer = self.own.pop(waiting, None)
        if timer is None:
            super().forget(waiting)
        else:
            timer.cancel()

    def _expire(self, one: LimitedRequest) -> None:
        del self.own[one]
        one.give_up(_too_late())

    def problem(self) -> Problem:
        """Returns the error for a request that has reached the server's limit."""
        text = f"there was no answer within {self.seconds:g} s (--request-timeout)"
        return Problem(text, Code.DEADLINE_EXCEEDED)


def waits(member: "BatchMember") -> bool:
    """Tells whether a request is neither answered nor given up."""
    return not (member.responder.is_over or member.is_given_up)


def _too_late() -> Problem:
    return Problem("its deadline passed before it was computed", Code.DEADLINE_EXCEEDED)
