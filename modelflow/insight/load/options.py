"""The options of a load test: rate or clients, duration and limits."""

import math
from dataclasses import dataclass

ARRIVALS = ("poisson", "constant")
"""The distributions of the requests of a rate: at random times, or at equal intervals."""
MOST_REQUESTS = 10_000_000
"""The most requests of a load test; every latency is stored, with 24 bytes a request."""
_MOST_RATE = 1e6
_MOST_CLIENTS = 100_000


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """The options of a load test: a rate (an open loop), or clients (a closed loop).

    Attributes:
        rate: Requests a second that are due, independent of the replies to earlier ones.
        clients: Requests in flight at all times. A new one is sent when one ends.
        seconds: Duration without the warm-up. None if only ``requests`` ends the load test.
        warm_up: Seconds before the measurement. Their requests are sent, but do not count.
        requests: The most requests that count. None for as many as ``seconds`` allows.
        timeout: Seconds after which a request is cancelled, from the start of its latency.
        max_in_flight: The most requests of a rate in flight. Requests beyond are not sent
            (`Outcome.SHED`).
        arrivals: The distribution of the requests of a rate: ``poisson`` or ``constant``.
        seed: Seed of the random numbers. The same seed gives the same times.

    Raises:
        ValueError: An option is out of its range, or two options do not go together.
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
        """Checks the range of an option; `is_open` excludes `least` itself."""
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
