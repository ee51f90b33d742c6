"""What a supervisor and its replicas say to one another: JSON behind its length."""

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["LongFrameError", "Message", "frame", "next_frame", "read_frame"]

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
    text = json.dumps(message, default=_written).encode()
    return _HEAD.pack(_checked(len(text))) + text


async def next_frame(reader: asyncio.StreamReader) -> Message | None:
    """Returns the next message; None: the other side has ended.

    Raises:
        LongFrameError: it is longer than 64 MiB.
    """
    try:
        (length,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        return _read(await reader.readexactly(_checked(length)))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def read_frame(sock: socket.socket) -> Message | None:
    """Waits for the next message; None: the other side has ended.

    Raises:
        LongFrameError: it is longer than 64 MiB.
    """
    head = _received(sock, _HEAD.size)
    if len(head) < _HEAD.size:
        return None
    length = _checked(_HEAD.unpack(head)[0])
    text = _received(sock, length)
    return _read(text) if len(text) == length else None


def _received(sock: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        try:
            part = sock.recv(size - len(found))
        except ConnectionError:
            break
        if not part:
            break
        found += part
    return bytes(found)


def _checked(length: int) -> int:
    if length > _MOST:
        message = f"a message of {length} bytes between processes; expected at most {_MOST}"
        raise LongFrameError(message)
    return length


def _written(value: object) -> object:
    if isinstance(value, Path):
        return {_PATH: str(value)}
    raise TypeError(type(value))


def _read(text: bytes) -> Message:
    found: Message = json.loads(text, object_hook=_revived)
    return found


def _revived(found: dict[str, Any]) -> Any:
    return Path(found[_PATH]) if found.keys() == {_PATH} else found
