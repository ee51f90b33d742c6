"""The messages between a supervisor and its replicas: a length, then JSON."""

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
    """The error for a message that exceeds 64 MiB."""


def frame(message: Message) -> bytes:
    """Returns the bytes of a message.

    Raises:
        LongFrameError: the message is longer than 64 MiB.
    """
    text = json.dumps(message, default=_write).encode()
    return _HEAD.pack(_check(len(text))) + text


async def next_frame(reader: asyncio.StreamReader) -> Message | None:
    """Returns the next message, or None if the other side has ended.

    Raises:
        LongFrameError: the message is longer than 64 MiB.
    """
    try:
        (length,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        return _read(await reader.readexactly(_check(length)))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def read_frame(reader: BinaryIO) -> Message | None:
    """Waits for the next message, and returns None if the other side has ended.

    Args:
        reader: The reader of a blocking socket.

    Raises:
        LongFrameError: the message is longer than 64 MiB.
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
    """A replica's connection to the supervisor. `say` and `ask` are for any thread."""

    def __init__(self, sock: socket.socket) -> None:
        """Takes ownership of the socket."""
        self._socket = sock
        self._reader = sock.makefile("rb")
        self._sending = threading.Lock()
        self._asked: dict[int, Callable[[Message], object]] = {}
        self._count = 0
        self._thread: threading.Thread | None = None

    def first(self) -> Message | None:
        """Waits for the first message, before `begin`. Returns None if the supervisor has ended."""
        return read_frame(self._reader)

    def begin(self, hear: Callable[[Message], object], gone: Callable[[], object]) -> None:
        """Starts the thread that reads messages.

        Args:
            hear: Called with each message that is no answer.
            gone: Called when the supervisor has ended for any reason, or after `close`.
        """
        self._thread = threading.Thread(
            target=self._main, args=(hear, gone), name="modelflow/line", daemon=False
        )
        self._thread.start()

    def say(self, message: Message) -> None:
        """Sends a message, or drops the message if the supervisor has ended.

        Raises:
            LongFrameError: the message is too long.
        """
        data = frame(message)
        try:
            with self._sending:
                self._socket.sendall(data)
        except OSError:
            return  # the reading thread calls ``gone``

    def ask(self, message: Message, told: Callable[[Message], object]) -> None:
        """Sends a request. The reading thread calls ``told`` with the answer.

        Raises:
            LongFrameError: the message is too long.
        """
        with self._sending:
            self._count += 1
            number = self._count
            self._asked[number] = told
        self.say({**message, "ask": number})

    def close(self) -> None:
        """Closes the connection and ends the thread. May be called again."""
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
