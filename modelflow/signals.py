"""The end of a process: exit codes, signals of service managers and containers, time limits.

After a SIGTERM, the process finishes the work that it has accepted. After a SIGHUP, it reads its
files again.
"""

import ctypes
import faulthandler
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import IntEnum
from functools import partial
from types import FrameType, TracebackType
from typing import Generic, Self, TypeVar

# the class itself, because `threading.RLock` is a slower function around it
_RLock = type(threading.RLock())


class _LockOf314(_RLock):  # type: ignore[misc, valid-type]
    """A lock for Python 3.14, where ``with`` may lose a lock.

    There, a Ctrl-C may come after the lock is taken and before the block begins. The lock would
    then be held for ever (https://github.com/python/cpython/issues/148874).
    """

    __slots__ = ()

    def __enter__(self) -> bool:
        # `with` looks for no signal after a method in Python.
        try:
            return bool(self.acquire())
        except BaseException:
            if self._is_owned():
                self.release()
            raise


new_lock: Callable[[], threading.RLock] = _LockOf314 if sys.version_info[:2] == (3, 14) else _RLock
"""Returns a new lock for code that a Ctrl-C may interrupt."""


class ExitCode(IntEnum):
    """The exit code of a command; for a signal 128 plus its number, as in shells.

    Attributes:
        meaning: The meaning of the code, in Markdown.
        example: A command that ends with this code, in Markdown.
    """

    meaning: str
    example: str

    def __new__(cls, code: int, meaning: str, example: str) -> Self:
        """Returns the code with the texts of its row in the documentation."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        member.example = example
        return member

    OK = 0, "all is well", "`modelflow check graph.toml` of a graph without mistakes"
    FAILED = (
        1,
        "an error that stderr describes: in the graph, an item, a model, or a port in use",
        "`modelflow check` of a graph with a mistake; `modelflow run` when an item failed (0 with "
        "`--keep-going`)",
    )
    USAGE = (
        2,
        "the arguments are wrong",
        "`modelflow chek`; an input of the graph that gets nothing",
    )
    FOUND = (
        3,
        "nothing failed, but the command found something that limits the flow",
        "`modelflow doctor` (0 where nothing is wrong)",
    )
    INTERRUPTED = (
        130,
        "Ctrl-C (SIGINT); while the program still loads, the signal itself, which shells report "
        "as 130",
        "`modelflow run` that was stopped: it prints its progress, and `--resume` continues",
    )
    UNREAD = (
        141,
        "the program that read the output has ended",
        "`modelflow schema | head -1`, when `head` has read enough",
    )
    TERMINATED = (
        143,
        "SIGTERM: the process finished the work that it had accepted",
        "a server that its service manager stops; a second SIGTERM ends it at once",
    )


LAST_SECONDS = 2.0
"""The time in seconds for the end of a server after its time to answer."""

_STDERR = 2


class _Limit:
    until = math.inf


_limit = _Limit()


def end_within(seconds: float) -> None:
    """Ends the process after a number of seconds, unless an earlier call has set an earlier end.

    At that time the process writes the stacks of its threads and exits with code 1. This needs no
    thread of Python. A thread that hangs, in a finalizer of the garbage collector for example,
    cannot prevent the end.

    Args:
        seconds: The time from now.
    """
    until = time.monotonic() + seconds
    if until < _limit.until:
        _limit.until = until
        faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)


@contextmanager
def release_at_end() -> Iterator[None]:
    """Cancels at the end of the block the limit that `end_within` set inside the block.

    The server has ended by then, and a program that embeds it continues. `limit_exit` applies the
    limit again.
    """
    _limit.until = math.inf
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def limit_exit() -> None:
    """Applies the limit of `end_within`, if any, to the end of the interpreter."""
    if _limit.until < math.inf:
        seconds = max(0.01, _limit.until - time.monotonic())
        faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)


T = TypeVar("T")

# Seconds after which a main thread that has not noticed a Ctrl-C is woken again.
_AGAIN = 0.05


# Seconds after which a second Ctrl-C is raised even in a region that defers the first.
_LONGEST = 1.0


class _Deferral:
    """A deferred Ctrl-C of the main thread, on which all signal handlers run.

    It has no lock and no member with a lock, because a handler can interrupt another handler.
    """

    since: float | None = None
    """The time of the deferred Ctrl-C, or None."""

    def put_off(self) -> bool:
        """Defers a Ctrl-C that came now, and returns True, or returns False to raise immediately.

        A second Ctrl-C after `_LONGEST` seconds is raised, because the user has asked again.
        """
        now = time.monotonic()
        if self.since is None:
            self.since = now
        elif now - self.since >= _LONGEST:
            self.since = None
            return False
        return True

    def raise_due(self) -> None:
        """Raises a deferred Ctrl-C."""
        if self.since is not None:
            self.since = None
            raise KeyboardInterrupt


_deferral = _Deferral()


def termination(
    asked: threading.Event,
    finish: Callable[[], None] | None,
    hangup: Callable[[], None] | None = None,
) -> AbstractContextManager[None]:
    """Calls ``finish`` on a thread of its own after the first SIGTERM inside the block.

    A SIGTERM raises nothing in the main thread, which therefore loses no data. A second SIGTERM
    ends the process. A Ctrl-C is raised in the main thread, also during a wait, but not while it
    enters or leaves an `Undisturbed` context. If the block is not in the main thread, the function
    has no effect.

    Args:
        asked: Set when the SIGTERM comes.
        finish: The function to call; the block waits at its end until it returns. If None, a
            SIGTERM ends the process.
        hangup: Called for each SIGHUP, on a thread that it must not block. If None, a SIGHUP ends
            the process.
    """
    if threading.current_thread() is not threading.main_thread():
        return nullcontext()
    return _SignalWatch(asked, finish, hangup)


@contextmanager
def end_on_sigterm() -> Iterator[None]:
    """Ends the program after a SIGTERM inside the block as after a Ctrl-C, with its own exit code.

    For commands that have no work to finish, but must clean up. The SIGTERM is raised as
    `KeyboardInterrupt`, because code that imports modules of users takes a `SystemExit` for an exit
    of the module.
    """
    asked = threading.Event()
    try:
        with termination(asked, partial(signal.raise_signal, signal.SIGINT)):
            yield
    except KeyboardInterrupt as interrupt:
        if asked.is_set():
            raise SystemExit(ExitCode.TERMINATED) from interrupt
        raise


class Undisturbed(AbstractContextManager[T], Generic[T]):
    """A context that a Ctrl-C inside `termination` cannot leave half entered or half exited.

    Otherwise a Ctrl-C during the start of a thread would leave a thread that no code ends. A Ctrl-C
    that comes while the context is entered or left is raised after that step. The step must be
    short, because a second Ctrl-C after one second is raised immediately.
    """

    def __init__(self, inner: AbstractContextManager[T]) -> None:
        self._inner = inner

    def __enter__(self) -> T:
        try:
            value = self._inner.__enter__()
        except BaseException:
            _deferral.raise_due()
            raise
        try:
            _deferral.raise_due()
        except KeyboardInterrupt as interrupt:
            self._inner.__exit__(KeyboardInterrupt, interrupt, None)
            raise
        return value

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            return self._inner.__exit__(kind, error, traceback)
        finally:
            _deferral.raise_due()


def call_undisturbed(act: Callable[[], None]) -> None:
    """Calls ``act``, and raises a Ctrl-C that comes meanwhile after the call."""
    try:
        act()
    finally:
        _deferral.raise_due()


class _SignalWatch(AbstractContextManager[None]):
    """A thread that receives signals while the main thread waits.

    Python calls a handler when the main thread next runs bytecode. A signal that comes just before
    the main thread begins to wait is noticed only after the wait, perhaps never. Therefore C code
    writes each signal into a socket, and this thread reads the socket.

    A Ctrl-C that comes while the watch begins or ends is raised after that step. Otherwise the
    thread could stay and keep the process from ending.
    """

    def __init__(
        self,
        asked: threading.Event,
        finish: Callable[[], None] | None,
        hangup: Callable[[], None] | None,
    ) -> None:
        self._asked = asked
        self._hangup = hangup
        self._finishing = threading.Thread(target=finish, name="modelflow-cli/finish")
        self._reading = threading.Thread(target=self._read, name="modelflow-cli/signals")
        # no `Event`, which has a lock: a handler can interrupt another handler
        self._is_noticed = False
        self._main = threading.get_ident()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        # The handler of a Ctrl-C is installed first and removed last.
        self._handlers: dict[int, Callable[[int, FrameType | None], None]] = {}
        if _is_raised(signal.getsignal(signal.SIGINT)):
            self._handlers[signal.SIGINT] = self._interrupt
        if finish is not None:
            self._handlers[signal.SIGTERM] = _ignore
        self._handlers[signal.SIGWINCH] = self._on_wake
        if hangup is not None:
            self._handlers[signal.SIGHUP] = _ignore
        self._before = {number: signal.getsignal(number) for number in self._handlers}
        self._wakeup = -1

    def __enter__(self) -> None:
        if signal.SIGINT in self._handlers:
            signal.signal(signal.SIGINT, self._interrupt)
        self._reading.start()
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        _watches.append(self)
        # The handlers ignore their signals, so the thread must be reading before they are
        # installed.
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if _deferral.since is not None:
            self.__exit__(None, None, None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ctrl_c = self._before.pop(signal.SIGINT, None)
        self._restore_handlers()
        _watches.remove(self)
        signal.set_wakeup_fd(self._wakeup)
        # a forked process may hold the socket open, and then `close` alone does not end the reads
        self._writer.shutdown(socket.SHUT_WR)
        self._writer.close()
        self._reading.join()
        self._reader.close()
        if ctrl_c is not None:
            signal.signal(signal.SIGINT, ctrl_c)
        _deferral.raise_due()
        if self._asked.is_set():
            self._finishing.join()

    def _restore_handlers(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def leave_child(self) -> None:
        """Ends the watch in a forked child, whose signals would reach the parent's thread."""
        self._restore_handlers()
        self._writer.close()
        self._reader.close()

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        self._is_noticed = True
        while frame is not None:
            if frame.f_code in _UNDISTURBED:
                if _deferral.put_off():
                    return
                break
            frame = frame.f_back
        raise KeyboardInterrupt

    def _on_wake(self, _number: int, _frame: FrameType | None) -> None:
        """Notes that the main thread runs handlers.

        Python calls the handler of SIGINT before this one, because its number is lower.
        """
        self._is_noticed = True

    def _read(self) -> None:
        is_waking = False  # True while the main thread may not have noticed a Ctrl-C
        while True:
            self._reader.settimeout(_AGAIN if is_waking else None)
            try:
                numbers = self._reader.recv(64)
            except TimeoutError:
                is_waking = not self._is_noticed
                if is_waking:
                    signal.pthread_kill(self._main, signal.SIGWINCH)
                continue
            if not numbers:
                return
            for number in numbers:
                if number == signal.SIGTERM and signal.SIGTERM in self._handlers:
                    self._terminate()
                elif number == signal.SIGHUP and self._hangup is not None:
                    self._hangup()
                elif number == signal.SIGINT and signal.SIGINT in self._handlers:
                    self._is_noticed = False
                    is_waking = True

    def _terminate(self) -> None:
        if self._asked.is_set():
            os._exit(ExitCode.TERMINATED)
        self._asked.set()
        self._finishing.start()


