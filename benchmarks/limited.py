"""A program with a time limit: yields its lines at once, and ends with all its processes."""

import contextlib
import ctypes
import os
import selectors
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from child import started
from machine import family

__all__ = ["LimitedProgram", "adopt_orphans"]

_GRACE = 3.0  # seconds for the processes of a program that hangs to write their stacks
_LONGEST_LINE = 1 << 20
_LAST_READS = 64  # of 64 KiB, after the end of the program: a pipe holds at most 1 MiB
_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose own parent has ended, to kill them."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)


class LimitedProgram:
    """A Python program that runs until its end or its time limit.

    Attributes:
        status: The exit status; None until it has ended, and for a program that was aborted.
    """

    def __init__(
        self, arguments: Sequence[str], until: float, errors: IO[str], folder: Path
    ) -> None:
        """Describes the program; the ``with`` statement starts the program, and kills its remains.

        Args:
            arguments: The arguments of Python.
            until: The end of its time, by `time.monotonic`.
            errors: Receives its standard error.
            folder: The current folder.
        """
        self.status: int | None = None
        self._arguments, self._until = arguments, until
        self._errors, self._folder = errors, folder

    def __enter__(self) -> "LimitedProgram":
        """Starts the program, in a session of its own."""
        command = [sys.executable, *self._arguments]
        with contextlib.ExitStack() as stack:
            stack.callback(_kill_descendants)
            self._process = stack.enter_context(
                started(command, cwd=self._folder, stdout=-1, stderr=self._errors)
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        """Kills every process that the program has started."""
        self._stack.close()

    def lines(self) -> Iterator[str]:
        """Yields the lines of standard output; ends with the program, or with its time.

        A program whose time is over is aborted: Python then writes the stacks of all threads to
        standard error, in each of its processes (``PYTHONFAULTHANDLER``).
        """
        output, held = self._process.stdout.fileno(), b""
        os.set_blocking(output, False)
        with (
            os.fdopen(os.pidfd_open(self._process.pid)) as ended,
            selectors.DefaultSelector() as selector,
        ):
            selector.register(output, selectors.EVENT_READ)
            selector.register(ended, selectors.EVENT_READ)
            has_ended = is_over = False
            while not (has_ended or is_over):
                left = self._until - time.monotonic()
                ready = selector.select(max(0.0, left))
                # A child may keep the pipe open after the end of the program.
                has_ended, is_over = any(key.fileobj is ended for key, _ in ready), left <= 0
                data: bytes | None = None
                for _ in range(_LAST_READS if has_ended or is_over else 1):
                    data = _read(output)
                    *whole, held = (held + (data or b"")).split(b"\n")
                    yield from (line.decode(errors="replace") + "\n" for line in whole)
                    if len(held) > _LONGEST_LINE:
                        yield held.decode(errors="replace") + "\n"
                        held = b""
                    if not data:
                        break
                if data == b"" and not has_ended and output in selector.get_map():
                    selector.unregister(output)  # closed; the program goes on
            if has_ended:
                self.status = self._process.wait()
            else:
                for process in reversed(family(self._process.pid)):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGABRT)
                _wait(ended, _GRACE)
        if held:
            yield held.decode(errors="replace") + "\n"


def _read(descriptor: int) -> bytes | None:
    """Returns available bytes, None if no bytes are available, or ``b""`` at the end."""
    with contextlib.suppress(BlockingIOError):
        return os.read(descriptor, 1 << 16)
    return None


def _kill_descendants() -> None:
    """Kills all descendants of this process, also descendants that start meanwhile."""
    until = time.monotonic() + _GRACE  # a process that hangs in a driver cannot be killed
    while (others := family(os.getpid())[1:]) and time.monotonic() < until:
        for process in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in others:
            with (
                contextlib.suppress(ProcessLookupError),
                os.fdopen(os.pidfd_open(process)) as ended,
            ):
                _wait(ended, until - time.monotonic())
            with contextlib.suppress(ChildProcessError):  # its own parent has to wait for it
                os.waitpid(process, os.WNOHANG)


def _wait(ended: IO[str], seconds: float) -> None:
    """Waits until the process of a pidfd has ended, or the time is over."""
    with selectors.DefaultSelector() as selector:
        selector.register(ended, selectors.EVENT_READ)
        selector.select(max(0.0, seconds))
