"""Admission control: a model refuses requests that find no room or would miss their deadline."""

import math
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.wire.problem import Code, Problem

if TYPE_CHECKING:
    from modelflow.serve.activity import VersionActivity


# The factor that older measurements are multiplied by (exponential smoothing), and the seconds for
# which a measurement is recent.
_KEPT = 15 / 16
_NEW = 1.0


class _Level:
    """The smoothed measurements for about the same number of requests under way."""

    __slots__ = ("answers", "seconds", "seen")

    def __init__(self) -> None:
        self.seconds = self.answers = self.seen = 0.0

    @property
    def interval(self) -> float:
        """Seconds from one answer to the next."""
        return self.seconds / self.answers


class WaitEstimator:
    """An estimator of the wait for an answer, with the measured seconds between answers.

    Measurements are kept by level: 1, 2 to 3, 4 to 7, ... requests under way.

    A model that works in batches answers more requests a second when more are under way.
    Measurements with few requests therefore say little about the wait behind many. The estimator
    assumes that the first unmeasured level takes no longer than the level below it. Each further
    level doubles the wait. At a measured level, a request waits for all requests ahead of it.
    Levels that were measured within the last second take precedence.
    """

    def __init__(self, now: Callable[[], float] = SYSTEM_CLOCK.now) -> None:
        self._now = now
        self._levels: dict[int, _Level] = {}  # the bits of a number of requests -> its level

    def note(self, under_way: int, seconds: float, answers: int) -> None:
        """Adds a measurement.

        Args:
            under_way: The number of requests under way.
            seconds: The duration of the measurement.
            answers: The number of requests answered in that time.
        """
        level = self._levels.get(bits := under_way.bit_length())
        if level is None:
            self._levels[bits] = level = _Level()
        level.seconds = level.seconds * _KEPT + seconds
        level.answers = level.answers * _KEPT + answers
        level.seen = self._now()

    def wait(self, number: int) -> float | None:
        """Returns the seconds until so many requests are answered, or None without measurements."""
        if not self._levels:
            return None
        level, since = number.bit_length(), self._now() - _NEW
        lower = [one for one in self._levels if one <= level]
        if not lower:
            return self._levels[min(self._levels)].interval * number
        new = [one for one in lower if self._levels[one].seen >= since]
        known = max(new or lower)
        interval = self._levels[known].interval
        if known == level:
            return interval * number
        at_most: int = (1 << known) - 1
        return interval * at_most * (1 << (level - known - 1))


class OverloadedError(Problem):
    """A refusal, because the model has no room for the request or would answer too late.

    Attributes:
        reason: The reason for the refusal, ``full`` or ``would_miss_deadline``.
        retry_after: The seconds after which the model may have room.
    """

    def __init__(self, message: str, reason: str, retry_after: float) -> None:
        super().__init__(message, Code.UNAVAILABLE)
        self.reason = reason
        self.retry_after = retry_after


class Admission:
    """The admission control of a model: counts requests, and estimates waits (`WaitEstimator`).

    Requests of the first class overtake all others. So they have a limit of their own, and wait
    only for each other.
    """

    def __init__(
        self,
        name: str,
        most: int,
        now: Callable[[], float] = SYSTEM_CLOCK.now,
        make_room: Callable[[], object] = lambda: None,
    ) -> None:
        """Stores the limit and the clock.

        Args:
            name: The model's name, for messages.
            most: The largest number of requests under way.
            now: Returns the time in seconds.
            make_room: Called before a refusal. May report finished requests to `on_done`.
        """
        self._name = name
        self.most = most
        """The largest number of requests under way."""
        self._now = now
        self._make_room = make_room
        self._wait_estimator = WaitEstimator(now)
        self._since = 0.0  # the time of the last answer, or of the first request after an idle time
        self._highest = 0  # the largest number under way since then
        self.under_way = 0
        """The number of requests without an answer."""
        self.first = 0
        """The number of these requests that are of the first class."""
        self.doing: VersionActivity | None = None
        """The record of whether the version is working on requests. None if there is no record."""
        self.refused: Counter[str] = Counter()
        """The number of refused requests, by reason."""

    @property
    def expected_wait(self) -> float | None:
        """The expected seconds until a new request is answered, or None before the first answer."""
        return self._wait_estimator.wait(self.under_way + 1)

    def takes(self, deadline: float | None, *, is_first: bool = False) -> bool:
        """Tells whether `admit` would take a request."""
        alike = self.first if is_first else self.under_way - self.first
        return alike < self.most and (deadline is None or self._late(deadline, alike) is None)

    def _late(self, deadline: float, alike: int) -> float | None:
        """Returns the expected wait of a request that would miss its deadline, else None.

        Returns None also if no request of its class is under way. The next request then updates the
        estimate.
        """
        wait = self._wait_estimator.wait(alike + 1) if alike else None
        return wait if wait is not None and wait > deadline else None

    def admit(self, deadline: float | None, *, is_first: bool = False) -> None:
        """Admits or refuses a request.

        Args:
            deadline: Seconds for which the client waits. None if the client sets no limit.
            is_first: The request is of the first class.

        Raises:
            OverloadedError: the request is refused.
        """
        if deadline is not None or self.under_way >= self.most:  # else `expect` cannot refuse
            self.expect(deadline, is_first=is_first)
        self.first += is_first
        if not self.under_way:
            self._since, self._highest = self._now(), 0
            if self.doing is not None:
                self.doing.work()
        self.under_way += 1
        if self.under_way > self._highest:
            self._highest = self.under_way

    def expect(self, deadline: float | None, *, is_first: bool = False) -> None:
        """Refuses a request that `admit` would refuse, and admits none.

        Args:
            deadline: Seconds for which the client waits. None if the client sets no limit.
            is_first: The request is of the first class.

        Raises:
            OverloadedError: `admit` would refuse the request.
        """
        if not self.takes(deadline, is_first=is_first):
            self._make_room()
        alike = self.first if is_first else self.under_way - self.first
        if alike >= self.most:
            raise self._full()
        if deadline is not None and (wait := self._late(deadline, alike)) is not None:
            raise self._refusal(
                f"model {self._name!r} would answer in about {wait:.3g} s, and the client waits "
                f"{deadline:.3g} s; try again",
                "would_miss_deadline",
                wait - deadline,
            )

    def _full(self) -> OverloadedError:
        text = (
            f"model {self._name!r} has {self.most} requests under way, as many as it may; try again"
        )
        wait = self.expected_wait
        seconds = 1.0 if wait is None else wait / self.most
        return self._refusal(text, "full", seconds)

    def on_done(self, count: int = 1, *, is_first: bool = False) -> None:
        """Notes that requests are over, answered or not, which makes room for others."""
        self.under_way -= count
        self.first -= is_first
        if not self.under_way and self.doing is not None:
            self.doing.rest()

    def on_answer(self, count: int) -> None:
        """Notes the number of requests that were answered since the last call."""
        if not count:
            return
        now = self._now()
        self._wait_estimator.note(self._highest, now - self._since, count)
        self._since, self._highest = now, self.under_way

    def _refusal(self, text: str, reason: str, seconds: float) -> OverloadedError:
        self.refused[reason] += 1
        return OverloadedError(text, reason, max(0.001, seconds))


def whole_seconds(error: OverloadedError) -> int:
    """Returns the value of the header ``Retry-After`` in whole seconds, at least 1."""
    return max(1, math.ceil(error.retry_after))
