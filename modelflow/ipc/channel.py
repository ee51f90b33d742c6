"""Messages between a flow and what works for it in another process; arrays cross out of band.

A message is pickled (protocol 5) but for the bytes of its arrays, which a kind of channel takes as
they are: through memory that both sides map (`modelflow.ipc.memory_channel`), or behind the message
through the socket itself (`modelflow.ipc.socket_channel`).
"""

import contextlib
import pickle
import select
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from modelflow.device import empty
from modelflow.errors import describe_error

_HEAD = struct.Struct("<QI")
_SIZE = struct.Struct("<Q")
_MOST_ARRAYS = 1 << 20
_SKIPPED = 1 << 16  # bytes at once
# What anybody's class may raise where it is pickled or read.
_ANY = (Exception, SystemExit)


class MessageError(Exception):
    """A message that cannot be sent, or cannot be read here; the channel goes on without it."""

    @property
    def reason(self) -> BaseException:
        """What was raised when it was pickled or read; this very error where nothing was."""
        return self.__cause__ or self


class Channel(ABC):
    """One side of a channel. For one thread at a time."""

    _follow: ClassVar[bool]
    """Arrays follow their message through the socket."""

    def __init__(
        self, connection: socket.socket, dumps: Callable[..., bytes] = pickle.dumps
    ) -> None:
        """Takes up a side.

        Args:
            connection: Leads to the other side, and to nobody else.
            dumps: Pickles, as `pickle.dumps` does.
        """
        self._socket = connection
        self._dumps = dumps

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Sends a message.

        Raises:
            TimeoutError: the other side has taken nothing of it for ``timeout`` seconds, and is of
                no use any more.
            OSError: the other side has ended.
            MessageError: it cannot be sent: whatever was raised when it was pickled is the cause.
        """
        head, views = self.pickle_message(message)
        self._socket.settimeout(timeout)
        self._write(head, views)

    def pickle_message(self, message: Any) -> tuple[bytes, list[memoryview]]:
        """Returns a message as it is sent, and the bytes of its arrays.

        Raises:
            MessageError: it cannot be sent: whatever was raised when it was pickled is the cause.
        """
        buffers: list[pickle.PickleBuffer] = []
        try:
            pickled = self._dumps(message, protocol=5, buffer_callback=buffers.append)
            views = [buffer.raw() for buffer in buffers]
            sizes = b"".join(_SIZE.pack(view.nbytes) for view in views)
            head = _HEAD.pack(len(pickled), len(views)) + sizes + pickled
        except _ANY as error:
            raise MessageError(describe_error(error)) from error
        if len(views) > _MOST_ARRAYS:
            raise MessageError(_too_many(len(views)))
        return head, views

    def receive(self, timeout: float | None = None) -> Any:
        """Waits for a message; its arrays are its own.

        Raises:
            TimeoutError: nothing has come of it within ``timeout`` seconds; where it has begun to,
                the other side is of no use any more.
            EOFError: the other side has ended.
            MessageError: it has come and cannot be read: whatever was raised then is the cause.
        """
        self._socket.settimeout(timeout)
        length, count = _HEAD.unpack(self._read(_HEAD.size))
        if count > _MOST_ARRAYS:
            raise EOFError(_too_many(count))
        sizes = [size for (size,) in _SIZE.iter_unpack(self._read(count * _SIZE.size))]
        try:
            pickled, arrays = bytearray(length), [empty((size,)) for size in sizes]
        except MemoryError as error:
            size = length + sum(sizes)
            self._skip(size if self._follow else length)
            raise MessageError(f"there is no memory for its {size} bytes") from error
        self._fill(memoryview(pickled))
        if arrays:
            self._fill_arrays(arrays)
        try:
            # From our own process: nobody else has the other side.
            return pickle.loads(pickled, buffers=arrays)
        except _ANY as error:
            raise MessageError(describe_error(error)) from error

    def has_come(self, timeout: float) -> bool:
        """Tells whether something is there to be received, an end too; waits so long for it."""
        waiting = select.poll()  # takes descriptors of any number
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(timeout * 1000.0))

    def has_ended(self) -> bool:
        """Tells whether the other side has ended; asked while no message is under way."""
        self._socket.settimeout(None)
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def end(self) -> None:
        """Has both sides see the end; from any thread, while another one sends or receives."""
        with contextlib.suppress(OSError):  # it has ended already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Gives everything back; once more does nothing."""
        self._socket.close()

    @abstractmethod
    def _write(self, head: bytes, views: Sequence[memoryview]) -> None:
        """Writes a message, and the bytes of its arrays."""

    @abstractmethod
    def _fill_arrays(self, arrays: Sequence[np.ndarray]) -> None:
        """Reads the arrays of a message that has been read: bytes, into memory of their sizes."""

    def _read(self, size: int) -> bytearray:
        found = bytearray(size)
        self._fill(memoryview(found))
        return found

    def _skip(self, size: int) -> None:
        """Reads what nobody wants."""
        scratch = memoryview(bytearray(_SKIPPED))
        while size:
            part = min(size, _SKIPPED)
            self._fill(scratch[:part])
            size -= part

    def _fill(self, target: memoryview) -> None:
        """Reads until a memory is full.

        Raises:
            EOFError: the other side has ended.
        """
        at, size = 0, target.nbytes
        while at < size:
            try:
                count = self._socket.recv_into(target[at:])
            except ConnectionError:
                count = 0
            if not count:
                raise EOFError("the other side has ended")
            at += count


def sendable(data: Any) -> Any:
    """Returns what can be sent of a row's data: of a view of bytes these, which it stands for."""
    return bytes(data) if isinstance(data, memoryview) else data


def _too_many(count: int) -> str:
    return f"a message with {count} arrays; expected at most {_MOST_ARRAYS}"
