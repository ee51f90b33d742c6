"""When a replica that has ended is replaced."""

__all__ = ["Backoff"]

_LONGEST = 30.0


class Backoff:
    """At once, but after 1, 2, 4 ... 30 seconds where one after another ends soon."""

    def __init__(self, well: float) -> None:
        """Begins with nothing gone wrong.

        Args:
            well: Seconds after which one that has ended had served: it is replaced at once.
        """
        self._well = well
        self._pause = 0.0

    def after(self, seconds: float) -> float:
        """Returns for how many seconds to wait.

        Args:
            seconds: How long the one that has ended had lived.
        """
        if seconds >= self._well:
            self._pause = 0.0
        pause = self._pause
        self._pause = min(max(1.0, 2 * pause), _LONGEST)
        return pause
