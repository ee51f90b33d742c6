"""The inputs of ``modelflow run --input``: files, folders, patterns, standard input."""

import glob
import itertools
import os
import re
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import ArgumentError, Cancelled, ConfigError, FlowUnitError, did_you_mean

_MAX_BYTES = 1 << 31
# Bytes of one read from standard input.
_AT_ONCE = 1 << 20


class Feed:
    """The buffers for one input of the graph.

    Attributes:
        port: The name of the input.
        paths: The files, in order; empty for standard input.
        count: Number of buffers.
        is_stdin: Whether the input is standard input, which can be read only once.
    """

    def __init__(self, port: str, paths: Sequence[Path] | None) -> None:
        """Stores the files in order; None stands for standard input."""
        self.port = port
        self.paths = paths or ()
        self.count = 1 if paths is None else len(paths)
        self.is_stdin = paths is None

    def only(self, numbers: Sequence[int]) -> "Feed":
        """Returns a feed with some of the files, selected by their places."""
        return Feed(self.port, [self.paths[number] for number in numbers])

    @property
    def size(self) -> int:
        """The total bytes of the files; 0 for standard input."""
        return sum(path.stat().st_size for path in self.paths if path.exists())

    def __iter__(self) -> Iterator[Buffer]:
        """Yields the buffers; each file is read just before.

        A file that cannot be read becomes a buffer in error, and does not affect the others.
        """
        for path in self.paths:
            yield self.read(path)

    def read(self, path: Path) -> Buffer:
        """Returns the buffer of a file, in error if the file cannot be read."""
        return _buffer(str(path), lambda: _contents(path))

    def stop(self) -> None:
        """Ends a wait for the next buffer; from any thread."""


class Samples(Feed):
    """A feed of given buffers, used once or repeatedly."""

    def __init__(self, port: str, buffers: Sequence[Buffer], *, is_repeated: bool) -> None:
        """Stores the buffers; repeated buffers never end."""
        super().__init__(port, ())
        self.count = len(buffers)
        self._buffers, self._is_repeated = buffers, is_repeated

    def __iter__(self) -> Iterator[Buffer]:
        """Yields a twin of each buffer."""
        given = itertools.cycle(self._buffers) if self._is_repeated else self._buffers
        return (buffer.twin() for buffer in given)


class _StandardInput(Feed):
    """A feed with standard input as one buffer; `stop` wakes the waiting reader."""

    def __init__(self, port: str) -> None:
        super().__init__(port, None)
        self._lock = threading.Lock()
        self._is_over = False
        self._waker: socket.socket | None = None

    def __iter__(self) -> Iterator[Buffer]:
        """Yields one buffer with all of standard input.

        Raises:
            Cancelled: `stop` was called first.
        """
        woken, waker = socket.socketpair()
        with woken, waker:
            with self._lock:
                self._waker = waker
                if self._is_over:
                    waker.shutdown(socket.SHUT_WR)
            try:
                buffer = _buffer("-", lambda: _standard_input(woken))
            finally:
                with self._lock:
                    self._waker = None
        yield buffer

    def stop(self) -> None:
        with self._lock:
            self._is_over = True
            if self._waker is not None:
                self._waker.shutdown(socket.SHUT_WR)


