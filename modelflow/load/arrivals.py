"""When requests are due: the moments of an open loop."""

from collections.abc import Iterator

import numpy as np

from modelflow.load.options import ARRIVALS

__all__ = ["arrivals_of"]

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
        message = f"arrivals: got {kind!r}; expected {' or '.join(ARRIVALS)}"
        raise ValueError(message)
    return _poisson(rate, seed) if kind == "poisson" else _constant(rate)


def _poisson(rate: float, seed: int) -> Iterator[float]:
    generator, last = np.random.default_rng(seed), 0.0
    while True:
        moments = last + np.cumsum(generator.exponential(1.0 / rate, _BLOCK))
        last = float(moments[-1])
        yield from moments.tolist()


def _constant(rate: float) -> Iterator[float]:
    number = 0
    while True:  # not a sum, whose error would grow
        yield number / rate
        number += 1
