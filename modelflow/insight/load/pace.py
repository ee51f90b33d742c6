"""The times at which requests are due: at a rate, or when a client has its reply."""

import itertools
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator

import numpy as np

from modelflow.insight.load.options import ARRIVALS, MOST_REQUESTS, LoadOptions

# Number of arrival times that are drawn in one call.
_BLOCK = 1024


def arrivals_of(kind: str, rate: float, seed: int = 0) -> Iterator[float]:
    """Yields the times at which requests are due, in seconds from the start, without end.

    Args:
        kind: ``poisson`` for independent requests with exponential intervals, as many independent
            clients send them. ``constant`` for equal intervals.
        rate: Requests a second.
        seed: Seed of the random numbers.

    Raises:
        ValueError: The kind is unknown.
    """
    if kind not in ARRIVALS:
        raise ValueError(f"arrivals: got {kind!r}; expected {' or '.join(ARRIVALS)}")
    if kind == "poisson":
        return _poisson(rate, seed)
    return (number / rate for number in itertools.count())  # a sum would accumulate an error


def _poisson(rate: float, seed: int) -> Iterator[float]:
    generator, last = np.random.default_rng(seed), 0.0
    while True:
        moments = last + np.cumsum(generator.exponential(1.0 / rate, _BLOCK))
        last = float(moments[-1])
        yield from moments.tolist()


class Pace(ABC):
    """The schedule of requests; used by one thread.

    Attributes:
        is_open: Whether requests are due independent of earlier replies.
        waits_for_answers: Whether the end of a request has consequences, such as a new request.
        is_draining: Whether all requests have been sent.
        end: The time of the clock after which no request is due; infinite if unknown.
        most: The most requests after the warm-up.
    """

    is_open: bool
    waits_for_answers: bool

    def __init__(self, options: LoadOptions) -> None:
        """Reads the duration and the limit of requests from the options."""
        self._span = math.inf
        if options.seconds is not None:
            self._span = options.warm_up + options.seconds
        self.is_draining = False
        self.most = options.requests or MOST_REQUESTS
        self.end = math.inf

    def begin(self, start: float) -> None:
        """Starts the schedule at this time of the clock."""
        self.end = start + self._span

    @abstractmethod
    def due(self, now: float) -> float | None:
        """Returns the time of the next request: infinite if unknown, None after the last."""

    @abstractmethod
    def advance(self) -> None:
        """Goes on to the following request."""

    @abstractmethod
    def on_free(self, end: float) -> None:
        """Notes that a request ended at this time."""

    def drain(self) -> None:
        """Notes that all requests were sent, and that only their ends are awaited."""
        self.is_draining = self.waits_for_answers = True


class Rate(Pace):
    """An open loop, with requests at the times of a random or constant process; see `Pace`."""

    is_open = True
    waits_for_answers = False

    def __init__(self, options: LoadOptions) -> None:
        """Reads the rate, its distribution and the duration from the options."""
        super().__init__(options)
        assert options.rate is not None  # None selects `Clients`
        self._moments = arrivals_of(options.arrivals, options.rate, options.seed)
        self._start = self._next = 0.0

    def begin(self, start: float) -> None:
        """See `Pace`."""
        super().begin(start)
        self._start = start
        self._next = next(self._moments)

    def due(self, now: float) -> float | None:
        """See `Pace`; includes late requests that were due before the end."""
        if self._next < self._span:
            return self._start + self._next
        return None if now >= self.end else math.inf

    def advance(self) -> None:
        """See `Pace`."""
        self._next = next(self._moments)

    def on_free(self, end: float) -> None:
        """Does nothing, because the rate does not depend on replies."""


class Clients(Pace):
    """A closed loop: each client sends a request after the reply to its last request."""

    is_open = False
    waits_for_answers = True

    def __init__(self, options: LoadOptions) -> None:
        """Reads the number of clients and the duration from the options."""
        super().__init__(options)
        assert options.clients is not None  # None selects `Rate`
        self._count = options.clients
        self._free: deque[float] = deque()  # for each idle client, the time since when it is idle

    def begin(self, start: float) -> None:
        """See `Pace`."""
        super().begin(start)
        self._free.extend([start] * self._count)

    def due(self, now: float) -> float | None:
        """See `Pace`."""
        if now >= self.end:
            return None
        return self._free[0] if self._free else math.inf

    def advance(self) -> None:
        """See `Pace`."""
        self._free.popleft()

    def on_free(self, end: float) -> None:
        """See `Pace`."""
        self._free.append(end)
