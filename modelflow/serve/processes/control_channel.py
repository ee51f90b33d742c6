"""What a supervisor and its replicas say to one another: JSON behind its length."""

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

Message: TypeAlias = Mapping[str, Any]

_HEAD = struct.Struct("!I")
_MOST = 64 << 20
_PATH = "$path"


class LongFrameError(ValueError):
    """A message is longer than any may be."""


def frame(message: Message) -> bytes:
    """Returns a message as it is sent.

    Raises:
        LongFrameError: it is longer than 64 MiB.
    """
    text = json.dumps(message, default=_write).encode()
    return _HEAD.pack(_check(len(text))) + text


async def next_frame(reader: asyncio.StreamReader) -> Message | None:
    """Returns the next message; None: the other side has ended.

    Raises:
        LongFrameError: it is longer than 64 MiB.
    """
    try:
        (length,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        return _read(await reader.readexactly(_check(length)))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def read_frame(reader: BinaryIO) -> Message | None:
    """Waits for the next message; None: the other side has ended.

    Args:
        reader: What reads a socket, and waits for as much as is wanted.

    Raises:
        LongFrameError: it is longer than 64 MiB.
    """
    try:
        head = reader.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        length = _check(_HEAD.unpack(head)[0])
        text = reader.read(length)
    except ConnectionError:
        return None
    return _read(text) if len(text) == length else None


def _check(length: int) -> int:
    if length > _MOST:
        raise LongFrameError(
            f"a message of {length} bytes between processes; expected at most {_MOST}"
        )
    return length


def _write(value: object) -> object:
    if isinstance(value, Path):
        return {_PATH: str(value)}
    raise TypeError(type(value))


def _read(text: bytes) -> Message:
    found: Message = json.loads(text, object_hook=_revive)
    return found


def _revive(found: dict[str, Any]) -> Any:
    return Path(found[_PATH]) if found.keys() == {_PATH} else found


class ControlChannel:
    """Asks the supervisor, and hears what it says. `say` and `ask` are for any thread."""

    def __init__(self, sock: socket.socket) -> None:
        """Takes the socket, which becomes its own."""
        self._socket = sock
        self._reader = sock.makefile("rb")
        self._sending = threading.Lock()
        self._asked: dict[int, Callable[[Message], object]] = {}
        self._count = 0
        self._thread: threading.Thread | None = None

    def first(self) -> Message | None:
        """Waits for the first message; None: the supervisor has ended. Before `begin`."""
        return read_frame(self._reader)

    def begin(self, hear: Callable[[Message], object], gone: Callable[[], object]) -> None:
        """Hears from now on, on a thread of its own.

        Args:
            hear: Told of each message that answers nothing.
            gone: Called when the supervisor has ended, however it has, or `close` was called.
        """
        self._thread = threading.Thread(
            target=self._main, args=(hear, gone), name="modelflow/line", daemon=False
        )
        self._thread.start()

    def say(self, message: Message) -> None:
        """Sends a message; it is lost where the supervisor has ended.

        Raises:
            LongFrameError: it is too long.
        """
        data = frame(message)
        try:
            with self._sending:
                self._socket.sendall(data)
        except OSError:
            return  # whoever hears is told

    def ask(self, message: Message, told: Callable[[Message], object]) -> None:
        """Sends a message; ``told`` is called with its answer, on the thread that hears.

        Raises:
            LongFrameError: it is too long.
        """
        with self._sending:
            self._count += 1
            number = self._count
            self._asked[number] = told
        self.say({**message, "ask": number})

    def close(self) -> None:
        """Ends it. May be called again."""
        with contextlib.suppress(OSError):  # the supervisor has ended
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()
        self._reader.close()
        self._socket.close()

    def _main(self, hear: Callable[[Message], object], gone: Callable[[], object]) -> None:
        while (message := read_frame(self._reader)) is not None:
            if "answer" in message:
                self._asked.pop(message["answer"])(message)
            else:
                hear(message)
        gone()
