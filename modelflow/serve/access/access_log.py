"""The access log: one line of JSON for each request, written on a separate thread."""

import logging
import queue
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from modelflow.errors import ConfigError, explain_os_error
from modelflow.wire.json_writer import json_of

logger = logging.getLogger(__name__)

# Most lines that wait for a slow or full disk. Further lines are counted and dropped.
_MOST_WAITING = 100_000
# The most lines in one write, and the seconds that the first line waits for others to join the
# write. Waking the thread for each line would cost more than the rest of a cheap request.
_AT_ONCE = 1000
_PAUSE = 0.005
_STDOUT = "-"
# The most bytes that a write to a pipe transfers as one piece (PIPE_BUF of Linux). Lines of several
# processes do not mix in the pipe if each write is that short. In a file that is opened to append,
# every write stays in one piece.
_OF_PIPE = 4096


class AccessLog:
    """A writer of log lines. Call the methods from any thread."""

    def __init__(self, path: str) -> None:
        """Opens the file and starts the thread.

        Args:
            path: The file to append to, or ``-`` for the standard output.

        Raises:
            ConfigError: The file cannot be written.
        """
        self._path = path
        self._file = self._open()
        self._waiting: queue.SimpleQueue[Mapping[str, Any] | _Order] = queue.SimpleQueue()
        self._has_order = threading.Event()
        self._lost = 0
        self._is_failing = False
        # reentrant: a signal handler may call `close` inside `close`
        self._ending = threading.RLock()
        self._thread = threading.Thread(
            target=self._main, name="modelflow/access-log", daemon=False
        )
        self._thread.start()

    def write(self, line: Mapping[str, Any]) -> None:
        """Queues a line. Its values are texts, finite numbers or None."""
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(line)
        else:
            self._lost += 1

    def reopen(self) -> None:
        """Reopens the file after the queued lines are written, for example after a log rotation."""
        self._order(_REOPEN)

    def close(self) -> None:
        """Writes the queued lines, and ends the thread. May be called again."""
        with self._ending:
            if self._thread.is_alive():
                self._order(_CLOSE)
                self._thread.join()

    def _order(self, order: "_Order") -> None:
        self._waiting.put(order)
        self._has_order.set()

    def _open(self) -> BinaryIO:
        if self._path == _STDOUT:
            return _stdout()
        with explain_os_error(f"access log {self._path}: cannot be written"):
            return cast("BinaryIO", Path(self._path).open("ab", buffering=0))

    def _main(self) -> None:
        order: _Order | None = None
        while order is not _CLOSE:
            lines, order = self._next()
            for text in _wholes(lines, _OF_PIPE if self._path == _STDOUT else None):
                self._put(text)
            if order is _REOPEN:
                self._has_order.clear()
                self._open_again()
        if self._lost:
            logger.error("access log %s: %d lines were lost", self._path, self._lost)
        self._leave()

    def _next(self) -> "tuple[list[Mapping[str, Any]], _Order | None]":
        """Waits for lines. Returns the queued lines and the order that follows them, or None."""
        lines: list[Mapping[str, Any]] = []
        found = self._waiting.get()
        self._has_order.wait(_PAUSE)
        with suppress(queue.Empty):
            while not isinstance(found, _Order):
                lines.append(found)
                if len(lines) == _AT_ONCE:
                    break
                found = self._waiting.get_nowait()
        return lines, found if isinstance(found, _Order) else None

    def _put(self, text: bytes) -> None:
        try:
            rest = text
            while rest:
                rest = rest[self._file.write(rest) :]
            self._file.flush()
        except (OSError, ValueError) as error:  # ValueError: the program has closed sys.stdout
            self._lost += text.count(b"\n")
            if not self._is_failing:
                logger.error("access log %s: cannot be written: %s", self._path, error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _open_again(self) -> None:
        try:
            file = self._open()
        except ConfigError as error:
            logger.error("%s; the log continues in the previous file", error)
            return
        self._leave()
        self._file = file

    def _leave(self) -> None:
        if self._path != _STDOUT:
            with suppress(OSError):  # `_put` has logged the error
                self._file.close()


def _stdout() -> BinaryIO:
    found: BinaryIO | None = getattr(sys.stdout, "buffer", None)
    if found is None:  # stdout was closed before the start, or a notebook replaced it
        raise ConfigError(f"access log {_STDOUT}: there is no standard output here; give a file")
    return found


def _wholes(lines: Sequence[Mapping[str, Any]], most: int | None) -> Iterator[bytes]:
    """Yields one piece for each write: whole lines, at most ``most`` bytes if possible."""
    parts: list[bytes] = []
    size = 0
    for line in lines:
        data = json_of(line, is_plain=True) + b"\n"
        if most is not None and parts and size + len(data) > most:
            yield b"".join(parts)
            parts, size = [], 0
        parts.append(data)
        size += len(data)
    if parts:
        yield b"".join(parts)


class _Order:
    """An order to the writer thread, queued between the lines."""


_REOPEN, _CLOSE = _Order(), _Order()
