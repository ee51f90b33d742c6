"""Signals, as service managers and containers send them.

SIGTERM: what was taken on is finished first. SIGHUP: what is on the disk is read again.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["INTERRUPTED", "TERMINATED", "on_hangup", "termination"]

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


@contextmanager
def on_hangup(call: Callable[[], None]) -> Iterator[None]:
    """Has each SIGHUP inside the block call ``call``, in the main thread, wherever that is.

    Where the block is not in the main thread, or there is no such signal, nothing changes.
    """
    is_main = threading.current_thread() is threading.main_thread()
    number = getattr(signal, "SIGHUP", None)
    if number is None or not is_main:
        yield
        return
    before = signal.signal(number, lambda _number, _frame: call())
    try:
        yield
    finally:
        signal.signal(number, before)
