"""Load: clients that wait for their answers, or requests that are due, whatever is answered.

Open loop: request 7 was due at 0.35 s, was taken at 0.40 s because the queue was full, and was
answered at 0.47 s: its latency is 0.12 s. Counted from the moment at which it was sent it would be
0.07 s, and a flow that stands still would look fast (Gil Tene's "coordinated omission").
"""

import math
import queue
import random
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from modelflow.tune.percentile import percentile_of

__all__ = ["Load", "LoadReport", "Target"]

_ROOM = object()
"""What is said instead of a request when there is room again."""
_AGAIN = object()
"""What is said where somebody is only to look again."""
_MOST = 256
"""Requests that are sent together."""


class Target(Protocol):
    """What is loaded: it makes requests, takes them, and says what became of them."""

    def make(self, number: int, on_end: Callable[[Any], None]) -> Any:
        """Returns a request that was not sent yet.

        Args:
            number: Which one: 0, 1, 2, ...
            on_end: Called once with the request when it is over, on any thread.
        """

    def submit(self, requests: Sequence[Any], on_room: Callable[[], None]) -> Sequence[Any]:
        """Sends requests, in order, and waits for nothing.

        Args:
            requests: Those that were made.
            on_room: Called once if some are returned, when there may be room for them.

        Returns:
            Those for which there is no room.
        """

    def outcome(self, request: Any) -> str:
        """Returns ``ok``, or in short what went wrong with a request that is over."""

    def cancel(self, request: Any) -> None:
        """Gives up one that was sent: it is over soon."""


@dataclass(frozen=True)
class LoadReport:
    """What became of the requests that have ended in some time.

    Attributes:
        seconds: How long that was.
        outcomes: ``ok``, or what went wrong -> how many.
        latencies: Of each that was answered well, in seconds, rising.
        late: How late the last 1 % of requests were sent, in seconds, by who sends; open loop.
        unsent: Requests that found no room before the time was over.
    """

    seconds: float
    outcomes: Mapping[str, int]
    latencies: Sequence[float]
    late: float = 0.0
    unsent: int = 0

    @property
    def rate(self) -> float:
        """Requests a second that were answered well."""
        return len(self.latencies) / self.seconds if self.seconds > 0 else 0.0

    def percentile(self, percent: float) -> float:
        """Returns the latency that so many percent do not exceed, in seconds; 0 without any."""
        return percentile_of(self.latencies, percent)

    def document(self) -> dict[str, Any]:
        """Returns it as what JSON can hold; times in seconds."""
        marks = (50, 90, 95, 99, 99.9, 100)
        mean = sum(self.latencies) / len(self.latencies) if self.latencies else 0.0
        return {
            "seconds": self.seconds,
            "rate": self.rate,
            "outcomes": dict(self.outcomes),
            "unsent": self.unsent,
            "late": self.late,
            "latency": {"mean": mean, **{f"p{mark:g}": self.percentile(mark) for mark in marks}},
        }


class _Clients:
    """When the next request is due: when an earlier one has ended."""

    def __init__(self, count: int) -> None:
        self._left = count

    def due(self, now: float) -> float | None:
        """Returns when the next one is; None: when another has ended."""
        return now if self._left else None

    def taken(self) -> None:
        self._left -= 1

    def ended(self) -> None:
        self._left += 1


class _Arrivals:
    """When the next request is due: whatever has become of the earlier ones."""

    def __init__(self, rate: float, seed: int) -> None:
        self._rate = rate
        self._random = random.Random(seed)
        self._next: float | None = None

    def due(self, now: float) -> float | None:
        if self._next is None:
            self._next = now
        return self._next

    def taken(self) -> None:
        assert self._next is not None  # it was due
        self._next += self._random.expovariate(self._rate)

    def ended(self) -> None:
        """Nothing follows from it."""