def _standard_input(woken: socket.socket) -> bytes:
    # Other selectors do not support files, or terminals (macOS).
    waiter = selectors.PollSelector if sys.platform == "linux" else selectors.SelectSelector
    number, parts, size = sys.stdin.fileno(), list[bytes](), 0
    with waiter() as selector:
        selector.register(number, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            if any(key.fileobj is woken for key, _ in selector.select()):
                raise Cancelled("the run ends while standard input is read")
            part = os.read(number, _AT_ONCE)
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            _check_size("-", size)


def feeds_of(texts: Sequence[str], inputs: Sequence[str]) -> list[Feed]:
    """Parses ``--input PORT=FILE|DIR|GLOB|-`` for every input of the graph.

    Raises:
        ArgumentError: An input is missing, unknown, or named twice.
        ConfigError: No file was found, or the inputs have different numbers of files.
    """
    feeds: dict[str, Feed] = {}
    for text in texts:
        port, what = split_port("input", text, inputs)
        if port in feeds:
            raise ArgumentError(f"--input {text}: input {port!r} is given twice")
        is_stdin = what == "-"
        feeds[port] = _StandardInput(port) if is_stdin else Feed(port, files_of("--input", what))
    missing = [port for port in inputs if port not in feeds]
    if missing:
        example = " ".join(f"--input '{port}=*.jpg'" for port in missing)
        raise ArgumentError(
            f"the graph's input {missing[0]!r} gets nothing; give for example {example}"
        )
    counts = {feed.port: feed.count for feed in feeds.values()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{port}: {count}" for port, count in counts.items())
        raise ConfigError(f"--input: the inputs have different numbers of files ({found})")
    return [feeds[port] for port in inputs]


def split_port(kind: str, text: str, ports: Sequence[str]) -> tuple[str, str]:
    """Parses ``PORT=PLACE``, or ``PLACE`` alone for a graph with one such port.

    Args:
        kind: ``input`` or ``output``. The files of an input exist, and may have ``=`` in the name.
        text: The argument.
        ports: The inputs or outputs of the graph.

    Raises:
        ArgumentError: The graph has no such port.
    """
    port, equals, place = text.partition("=")
    if equals and port in ports:
        return port, place
    if len(ports) == 1 and (not equals or (kind == "input" and Path(text).exists())):
        return ports[0], text
    near, names = did_you_mean(port, ports), ", ".join(ports) or "none"
    if not equals and not near and len(ports) > 1:
        raise ArgumentError(
            f"--{kind} {text}: the graph has several {kind}s ({names}); name one, for example "
            f"--{kind} {ports[0]}={text}"
        )
    raise ArgumentError(
        f"--{kind} {text}: the graph has no {kind} {port!r}{near} ({kind}s: {names})"
    )


def files_of(option: str, what: str) -> list[Path]:
    """Returns the files of ``FILE|DIR|GLOB``, with 9.jpg before 10.jpg.

    Args:
        option: The option of the argument, for messages.
        what: A file, a folder or a pattern.

    Raises:
        ConfigError: No file was found.
    """
    path = Path(what)
    if path.is_dir():
        found = [entry for entry in path.iterdir() if entry.is_file()]
    elif path.is_file():
        found = [path]
    else:
        found = [Path(name) for name in glob.glob(what, recursive=True) if Path(name).is_file()]
    if not found:
        message = f"{option} {what}: there is no such file, and nothing fits it as a pattern"
        if path.is_dir():
            message = (
                f"{option} {what}: is a folder without files; for files in its folders, give "
                f"{what}/**"
            )
        raise ConfigError(message)
    return sorted(found, key=_natural)


def _natural(path: Path) -> list[tuple[int, int | str]]:
    """Returns a sort key that places 9.jpg before 10.jpg."""
    parts = re.split(r"(\d+)", str(path))
    return [(1, int(part)) if part.isdecimal() else (0, part) for part in parts]


def _buffer(path: str, read: Callable[[], Any]) -> Buffer:
    meta = {"path": path}
    try:
        return Buffer(read(), meta)
    except Cancelled:
        raise
    except Exception as error:  # noqa: BLE001 - for example, an empty .npy raises EOFError
        failure = FlowUnitError.from_exception(error, node="input", unit="input", phase="read")
        return Buffer.from_error(failure, meta)


def _contents(path: Path) -> Any:
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    _check_size(path, path.stat().st_size)
    return path.read_bytes()


def _check_size(path: object, size: int) -> None:
    if size > _MAX_BYTES:
        raise OSError(f"{path}: larger than {_MAX_BYTES} bytes")
