"""When requests to a model are given up that have no answer: whatever the model does meanwhile."""

import asyncio
from typing import TYPE_CHECKING, Protocol

from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.wire.problem import Code, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelflow.serve.row_reader import Asker

__all__ = ["Limited", "TimeLimit"]

# Seconds by which a timer of the loop may be before the clock.
_EARLY = 0.001
# What would be given up so little before others waits with them: it needs no timer of its own.
_NEAR = 0.05


class Limited(Protocol):
    """Requests that may be given up.

    Attributes:
        since: From when on they wait, by the clock.
    """

    since: float

    def give_up(self, problem: Problem, /) -> None:
        """Ends them with this problem; what is computed for them is dropped when it comes."""


class TimeLimit:
    """Gives up what has no answer in time. For the server's thread.

    Attributes:
        seconds: How long any request may take.
        waiting: Those that wait so long, the oldest first. Who puts one in looks whether there is a
            `timer`, which `begin` sets; who has an answer takes it out.
        own: Those that are given up earlier, with the timer of each; taken out by `forget`.
        timer: When it is looked whose time is over; None: nobody waits.
    """

    def __init__(self, seconds: float) -> None:
        """Takes how long any request may take."""
        self.seconds = seconds
        self.waiting: dict[Limited, None] = {}
        self.own: dict[Limited, asyncio.TimerHandle] = {}
        self.timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Has it looked whose time is over, when the first may be."""
        self.timer = asyncio.get_running_loop().call_later(self.seconds, self._look)

    def add(self, one: Limited, deadline: float | None = None) -> None:
        """Begins to wait for an answer.

        Args:
            one: What is given up.
            deadline: Seconds for which whoever asks waits; None: the limit alone counts.
        """
        if deadline is None or deadline > self.seconds - _NEAR:
            self.waiting[one] = None
            if self.timer is None:
                self.begin()
        else:
            loop = asyncio.get_running_loop()
            self.own[one] = loop.call_later(deadline, self._expire, one)

    def add_oldest(self, one: Limited, waiting: "Iterable[tuple[Asker, float]]") -> None:
        """Begins to wait for those who ask together, of whom the oldest is given up first.

        Args:
            one: What is given up: with `list_late` it finds which, and adds itself again.
            waiting: Who asks, in order, and when each came, by the clock.
        """
        began = next((began for asker, began in waiting if not asker.is_over), None)
        if began is not None:
            one.since = began
            self.add(one, max(0.0, began + self.seconds - SYSTEM_CLOCK.now()))

    def list_late(self, waiting: "Iterable[tuple[Asker, float]]") -> list[int]:
        """Returns the places of those who ask together that have waited as long as any may."""
        latest = SYSTEM_CLOCK.now() - self.seconds + _EARLY
        return [
            place
            for place, (asker, began) in enumerate(waiting)
            if began <= latest and not asker.is_over
        ]

    def renew(self, one: Limited) -> None:
        """Begins anew for a stream, which has given a part; its deadline stays."""
        if one not in self.own:
            one.since = SYSTEM_CLOCK.now()
            self.waiting.pop(one, None)
            self.waiting[one] = None

    def forget(self, one: Limited) -> None:
        """Waits no more: there is an answer. May be called again."""
        timer = self.own.pop(one, None)
        if timer is None:
            self.waiting.pop(one, None)
        else:
            timer.cancel()

    def _look(self) -> None:
        self.timer = None
        now = SYSTEM_CLOCK.now()
        for one in list(self.waiting):
            left = one.since + self.seconds - now
            if left > _EARLY:
                self.timer = asyncio.get_running_loop().call_later(left, self._look)
                return
            if self.waiting.pop(one, self) is None:  # else it was answered meanwhile
                one.give_up(self.problem())

    def _expire(self, one: Limited) -> None:
        del self.own[one]
        one.give_up(Problem("its deadline passed before it was computed", Code.DEADLINE_EXCEEDED))

    def problem(self) -> Problem:
        """Returns what a request is told that has taken as long as any may."""
        text = f"there was no answer within {self.seconds:g} s (--request-timeout)"
        return Problem(text, Code.DEADLINE_EXCEEDED)