class Load:
    """Load on a target; requests are made, submitted and counted on the caller's thread.

    One run at a time; after `stop` no other begins.
    """

    def __init__(self, target: Target) -> None:
        """Sends nothing yet; ``target`` runs."""
        self._target = target
        self._is_over = False
        # Requests that have ended, each with the moment; that there is room again, or an end.
        self._told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._held: deque[Any] = deque()  # there was no room for them
        self._due: dict[Any, float] = {}  # those that are under way
        self._has_room = True
        self._number = 0
        self._late = array("d")
        self._latencies = array("d")
        self._outcomes: Counter[str] = Counter()

    def closed(
        self,
        clients: int,
        seconds: float,
        *,
        settling: float = 0.0,
        marked: Callable[[], None] = lambda: None,
    ) -> LoadReport:
        """Has so many clients send a request each, and the next one when that is answered.

        Args:
            clients: How many are under way.
            seconds: How long, without the time in which it settles.
            settling: Seconds before anything counts.
            marked: Called when it has settled, and when the time is over: before what is under way
                is waited for.

        Raises:
            StreamClosed: the flow ended meanwhile.
        """
        return self._run(_Clients(clients), seconds, settling, marked)

    def open(
        self,
        rate: float,
        seconds: float,
        *,
        settling: float = 0.0,
        seed: int = 0,
        marked: Callable[[], None] = lambda: None,
    ) -> LoadReport:
        """Sends so many requests a second, whether the earlier ones are answered or not.

        Args:
            rate: Requests a second, of a Poisson process.
            seconds: See `closed`.
            settling: See `closed`.
            marked: See `closed`.
            seed: Of the random numbers.

        Raises:
            StreamClosed: the flow ended meanwhile.
        """
        return self._run(_Arrivals(rate, seed), seconds, settling, marked)

    def stop(self) -> None:
        """Ends the run at once, and what is under way; from any thread."""
        self._is_over = True
        self._told.put(_AGAIN)

    def _run(
        self,
        source: _Clients | _Arrivals,
        seconds: float,
        settling: float,
        marked: Callable[[], None],
    ) -> LoadReport:
        self._late, self._latencies, self._outcomes = array("d"), array("d"), Counter()
        self._go_on(source, time.monotonic() + settling, math.inf)
        marked()
        since = time.monotonic()
        self._go_on(source, since + seconds, since)
        ended = time.monotonic()
        marked()
        unsent = len(self._held)
        for request in self._held:  # nobody has it yet
            del self._due[request]
        self._held.clear()
        while self._due and not self._is_over:
            self._take(None, source, math.inf)
        for request in list(self._due):
            self._target.cancel(request)
        while self._due:
            self._take(None, source, math.inf)
        late = sorted(self._late)
        return LoadReport(
            ended - since,
            dict(self._outcomes),
            sorted(self._latencies),
            late[int(0.99 * (len(late) - 1))] if late else 0.0,
            unsent,
        )

    def _go_on(self, source: _Clients | _Arrivals, end: float, since: float) -> None:
        """Sends what is due until a moment has come; counts what ends from another on."""
        while (now := time.monotonic()) < end and not self._is_over:
            due = source.due(now)
            while due is not None and due <= now and self._has_room and len(self._held) < _MOST:
                self._make(due)
                source.taken()
                if now >= since:
                    self._late.append(now - due)
                due = source.due(now)
            self._submit()
            wait = end - now if due is None or self._held else max(0.0, min(due, end) - now)
            self._take(wait, source, since)

    def _make(self, due: float) -> None:
        request = self._target.make(self._number, self._ended)
        self._number += 1
        self._due[request] = due
        self._held.append(request)

    def _submit(self) -> None:
        if self._held and self._has_room:
            self._has_room = False
            self._held = deque(self._target.submit(list(self._held), self._room))
            if not self._held:
                self._has_room = True

    def _room(self) -> None:
        self._told.put(_ROOM)

    def _ended(self, request: Any) -> None:
        self._told.put((request, time.monotonic()))

    def _take(self, wait: float | None, source: _Clients | _Arrivals, since: float) -> None:
        """Waits for the next thing that is told, and takes in all that were."""
        try:
            told = self._told.get(timeout=wait)
            while True:
                if told is _ROOM:
                    self._has_room = True
                elif told is not _AGAIN:
                    request, now = told
                    self._count(request, now, since)
                    source.ended()
                told = self._told.get_nowait()
        except queue.Empty:
            return

    def _count(self, request: Any, now: float, since: float) -> None:
        due = self._due.pop(request)
        if now < since or self._is_over:
            return
        outcome = self._target.outcome(request)
        self._outcomes[outcome] += 1
        if outcome == "ok":
            self._latencies.append(now - due)
