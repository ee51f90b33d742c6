"""Signals, as service managers and containers send them.

SIGTERM: what was taken on is finished first. SIGHUP: what is on the disk is read again.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType, TracebackType

__all__ = ["INTERRUPTED", "TERMINATED", "termination"]

# The exit codes: 128 and the signal's number, as shells have it.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM

# Seconds after which a main thread that has not noticed a Ctrl-C is woken again.
_AGAIN = 0.05


def termination(
    asked: threading.Event,
    finish: Callable[[], None] | None,
    hangup: Callable[[], None] | None = None,
) -> AbstractContextManager[None]:
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
        return nullcontext()
    return _Watch(asked, finish, hangup)


class _Watch(AbstractContextManager[None]):
    """A thread that is told of signals while the main thread waits for something else.

    Python calls a handler when the main thread next runs. A signal that comes when that is about to
    wait, and before it does, is noticed when the wait is over: perhaps never. What C writes into a
    socket at each signal is read in any case.

    A Ctrl-C that comes while this begins or ends is raised when that is done: a thread that stayed
    would keep the process from ending.
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
        # That of a Ctrl-C comes first, and goes last.
        self._handlers: dict[int, Callable[[int, FrameType | None], None]] = {}
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._handlers[signal.SIGINT] = self._interrupt
        self._handlers[signal.SIGTERM] = _ignore
        self._handlers[signal.SIGWINCH] = self._woken
        if hangup is not None:
            self._handlers[signal.SIGHUP] = _ignore
        self._before = {number: signal.getsignal(number) for number in self._handlers}
        self._wakeup = -1
        self._is_interrupted = False

    def __enter__(self) -> None:
        if signal.SIGINT in self._handlers:
            signal.signal(signal.SIGINT, self._interrupt)
        self._reading.start()
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number, handler in self._handlers.items():  # only now is nothing lost that they ignore
            signal.signal(number, handler)
        if self._is_interrupted:
            self.__exit__(None, None, None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ctrl_c = self._before.pop(signal.SIGINT, None)
        for number, handler in self._before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        signal.set_wakeup_fd(self._wakeup)
        self._writer.close()
        self._reading.join()
        self._reader.close()
        if ctrl_c is not None:
            signal.signal(signal.SIGINT, ctrl_c)
        if self._is_interrupted:
            raise KeyboardInterrupt
        if self._asked.is_set():
            self._finishing.join()

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        self._noticed.set()
        while frame is not None:
            if frame.f_code in _UNDISTURBED:
                self._is_interrupted = True
                return
            frame = frame.f_back
        raise KeyboardInterrupt

    def _woken(self, _number: int, _frame: FrameType | None) -> None:
        """Notes that the main thread runs handlers: that of a Ctrl-C comes before this one's."""
        self._noticed.set()

    def _read(self) -> None:
        is_waking = False  # the main thread has not noticed a Ctrl-C yet, as far as is known
        while True:
            self._reader.settimeout(_AGAIN if is_waking else None)
            try:
                numbers = self._reader.recv(64)
            except TimeoutError:
                is_waking = not self._noticed.is_set()
                if is_waking:
                    signal.pthread_kill(self._main, signal.SIGWINCH)
                continue
            if not numbers:
                return
            for number in numbers:
                if number == signal.SIGTERM:
                    self._terminate()
                elif number == signal.SIGHUP and self._hangup is not None:
                    self._hangup()
                elif number == signal.SIGINT and signal.SIGINT in self._handlers:
                    self._noticed.clear()
                    is_waking = True

    def _terminate(self) -> None:
        if self._asked.is_set():
            os._exit(TERMINATED)
        self._asked.set()
        self._finishing.start()


_UNDISTURBED = (_Watch.__enter__.__code__, _Watch.__exit__.__code__)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Does nothing: the thread that reads is told."""
