"""Which requests a model takes: those with room, and those that can be answered in time."""

import math
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.wire.problem import Code, Problem

if TYPE_CHECKING:
    from modelflow.serve.activity import VersionActivity


# How much what is newest counts (exponential smoothing), and for how many seconds it is new.
_KEPT = 15 / 16
_NEW = 1.0


class _Level:
    """What was seen while about so many requests were under way."""

    __slots__ = ("answers", "seconds", "seen")

    def __init__(self) -> None:
        self.seconds = self.answers = self.seen = 0.0

    @property
    def interval(self) -> float:
        """Seconds from one answer to the next."""
        return self.seconds / self.answers


class WaitEstimator:
    """Measures the seconds from one answer to the next, for 1, 2 to 3, 4 to 7, ... under way.

    A model that works in batches answers the more a second, the more it has to do: what was seen
    with few requests under way says little of what many of them would take. To the next doubling
    of what is known the benefit of the doubt is given, that all together take no longer; beyond
    it, and once it is known better, a request waits for all that are ahead.
    """

    def __init__(self, now: Callable[[], float] = SYSTEM_CLOCK.now) -> None:
        self._now = now
        self._levels: dict[int, _Level] = {}  # the bits of a number of requests -> its level

    def note(self, under_way: int, seconds: float, answers: int) -> None:
        """Notes answers.

        Args:
            under_way: How many requests there were.
            seconds: How long they had, all together.
            answers: How many were answered.
        """
        level = self._levels.get(bits := under_way.bit_length())
        if level is None:
            self._levels[bits] = level = _Level()
        level.seconds = level.seconds * _KEPT + seconds
        level.answers = level.answers * _KEPT + answers
        level.seen = self._now()

    def wait(self, number: int) -> float | None:
        """Returns the seconds in which so many requests are answered; None: it is not known."""
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
    """Counts the requests of one model, and knows how fast they are answered (`WaitEstimator`)."""

    def __init__(
        self,
        name: str,
        most: int,
        now: Callable[[], float] = SYSTEM_CLOCK.now,
        make_room: Callable[[], object] = lambda: None,
    ) -> None:
        """Takes what requests are counted by.

        Args:
            name: The model's name, for messages.
            most: How many requests may be under way.
            now: Tells the time, in seconds.
            make_room: Called before a request is refused: it may count out those that are over.
        """
        self._name = name
        self.most = most
        """How many may be under way."""
        self._now = now
        self._make_room = make_room
        self._wait_estimator = WaitEstimator(now)
        self._since = 0.0  # the last answer, or when there was something to answer again
        self._highest = 0  # of those under way, since then
        self.under_way = 0
        """Requests that have no answer yet."""
        self.doing: VersionActivity | None = None
        """Where it is noted whether there are any; None: nowhere."""
        self.refused: Counter[str] = Counter()
        """How many were refused, by reason."""

    @property
    def expected_wait(self) -> float | None:
        """Seconds until one that came now would be answered; None: nothing was answered yet."""
        return self._wait_estimator.wait(self.under_way + 1)

    def takes(self, deadline: float | None) -> bool:
        """Tells whether `admit` would take a request."""
        return self.under_way < self.most and (deadline is None or self._late(deadline) is None)

    def _late(self, deadline: float) -> float | None:
        """Returns the seconds that one would wait that can wait less; None: it can wait.

        Where nothing is under way, one is tried, whatever was before.
        """
        wait = self.expected_wait if self.under_way else None
        return wait if wait is not None and wait > deadline else None

    def admit(self, deadline: float | None) -> None:
        """Takes a request.

        Args:
            deadline: Seconds for which whoever sends it waits; None: for ever.

        Raises:
            OverloadedError: it is not taken.
        """
        if deadline is not None or self.under_way >= self.most:  # else `expect` says nothing
            self.expect(deadline)
        if not self.under_way:
            self._since, self._highest = self._now(), 0
            if self.doing is not None:
                self.doing.work()
        self.under_way += 1
        if self.under_way > self._highest:
            self._highest = self.under_way

    def expect(self, deadline: float | None) -> None:
        """Refuses what `admit` would refuse, and counts nothing.

        Args:
            deadline: Seconds for which whoever sends it waits; None: for ever.

        Raises:
            OverloadedError: it would not be taken.
        """
        if not self.takes(deadline):
            self._make_room()
        if self.under_way >= self.most:
            raise self._full()
        if deadline is not None and (wait := self._late(deadline)) is not None:
            raise self._refusal(
                f"model {self._name!r} would answer in about {wait:.3g} s, and whoever asks waits "
                f"{deadline:.3g} s; come again",
                "would_miss_deadline",
                wait - deadline,
            )

    def _full(self) -> OverloadedError:
        text = (
            f"model {self._name!r} has {self.most} requests under way, as many as it may; "
            "come again"
        )
        wait = self.expected_wait
        seconds = 1.0 if wait is None else wait / self.most
        return self._refusal(text, "full", seconds)

    def on_done(self, count: int = 1) -> None:
        """Notes that requests are over, answered or not: there is room for others."""
        self.under_way -= count
        if not self.under_way and self.doing is not None:
            self.doing.rest()

    def on_answer(self, count: int) -> None:
        """Notes how many of those that are over were answered, together, since the last time."""
        if not count:
            return
        now = self._now()
        self._wait_estimator.note(self._highest, now - self._since, count)
        self._since, self._highest = now, self.under_way

    def _refusal(self, text: str, reason: str, seconds: float) -> OverloadedError:
        self.refused[reason] += 1
        return OverloadedError(text, reason, max(0.001, seconds))


def whole_seconds(error: OverloadedError) -> int:
    """Returns what ``Retry-After`` says: whole seconds, at least one."""
    return max(1, math.ceil(error.retry_after))
