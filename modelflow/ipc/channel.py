"""Messages between a flow and its worker processes, with arrays out of band.

A message is pickled (protocol 5), except for the bytes of its arrays. These cross through shared
memory (`modelflow.ipc.memory_channel`), or after the message through the socket
(`modelflow.ipc.socket_channel`).
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
_SKIPPED = 1 << 16  # bytes a read
# The errors that a user's class may raise while it is pickled or unpickled.
_ANY = (Exception, SystemExit)


class MessageError(Exception):
    """The error for a message that cannot be sent or read. The channel remains usable."""

    @property
    def reason(self) -> BaseException:
        """The error that was raised while pickling or unpickling, or else this error."""
        return self.__cause__ or self


class Channel(ABC):
    """A side of a channel. For one thread at a time."""

    _follow: ClassVar[bool]
    """Arrays follow their message through the socket."""

    def __init__(
        self, connection: socket.socket, dumps: Callable[..., bytes] = pickle.dumps
    ) -> None:
        """Opens a side.

        Args:
            connection: The socket to the other side, which no other code uses.
            dumps: Pickles a message, as `pickle.dumps` does.
        """
        self._socket = connection
        self._dumps = dumps

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Sends a message.

        Raises:
            TimeoutError: the other side has read nothing for ``timeout`` seconds. The channel is no
                longer usable.
            OSError: the other side has ended.
            MessageError: the message cannot be sent. The cause is the error of pickling.
        """
        head, views = self.pickle_message(message)
        self._socket.settimeout(timeout)
        self._write(head, views)

    def pickle_message(self, message: Any) -> tuple[bytes, list[memoryview]]:
        """Returns the pickled message with its head, and the bytes of its arrays.

        Raises:
            MessageError: the message cannot be sent. The cause is the error of pickling.
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
        """Waits for a message, and returns the message with its own copies of the arrays.

        Raises:
            TimeoutError: no data has arrived for ``timeout`` seconds. If a part of the message has
                arrived, the channel is no longer usable.
            EOFError: the other side has ended.
            MessageError: the message has arrived and cannot be read. The cause is the error of
                unpickling.
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
            # Safe to unpickle: the other side is a process of modelflow.
            return pickle.loads(pickled, buffers=arrays)
        except _ANY as error:
            raise MessageError(describe_error(error)) from error

    def has_come(self, timeout: float) -> bool:
        """Waits up to ``timeout`` seconds, and tells whether a message or the end has arrived."""
        waiting = select.poll()  # `select` is limited to descriptors below 1024
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(timeout * 1000.0))

    def has_ended(self) -> bool:
        """Tells whether the other side has ended. Call while no message is under way."""
        self._socket.settimeout(None)
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def end(self) -> None:
        """Ends the connection for both sides. From any thread, also during a send or receive."""
        with contextlib.suppress(OSError):  # already ended
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the channel. May be called again."""
        self._socket.close()

    @abstractmethod
    def _write(self, head: bytes, views: Sequence[memoryview]) -> None:
        """Writes a message and the bytes of its arrays."""

    @abstractmethod
    def _fill_arrays(self, arrays: Sequence[np.ndarray]) -> None:
        """Reads the bytes of a message's arrays into byte arrays of the right sizes."""

    def _read(self, size: int) -> bytearray:
        found = bytearray(size)
        self._fill(memoryview(found))
        return found

    def _skip(self, size: int) -> None:
        """Reads and drops bytes."""
        scratch = memoryview(bytearray(_SKIPPED))
        while size:
            part = min(size, _SKIPPED)
            self._fill(scratch[:part])
            size -= part

    def _fill(self, target: memoryview) -> None:
        """Reads until ``target`` is full.

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
    """Returns the data of a row in a form that can be sent: ``bytes`` for a `memoryview`."""
    return bytes(data) if isinstance(data, memoryview) else data


def _too_many(count: int) -> str:
    return f"a message with {count} arrays; expected at most {_MOST_ARRAYS}"
