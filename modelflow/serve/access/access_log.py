"""The access log: one line of JSON for each request, written on a separate thread.

The thread is `LogWriter`, which also writes the payload log.
"""

import abc
import logging
import queue
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
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


class LogWriter(abc.ABC):
    """A thread that writes queued entries as lines. Call the methods from any thread."""

    def __init__(self, name: str, path: str, most_at_once: int | None = None) -> None:
        """Opens the file and starts the thread.

        Args:
            name: The name of the log, for messages and for the thread.
            path: The destination.
            most_at_once: Most bytes of a write, unless a single line is longer. None for any.

        Raises:
            ConfigError: The file cannot be written.
        """
        self._path = path
        self._title = f"{name} {path}"
        self._most_at_once = most_at_once
        self._file = self._open()
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._has_order = threading.Event()
        self._lost = 0
        self._is_failing = self._is_torn = False
        # reentrant: a signal handler may call `close` inside `close`
        self._ending = threading.RLock()
        self._thread = threading.Thread(
            target=self._main, name=f"modelflow/{name.replace(' ', '-')}", daemon=False
        )
        self._thread.start()

    def write(self, entry: Any) -> None:
        """Queues an entry, or drops the entry if too many wait."""
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(entry)
        else:
            self._lose(1)

    def reopen(self) -> None:
        """Reopens the file after the queued lines are written, for example after a log rotation."""
        self._order(_REOPEN)

    def close(self) -> None:
        """Writes the queued lines, and ends the thread. May be called again."""
        with self._ending:
            if self._thread.is_alive():
                self._order(_CLOSE)
                self._wait()

    def _wait(self) -> None:
        """Waits for the end of the thread."""
        self._thread.join()

    @abc.abstractmethod
    def _open(self) -> BinaryIO:
        """Opens the destination.

        Raises:
            ConfigError: The destination cannot be written.
        """

    @abc.abstractmethod
    def _encode(self, entry: Any) -> Iterable[bytes]:
        """Returns the lines of an entry. Called on the thread."""

    def _lose(self, count: int) -> None:
        self._lost += count

    def _order(self, order: "_Order") -> None:
        self._waiting.put(order)
        self._has_order.set()

    def _main(self) -> None:
        order: _Order | None = None
        while order is not _CLOSE:
            entries, order = self._next()
            lines = (line for entry in entries for line in self._encode(entry))
            for text in _wholes(lines, self._most_at_once):
                self._put(text)
            if order is _REOPEN:
                self._has_order.clear()
                self._open_again()
        if self._lost:
            logger.error("%s: %d lines were lost", self._title, self._lost)
        self._leave()

    def _next(self) -> "tuple[list[Any], _Order | None]":
        """Waits for entries. Returns the queued entries and the order that follows, or None."""
        entries: list[Any] = []
        found = self._waiting.get()
        self._has_order.wait(_PAUSE)
        with suppress(queue.Empty):
            while not isinstance(found, _Order):
                entries.append(found)
                if len(entries) == _AT_ONCE:
                    break
                found = self._waiting.get_nowait()
        return entries, found if isinstance(found, _Order) else None

    def _put(self, text: bytes) -> None:
        rest = b"\n" + text if self._is_torn else text  # a full disk has cut the previous line
        whole = len(rest)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            self._file.flush()
        except (OSError, ValueError) as error:  # ValueError: the program has closed sys.stdout
            self._is_torn = self._is_torn or len(rest) < whole
            self._lose(text.count(b"\n"))
            if not self._is_failing:
                logger.error("%s: cannot be written: %s", self._title, error)
            self._is_failing = True
        else:
            self._is_failing = self._is_torn = False

    def _open_again(self) -> None:
        try:
            file = self._open()
        except ConfigError as error:
            logger.error("%s; the log continues in the previous file", error)
            return
        self._leave()
        self._file = file

    def _leave(self) -> None:
        with suppress(OSError):  # `_put` has logged the error
            self._file.close()


class AccessLog(LogWriter):
    """The access log. An entry is a mapping to texts, finite numbers or None."""

    def __init__(self, path: str) -> None:
        """Opens the file and starts the thread.

        Args:
            path: The file to append to, or ``-`` for the standard output.

        Raises:
            ConfigError: The file cannot be written.
        """
        super().__init__("access log", path, _OF_PIPE if path == _STDOUT else None)

    def _open(self) -> BinaryIO:
        return _stdout() if self._path == _STDOUT else open_to_append(self._title, self._path)

    def _encode(self, entry: Mapping[str, Any]) -> Iterable[bytes]:
        return (json_of(entry, is_plain=True) + b"\n",)

    def _leave(self) -> None:
        if self._path != _STDOUT:
            super()._leave()


def open_to_append(title: str, path: str) -> BinaryIO:
    """Opens a file whose lines several processes append. Each write stays in one piece.

    Raises:
        ConfigError: The file cannot be written.
    """
    with explain_os_error(f"{title}: cannot be written"):
        return cast("BinaryIO", Path(path).open("ab", buffering=0))


def _stdout() -> BinaryIO:
    found: BinaryIO | None = getattr(sys.stdout, "buffer", None)
    if found is None:  # stdout was closed before the start, or a notebook replaced it
        raise ConfigError(f"access log {_STDOUT}: there is no standard output here; give a file")
    return found


def _wholes(lines: Iterable[bytes], most: int | None) -> Iterator[bytes]:
    """Yields one piece for each write: whole lines, at most ``most`` bytes if possible."""
    parts: list[bytes] = []
    size = 0
    for data in lines:
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
