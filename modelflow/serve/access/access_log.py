"""The access log: one JSON document a request, a line each, written on a thread of its own."""

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

# Lines that wait for a disk that does not take them; more are counted and dropped.
_MOST_WAITING = 100_000
# Lines that are written at once, and the seconds for which others may join the first of them: a
# thread that was woken for each line would cost more than the rest of many a request.
_AT_ONCE = 1000
_PAUSE = 0.005
_STDOUT = "-"
# What a pipe takes as a whole, or not at all (PIPE_BUF of Linux): lines of several processes do not
# mix there. In a file opened to append, all that is written at once stays together.
_OF_PIPE = 4096


class AccessLog:
    """Writes lines; `close` returns when all are written. From any thread."""

    def __init__(self, path: str) -> None:
        """Opens the file and starts the thread.

        Args:
            path: What is appended to; ``-``: the standard output.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._path = path
        self._file = self._open()
        self._waiting: queue.SimpleQueue[Mapping[str, Any] | _Order] = queue.SimpleQueue()
        self._has_order = threading.Event()
        self._lost = 0
        self._is_failing = False
        self._ending = threading.RLock()  # as `Server` has it
        self._thread = threading.Thread(
            target=self._main, name="modelflow/access-log", daemon=False
        )
        self._thread.start()

    def write(self, line: Mapping[str, Any]) -> None:
        """Takes a line, of text and finite numbers; it is written soon."""
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(line)
        else:
            self._lost += 1

    def reopen(self) -> None:
        """Opens the file anew, behind what is to be written yet: somebody has moved it away."""
        self._order(_REOPEN)

    def close(self) -> None:
        """Writes what there is, and ends. May be called again."""
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
        """Waits for lines; gives those that have come, and the order behind them."""
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
        except (OSError, ValueError) as error:  # the latter: somebody has closed the output
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
            logger.error("%s; the file that was open before is still written", error)
            return
        self._leave()
        self._file = file

    def _leave(self) -> None:
        if self._path != _STDOUT:
            with suppress(OSError):  # said when it was written
                self._file.close()


def _stdout() -> BinaryIO:
    found: BinaryIO | None = getattr(sys.stdout, "buffer", None)
    if found is None:  # it was closed before this process began, or is something of a notebook's
        raise ConfigError(f"access log {_STDOUT}: there is no standard output here; give a file")
    return found


def _wholes(lines: Sequence[Mapping[str, Any]], most: int | None) -> Iterator[bytes]:
    """What is written at once: whole lines, as many as there are, or as fit in so many bytes."""
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
    """An order to the thread that writes, among the lines."""


_REOPEN, _CLOSE = _Order(), _Order()
