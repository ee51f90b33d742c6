"""When a replica that has ended is replaced."""

__all__ = ["Backoff"]

_LONGEST = 30.0
# One that has lived so long has served: what ended it does not end each at once.
_WELL = 10.0


class Backoff:
    """At once, but after 1, 2, 4 ... 30 seconds where one after another ends soon."""

    def __init__(self) -> None:
        """Begins with nothing gone wrong."""
        self._pause = 0.0

    def after(self, seconds: float) -> float:
        """Returns for how many seconds to wait.

        Args:
            seconds: How long the one that has ended had lived.
        """
        if seconds >= _WELL:
            self._pause = 0.0
        pause = self._pause
        self._pause = min(max(1.0, 2 * pause), _LONGEST)
        return pause
