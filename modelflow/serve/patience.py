"""How long whoever sent a request waits for its answer."""

from modelflow.http.exchange import Exchange
from modelflow.wire.problem import Problem

__all__ = ["earlier", "seconds_of"]

_HEADER = b"inference-timeout-ms"


def seconds_of(exchange: Exchange) -> float | None:
    """Returns what the header ``Inference-Timeout-Ms`` says, in seconds; None: nothing.

    Raises:
        Problem: it is no number above 0.
    """
    value = exchange.head.named.get(_HEADER)
    if value is None:
        return None
    text = value.decode("latin-1")
    try:
        milliseconds = float(text)
    except ValueError:
        milliseconds = 0.0
    if not 0 < milliseconds < float("inf"):
        message = f"header Inference-Timeout-Ms: got {text!r}; expected milliseconds above 0"
        raise Problem(message)
    return milliseconds / 1e3


def earlier(*seconds: float | None) -> float | None:
    """Returns the shortest of some times to wait; None: for ever."""
    return min((one for one in seconds if one is not None), default=None)
