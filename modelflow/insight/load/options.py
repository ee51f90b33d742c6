"""What load is wanted, and for how long."""

import math
from dataclasses import dataclass

ARRIVALS = ("poisson", "constant")
"""How requests of a rate are spread: at random moments, or all the same time apart."""
MOST_REQUESTS = 10_000_000
"""Requests that one load has at most: each latency is kept, which takes 24 bytes a request."""
_MOST_RATE = 1e6
_MOST_CLIENTS = 100_000


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """What load is wanted: a rate (an open loop), or clients (a closed one).

    Attributes:
        rate: Requests a second that are due, whatever becomes of the earlier ones.
        clients: Requests that are always under way: the next one is sent when one is over.
        seconds: How long, without the warm-up; None: until ``requests`` have been sent.
        warm_up: Seconds before that, in which requests are sent and do not count.
        requests: How many count at most; None: as many as there are in ``seconds``.
        timeout: Seconds after which a request is given up, from when its latency counts.
        max_in_flight: Requests of a rate that are under way at most: what is due beyond is not sent
            (`Outcome.SHED`).
        arrivals: How the requests of a rate are spread: ``poisson`` or ``constant``.
        seed: Of the random numbers: the same one gives the same moments.

    Raises:
        ValueError: one is out of its range, or they do not go together.
    """

    rate: float | None = None
    clients: int | None = None
    seconds: float | None = 10.0
    warm_up: float = 1.0
    requests: int | None = None
    timeout: float = 30.0
    max_in_flight: int = 1024
    arrivals: str = "poisson"
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.rate is None) == (self.clients is None):
            got = "neither" if self.rate is None else "both"
            raise ValueError(f"rate and clients: got {got}; expected one of them")
        if self.seconds is None and self.requests is None:
            raise ValueError("seconds and requests: got neither; expected one of them, for an end")
        self._check("rate", 0.0, _MOST_RATE, "requests a second", is_open=True)
        self._check("clients", 1, _MOST_CLIENTS)
        self._check("seconds", 0.0, math.inf, "seconds", is_open=True)
        self._check("warm_up", 0.0, math.inf, "seconds")
        self._check("requests", 1, MOST_REQUESTS)
        self._check("timeout", 0.0, math.inf, "seconds", is_open=True)
        self._check("max_in_flight", 1, _MOST_CLIENTS)
        if self.arrivals not in ARRIVALS:
            raise ValueError(f"arrivals: got {self.arrivals!r}; expected {' or '.join(ARRIVALS)}")
        if self.rate is not None and self.requests is None and self.seconds is not None:
            total = self.rate * (self.seconds + self.warm_up)
            if total > MOST_REQUESTS:
                raise ValueError(
                    f"rate and seconds: got {total:.0f} requests; expected at most {MOST_REQUESTS}"
                )

    def _check(
        self, name: str, least: float, most: float, unit: str = "", *, is_open: bool = False
    ) -> None:
        """Checks that a number is in its range; ``is_open``: that it is more than ``least``."""
        value = getattr(self, name)
        if value is None:
            return
        is_enough = value > least if is_open else value >= least
        if is_enough and value <= most and math.isfinite(value):
            return
        expected = f"more than {least:g}" if is_open else f"at least {least:g}"
        if math.isfinite(most):
            expected += f" and at most {most:g}"
        raise ValueError(f"{name}: got {value!r}; expected {expected} {unit}".rstrip())
