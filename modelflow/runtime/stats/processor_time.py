"""The processor time of a thread, and its time of waiting for a processor."""

import threading


class ThreadTime:
    """The processor time of a thread since the creation of this object.

    Any thread may read it, also after the thread has ended. Linux counts for each thread the
    nanoseconds on a processor. It also counts the nanoseconds in which the thread was runnable, but
    others had the processors (``/proc/PID/task/TID/schedstat``). Reading the file takes about 40
    us, and costs the thread nothing. On systems without this file both values stay 0.
    """

    __slots__ = ("_began", "_ended", "_thread")

    def __init__(self) -> None:
        """Starts to measure the calling thread."""
        self._thread = threading.get_native_id()
        self._ended: tuple[float, float] | None = None
        self._began = read_schedule(self._thread) or (0.0, 0.0)

    def end(self) -> None:
        """Stores the final values, because the thread ends."""
        self._ended = self.seconds()

    def seconds(self) -> tuple[float, float]:
        """Returns the seconds on a processor, and the seconds of waiting for a processor."""
        if self._ended is not None:
            return self._ended
        now = read_schedule(self._thread)
        if now is None:
            return NOTHING
        ran, waited = self._began
        return max(0.0, now[0] - ran), max(0.0, now[1] - waited)


# Longer than three numbers of 64 bits.
_LINE = 128

NOTHING = (0.0, 0.0)
"""The values of a thread that never ran."""


def read_schedule(thread: int) -> tuple[float, float] | None:
    """Returns the seconds of a thread on a processor, and waiting for a processor.

    Args:
        thread: The thread's id in the system, in this process.

    Returns:
        None if the system does not count them, or if the thread has ended.
    """
    try:
        with open(f"/proc/self/task/{thread}/schedstat", "rb", buffering=0) as file:
            ran, waited, _ = file.read(_LINE).split()
    except (OSError, ValueError):  # no Linux, or the thread has just ended
        return None
    return int(ran) / 1e9, int(waited) / 1e9
