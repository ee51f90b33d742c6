"""SIGTERM, as service managers and containers send it: what was taken on is finished first."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["INTERRUPTED", "TERMINATED", "termination"]

# The exit codes: 128 and the signal's number, as shells have it.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM


@contextmanager
def termination(asked: threading.Event, finish: Callable[[], None] | None) -> Iterator[None]:
    """Has the first SIGTERM inside the block call ``finish``, on a thread of its own.

    Nothing is raised where the main thread happens to be, so nothing that it holds is lost. A
    second SIGTERM ends the process. Where the block is not in the main thread nothing changes.

    Args:
        asked: Set once the signal has come.
        finish: What to do; joined at the end of the block. None: the signal ends the process.
    """
    if finish is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    finishing = threading.Thread(target=finish, name="modelflow-cli/finish")

    def handle(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        asked.set()
        finishing.start()

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if asked.is_set():
            finishing.join()