_watches: list[_SignalWatch] = []  # the watches that are entered


def _leave_child() -> None:
    if _watches:
        signal.set_wakeup_fd(-1)
    while _watches:
        _watches.pop().leave_child()


os.register_at_fork(after_in_child=_leave_child)

_UNDISTURBED = frozenset(
    function.__code__
    for function in (
        _SignalWatch.__enter__,
        _SignalWatch.__exit__,
        Undisturbed.__enter__,
        Undisturbed.__exit__,
        call_undisturbed,
    )
)


def _is_raised(handler: object) -> bool:
    """Returns whether a handler raises a Ctrl-C, as Python's own and that of an outer watch do."""
    ours = getattr(handler, "__func__", None) is _SignalWatch._interrupt
    return ours or handler is signal.default_int_handler


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Does nothing, because the reading thread gets the signal."""


_PR_SET_PDEATHSIG = 1  # prctl(2)


def die_with_parent() -> None:
    """Asks the kernel to kill this process when the thread that started this process ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with(parent: int) -> None:
    """Asks the kernel to kill this process when its parent ends, even if the parent was killed.

    The process ignores Ctrl-C, because the parent decides when its processes end.

    Raises:
        SystemExit: The parent has already ended.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    if os.getppid() != parent:
        raise SystemExit(ExitCode.FAILED)
