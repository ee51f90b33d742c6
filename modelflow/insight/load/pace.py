"""When the next request of a load is due: at a rate, or when a client has its answer."""

import itertools
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator

import numpy as np

from modelflow.insight.load.options import ARRIVALS, MOST_REQUESTS, LoadOptions

# Moments that are drawn at once.
_BLOCK = 1024


def arrivals_of(kind: str, rate: float, seed: int = 0) -> Iterator[float]:
    """Gives the moments at which requests are due, without an end, in seconds from the beginning.

    Args:
        kind: ``poisson``: independent of each other, the times between them exponential, as those
            of many who do not know of each other; ``constant``: all the same time apart.
        rate: Requests a second.
        seed: Of the random numbers.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in ARRIVALS:
        raise ValueError(f"arrivals: got {kind!r}; expected {' or '.join(ARRIVALS)}")
    if kind == "poisson":
        return _poisson(rate, seed)
    return (number / rate for number in itertools.count())  # not a sum, whose error would grow


def _poisson(rate: float, seed: int) -> Iterator[float]:
    generator, last = np.random.default_rng(seed), 0.0
    while True:
        moments = last + np.cumsum(generator.exponential(1.0 / rate, _BLOCK))
        last = float(moments[-1])
        yield from moments.tolist()


class Pace(ABC):
    """When requests are due; one thread uses it.

    Attributes:
        is_open: Requests are due whatever becomes of the earlier ones.
        waits_for_answers: Something may follow from a request's end.
        is_draining: None is due any more.
        end: When none is due any more, by the clock; infinite: that is not known.
        most: How many there are behind the warm-up, at most.
    """

    is_open: bool
    waits_for_answers: bool

    def __init__(self, options: LoadOptions) -> None:
        """Takes the end."""
        self._span = math.inf
        if options.seconds is not None:
            self._span = options.warm_up + options.seconds
        self.is_draining = False
        self.most = options.requests or MOST_REQUESTS
        self.end = math.inf

    def begin(self, start: float) -> None:
        """Begins, at this time of the clock."""
        self.end = start + self._span

    @abstractmethod
    def due(self, now: float) -> float | None:
        """Returns when the next one is due; infinite: unknown; None: none is any more."""

    @abstractmethod
    def advance(self) -> None:
        """Goes on to the one behind."""

    @abstractmethod
    def on_free(self, end: float) -> None:
        """Notes that a request was over then."""

    def drain(self) -> None:
        """Notes that none is sent any more, and the ends of those under way are waited for."""
        self.is_draining = self.waits_for_answers = True


class Rate(Pace):
    """An open loop: requests at the moments of a process; see `Pace`."""

    is_open = True
    waits_for_answers = False

    def __init__(self, options: LoadOptions) -> None:
        """Takes the rate, its process, and the end."""
        super().__init__(options)
        assert options.rate is not None  # else it is a closed loop
        self._moments = arrivals_of(options.arrivals, options.rate, options.seed)
        self._start = self._next = 0.0

    def begin(self, start: float) -> None:
        """See `Pace`."""
        super().begin(start)
        self._start = start
        self._next = next(self._moments)

    def due(self, now: float) -> float | None:
        """See `Pace`; what was due before the end is, however late it is now."""
        if self._next < self._span:
            return self._start + self._next
        return None if now >= self.end else math.inf

    def advance(self) -> None:
        """See `Pace`."""
        self._next = next(self._moments)

    def on_free(self, end: float) -> None:
        """Nothing follows from it."""


class Clients(Pace):
    """A closed loop: each client sends a request when it has the answer to its last one."""

    is_open = False
    waits_for_answers = True

    def __init__(self, options: LoadOptions) -> None:
        """Takes how many clients there are, and the end."""
        super().__init__(options)
        assert options.clients is not None  # else it is an open loop
        self._count = options.clients
        self._free: deque[float] = deque()  # since when

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
