"""How a process ends: exit codes, signals of service managers and containers, time limits.

SIGTERM: what was taken on is finished first. SIGHUP: what is on the disk is read again.
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


class ExitCode(IntEnum):
    """The exit code of a command; that of a signal is 128 and its number, as shells have it.

    Attributes:
        meaning: What the code says, in Markdown.
        example: A command that ends so, in Markdown.
    """

    meaning: str
    example: str

    def __new__(cls, code: int, meaning: str, example: str) -> Self:
        """Returns the code with what its row in the documentation says."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        member.example = example
        return member

    OK = 0, "all is well", "`modelflow check graph.toml` of a graph without mistakes"
    FAILED = (
        1,
        "something is wrong, and said on stderr: the graph, an item, a model, a port in use",
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
        "nothing failed, and something was found that limits the flow",
        "`modelflow doctor` (0 where nothing is wrong)",
    )
    INTERRUPTED = (
        130,
        "Ctrl-C (SIGINT); while the program is still being loaded the signal itself, which shells "
        "tell as 130",
        "`modelflow run` that was stopped: how far it came is said, `--resume` goes on",
    )
    UNREAD = (
        141,
        "whoever read the output has gone",
        "`modelflow schema | head -1`, where that has read enough",
    )
    TERMINATED = (
        143,
        "SIGTERM: what was taken on was finished first",
        "a server that its service manager stops; a second SIGTERM ends it at once",
    )


LAST_SECONDS = 2.0
"""How long the end of a server may take, beyond the time that it was given to answer."""

_STDERR = 2


class _Limit:
    until = math.inf


_limit = _Limit()


def end_within(seconds: float) -> None:
    """Has the process end within so many seconds, or as soon as an earlier call has said.

    It writes then where its threads stand, and its exit code is 1. That needs no thread of Python:
    one that hangs, in a finalizer of the garbage collector say, cannot prevent it.

    Args:
        seconds: From now on.
    """
    until = time.monotonic() + seconds
    if until < _limit.until:
        _limit.until = until
        faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)


@contextmanager
def release_at_end() -> Iterator[None]:
    """Takes back at the end of the block what was said in it, until `limit_exit`.

    What was to end has ended then, and a program that is more than that goes on.
    """
    _limit.until = math.inf
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def limit_exit() -> None:
    """Has it count for the interpreter's own end, too, if there was a call of `end_within`."""
    if _limit.until < math.inf:
        seconds = max(0.01, _limit.until - time.monotonic())
        faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)


T = TypeVar("T")

# Seconds after which a main thread that has not noticed a Ctrl-C is woken again.
_AGAIN = 0.05


# Seconds after which a further Ctrl-C is raised even where one is waiting to be.
_LONGEST = 1.0


class _Deferral:
    """A Ctrl-C that came where it is not raised. Of the main thread, on which all handlers run.

    No lock, and nothing that has one: a handler may be called in the middle of another.
    """

    since: float | None = None
    """When it came; None: there is none."""

    def put_off(self) -> bool:
        """Notes one that has come now; False: it is to be raised, as who waits has asked again."""
        now = time.monotonic()
        if self.since is None:
            self.since = now
        elif now - self.since >= _LONGEST:
            self.since = None
            return False
        return True

    def raise_due(self) -> None:
        """Raises it."""
        if self.since is not None:
            self.since = None
            raise KeyboardInterrupt


_deferral = _Deferral()


def termination(
    asked: threading.Event,
    finish: Callable[[], None] | None,
    hangup: Callable[[], None] | None = None,
) -> AbstractContextManager[None]:
    """Has the first SIGTERM inside the block call ``finish``, on a thread of its own.

    Nothing is raised where the main thread happens to be, so nothing that it holds is lost. A
    second SIGTERM ends the process. A Ctrl-C is raised in the main thread, wherever that waits, but
    not while it enters or leaves what is `Undisturbed`. Where the block is not in the main thread
    nothing changes.

    Args:
        asked: Set once the signal has come.
        finish: What to do; joined at the end of the block. None: the signal ends the process.
        hangup: Called for each SIGHUP, on a thread that it must not hold up; None: it ends the
            process.
    """
    if threading.current_thread() is not threading.main_thread():
        return nullcontext()
    return _SignalWatch(asked, finish, hangup)


@contextmanager
def end_on_sigterm() -> Iterator[None]:
    """Has a SIGTERM inside the block end the program as a Ctrl-C does, with its own exit code.

    For what has nothing to finish, and cleans up behind it. (As a Ctrl-C, for whoever imports
    modules of users takes an exit for one of theirs.)
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
    """Another context that a Ctrl-C finds either entered or not, inside `termination`.

    A thread that is being started when the Ctrl-C comes would have nobody who ends it. One that
    comes while the context is entered or left is raised behind that; what takes long must not be
    in one: another that comes a second later is raised at once.
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
    """Calls ``act``; a Ctrl-C that comes meanwhile is raised when it is done."""
    try:
        act()
    finally:
        _deferral.raise_due()


class _SignalWatch(AbstractContextManager[None]):
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
        finish: Callable[[], None] | None,
        hangup: Callable[[], None] | None,
    ) -> None:
        self._asked = asked
        self._hangup = hangup
        self._finishing = threading.Thread(target=finish, name="modelflow-cli/finish")
        self._reading = threading.Thread(target=self._read, name="modelflow-cli/signals")
        self._is_noticed = False  # no event: a handler may be called in the middle of another
        self._main = threading.get_ident()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        # That of a Ctrl-C comes first, and goes last.
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
        for number, handler in self._handlers.items():  # only now is nothing lost that they ignore
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
        self._writer.shutdown(socket.SHUT_WR)  # a process that was forked may hold it open
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
        """Ends it in a process that was forked, whose signals would be told to this one."""
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
        """Notes that the main thread runs handlers: that of a Ctrl-C comes before this one's."""
        self._is_noticed = True

    def _read(self) -> None:
        is_waking = False  # the main thread has not noticed a Ctrl-C yet, as far as is known
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


_watches: list[_SignalWatch] = []  # that are entered


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
    """Tells whether a Ctrl-C is raised: by Python's own handler, or by a watch around this one."""
    ours = getattr(handler, "__func__", None) is _SignalWatch._interrupt
    return ours or handler is signal.default_int_handler


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Does nothing: the thread that reads is told."""


_PR_SET_PDEATHSIG = 1  # prctl(2)


def die_with_parent() -> None:
    """Has the system kill this process when the thread that has started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with(parent: int) -> None:
    """Has the system end this process when its parent is gone, also where that was killed.

    Ctrl-C is the parent's: it decides what becomes of its processes.

    Raises:
        SystemExit: it is gone already.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    if os.getppid() != parent:
        raise SystemExit(ExitCode.FAILED)
