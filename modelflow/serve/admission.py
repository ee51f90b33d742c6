"""Which requests a model takes: those that there is room for, and that can be answered in time."""

import math
from collections import Counter
from collections.abc import Callable

from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.wire.problem import Code, Problem

__all__ = ["Admission", "RefusedError", "whole_seconds"]

# How much the newest interval between two answers counts in their mean (exponential smoothing).
_WEIGHT = 1 / 16


class RefusedError(Problem):
    """There is no room for a request.

    Attributes:
        reason: Why, in one word: ``full``, ``would_miss_deadline``.
        retry_after: Seconds after which there may be room.
    """

    def __init__(self, message: str, reason: str, retry_after: float) -> None:
        super().__init__(message, Code.UNAVAILABLE)
        self.reason = reason
        self.retry_after = retry_after


class Admission:
    """Counts the requests of one model, and knows how fast they are answered.

    The mean interval between two answers, while there is something to answer, is what each request
    ahead costs whoever comes: with 2 ms and 100 ahead, the next one waits 0.2 s.
    """

    def __init__(self, name: str, most: int, now: Callable[[], float] = SYSTEM_CLOCK.now) -> None:
        """Takes the model's name, for messages, and how many requests may be under way."""
        self._name = name
        self._most = most
        self._now = now
        self._interval: float | None = None
        self._since = 0.0  # the last answer, or when there was something to answer again
        self.under_way = 0
        """Requests that have no answer yet."""
        self.refused: Counter[str] = Counter()
        """How many were refused, by reason."""

    @property
    def expected_wait(self) -> float | None:
        """Seconds until one that came now would be answered; None: nothing was answered yet."""
        return None if self._interval is None else self._interval * (self.under_way + 1)

    def admit(self, deadline: float | None) -> None:
        """Takes a request.

        Args:
            deadline: Seconds for which whoever sends it waits; None: for ever.

        Raises:
            RefusedError: it is not taken.
        """
        if self.under_way >= self._most:
            text = (
                f"model {self._name!r} has {self._most} requests under way, as many as it may; "
                "come again"
            )
            raise self._refusal(text, "full", self._interval or 1.0)
        if not self.under_way:
            self._since = self._now()
        elif deadline is not None:
            wait = self.expected_wait
            if wait is not None and wait > deadline:
                text = (
                    f"model {self._name!r} would answer in about {wait:.3g} s, and whoever asks "
                    f"waits {deadline:.3g} s; come again"
                )
                raise self._refusal(text, "would_miss_deadline", wait - deadline)
        self.under_way += 1

    def answered(self, count: int = 1) -> None:
        """Notes requests that are over, together."""
        now = self._now()
        interval = (now - self._since) / count
        before = self._interval
        self._interval = interval if before is None else before + _WEIGHT * (interval - before)
        self._since = now
        self.under_way -= count

    def dropped(self) -> None:
        """Notes a request that nobody waits for any more."""
        self.under_way -= 1

    def _refusal(self, text: str, reason: str, seconds: float) -> RefusedError:
        self.refused[reason] += 1
        return RefusedError(text, reason, max(0.001, seconds))


def whole_seconds(error: RefusedError) -> int:
    """Returns what ``Retry-After`` says: whole seconds, at least one."""
    return max(1, math.ceil(error.retry_after))
