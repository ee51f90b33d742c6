"""What the operating system says of a thread: how long it ran, and how long it only could have."""

import threading


class ThreadTime:
    """The processor time of one thread, from a moment on; read by any other, kept when it ends.

    Linux counts for each thread the nanoseconds on a processor, and those in which it was runnable
    but others had the processors (``/proc/PID/task/TID/schedstat``); to read that takes about 40 us
    and costs the thread nothing. Where there is no such file both stay 0.
    """

    __slots__ = ("_began", "_ended", "_path")

    def __init__(self) -> None:
        """Begins now, with the calling thread."""
        self._path = f"/proc/self/task/{threading.get_native_id()}/schedstat"
        self._ended: tuple[float, float] | None = None
        self._began = _read(self._path) or (0.0, 0.0)

    def end(self) -> None:
        """Keeps what the thread has used so far: it ends."""
        self._ended = self.seconds()

    def seconds(self) -> tuple[float, float]:
        """Returns seconds on a processor, and seconds runnable without one."""
        if self._ended is not None:
            return self._ended
        now = _read(self._path)
        if now is None:
            return NOTHING
        ran, waited = self._began
        return max(0.0, now[0] - ran), max(0.0, now[1] - waited)


# More than three numbers of 64 bits take.
_LINE = 128

NOTHING = (0.0, 0.0)
"""What a thread has used that never ran."""


def _read(path: str) -> tuple[float, float] | None:
    try:
        with open(path, "rb", buffering=0) as file:
            ran, waited, _ = file.read(_LINE).split()
    except (OSError, ValueError):  # another system, or the thread has just ended
        return None
    return int(ran) / 1e9, int(waited) / 1e9
