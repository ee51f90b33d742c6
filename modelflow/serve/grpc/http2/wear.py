"""How much of a connection is used up: it is given up before the library would end it."""

from enum import Enum

__all__ = ["Wear", "Worn"]

# zttp ends a connection at its 4097th stream, and at its 257th that is reset or malformed, whatever
# is under way then. A client may have 128 under way when it is asked to go.
_STREAMS, _LAST_STREAMS = 3800, 3950
_RESETS = 100
# Pings and settings a second; each is answered.
_SIGNALS = 1000


class Worn(Enum):
    """What a connection is still good for."""

    NOT = "everything"
    OLD = "what is under way, and what comes until its client knows"
    OUT = "what is under way"


class Wear:
    """Counts what a connection was used for."""

    def __init__(self) -> None:
        self._streams = self._resets = self._signals = 0
        self._since = 0.0

    @property
    def state(self) -> Worn:
        """What it is still good for."""
        if self._streams >= _LAST_STREAMS:
            return Worn.OUT
        return Worn.OLD if self._streams >= _STREAMS or self._resets >= _RESETS else Worn.NOT

    def stream(self) -> Worn:
        """Counts a stream that begins."""
        self._streams += 1
        if self._streams < _STREAMS and self._resets < _RESETS:
            return Worn.NOT
        return self.state

    def reset(self) -> Worn:
        """Counts a stream that its client gives up, or that was none."""
        self._resets += 1
        return self.state

    def is_flooded(self, now: float) -> bool:
        """Counts a ping, or settings, at a moment in seconds; True: there are too many."""
        if now - self._since > 1.0:
            self._since, self._signals = now, 0
        self._signals += 1
        return self._signals > _SIGNALS
