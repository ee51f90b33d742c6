"""How fast a model answers, by how much it has to do: what a request that comes now will wait."""

from collections.abc import Callable

from modelflow.runtime.clock import SYSTEM_CLOCK

__all__ = ["Pace"]

# How much what is newest counts (exponential smoothing), and for how many seconds it is new.
_KEPT = 15 / 16
_NEW = 1.0


class _Level:
    """What was seen while about so many requests were under way."""

    __slots__ = ("answers", "seconds", "seen")

    def __init__(self) -> None:
        self.seconds = self.answers = self.seen = 0.0

    def note(self, seconds: float, answers: int, now: float) -> None:
        self.seconds = self.seconds * _KEPT + seconds
        self.answers = self.answers * _KEPT + answers
        self.seen = now

    @property
    def interval(self) -> float:
        """Seconds from one answer to the next."""
        return self.seconds / self.answers


class Pace:
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
        level = self._levels.setdefault(under_way.bit_length(), _Level())
        level.note(seconds, answers, self._now())

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
