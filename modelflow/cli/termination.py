"""Signals, as service managers and containers send them.

SIGTERM: what was taken on is finished first. SIGHUP: what is on the disk is read again.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["INTERRUPTED", "TERMINATED", "termination"]

# The exit codes: 128 and the signal's number, as shells have it.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM

# Seconds after which a main thread that has not noticed a Ctrl-C is woken again.
_AGAIN = 0.05


@contextmanager
def termination(
    asked: threading.Event,
    finish: Callable[[], None] | None,
    hangup: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Has the first SIGTERM inside the block call ``finish``, on a thread of its own.

    Nothing is raised where the main thread happens to be, so nothing that it holds is lost. A
    second SIGTERM ends the process. Where the block is not in the main thread nothing changes.

    Args:
        asked: Set once the signal has come.
        finish: What to do; joined at the end of the block. None: the signal ends the process.
        hangup: Called for each SIGHUP, on a thread that it must not hold up; None: it ends the
            process.
    """
    if finish is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = _Watch(asked, finish, hangup)
    with watch:
        yield


class _Watch:
    """A thread that is told of signals while the main thread waits for something else.

    Python calls a handler when the main thread next runs. A signal that comes when that is about to
    wait, and before it does, is noticed when the wait is over: perhaps never. What C writes into a
    socket at each signal is read in any case.
    """

    def __init__(
        self,
        asked: threading.Event,
        finish: Callable[[], None],
        hangup: Callable[[], None] | None,
    ) -> None:
        self._asked = asked
        self._hangup = hangup
        self._finishing = threading.Thread(target=finish, name="modelflow-cli/finish")
        self._reading = threading.Thread(target=self._read, name="modelflow-cli/signals")
        self._noticed = threading.Event()
        self._main = threading.get_ident()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._handlers: dict[int, Callable[[int, FrameType | None], None]] = {
            signal.SIGTERM: _ignore,
            signal.SIGWINCH: _ignore,  # what wakes the main thread, and does nothing else
        }
        if hangup is not None:
            self._handlers[signal.SIGHUP] = _ignore
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._handlers[signal.SIGINT] = self._interrupt
        self._before: dict[int, Any] = {}
        self._wakeup = -1

    def __enter__(self) -> None:
        self._reading.start()
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number, handler in self._handlers.items():
            self._before[number] = signal.signal(number, handler) or signal.SIG_DFL

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._noticed.set()
        self._writer.close()
        self._reading.join()
        self._reader.close()
        if self._asked.is_set():
            self._finishing.join()

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._noticed.set()
        raise KeyboardInterrupt

    def _read(self) -> None:
        while numbers := self._reader.recv(64):
            for number in numbers:
                if number == signal.SIGTERM:
                    self._terminate()
                elif number == signal.SIGHUP and self._hangup is not None:
                    self._hangup()
                elif number == signal.SIGINT and signal.SIGINT in self._handlers:
                    self._wake()

    def _terminate(self) -> None:
        if self._asked.is_set():
            os._exit(TERMINATED)
        self._asked.set()
        self._finishing.start()

    def _wake(self) -> None:
        """Has the main thread notice a Ctrl-C, whatever it waits for."""
        while not self._noticed.wait(_AGAIN):
            signal.pthread_kill(self._main, signal.SIGWINCH)
        self._noticed.clear()


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Does nothing: the thread that reads is told."""
