"""The clock that every wait of the runtime goes by; tests give one that they turn by hand."""

import threading
import time
from collections.abc import Callable

__all__ = ["SYSTEM_CLOCK", "Clock"]


class Clock:
    """The system's monotonic clock."""

    # Every batch asks several times: this is the system's own call, without one of ours around it.
    now: Callable[[], float] = staticmethod(time.monotonic)
    """Returns the time in seconds since some fixed moment."""

    def wait(self, condition: threading.Condition, timeout: float | None = None) -> bool:
        """Waits on ``condition`` (held by the caller); False if ``timeout`` seconds passed.

        The caller holds it again whatever happens: a Ctrl-C may come before it has been let go.
        """
        try:
            return condition.wait(timeout)
        except BaseException:
            if not condition._is_owned():  # type: ignore[attr-defined]
                condition.acquire()
            raise


SYSTEM_CLOCK = Clock()
