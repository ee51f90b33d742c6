"""A link between two server processes, which writes all messages of a loop turn at once."""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

from modelflow.ipc.frame import HEAD, FrameReader, FrameWriter, Value
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.ipc.shared_memory import (
    ChannelDescriptors,
    SharedMemoryReader,
    SharedMemoryWriter,
    open_sides,
)

_FREE = "free"
# The size of each shared memory. The system allocates only the pages that are written.
_SIZE = 64 << 20
# Seconds for the other side to read the last messages.
_LAST_SECONDS = 1.0


def new_link() -> tuple[ChannelDescriptors, ChannelDescriptors]:
    """Returns both sides of a new link.

    Raises:
        OSError: the process has too many descriptors. Everything is closed again.
    """
    return open_sides(_SIZE)


class Listener(Protocol):
    """The receiver of messages from the other side. Called on the loop's thread."""

    def hear(self, link: "Link", message: list[Any], read: Callable[[Value], Any], /) -> None:
        """Handles a message. ``read`` returns a value of the message, each only once."""

    def on_lost(self, link: "Link", /) -> None:
        """Called when the other side has ended for any reason, or after `Link.close`."""


class Link(asyncio.Protocol):
    """A side of a link. For the loop's thread."""

    def __init__(self, ends: ChannelDescriptors, loop_queue: LoopQueue, listener: Listener) -> None:
        """Opens a side from its descriptors.

        Args:
            ends: The descriptors. The link owns them.
            loop_queue: Passes calls from other threads to the loop's thread.
            listener: The receiver of messages.
        """
        self._socket = socket.socket(fileno=ends.socket)
        self._socket.setblocking(False)
        self._packer = FrameWriter(SharedMemoryWriter(ends.outgoing))
        self._memory_writer = self._packer.memory_writer
        self._memory_reader = SharedMemoryReader(ends.incoming, self._set_free)
        os.close(ends.incoming)
        os.close(ends.outgoing)
        self._loop_queue = loop_queue
        self._listener = listener
        self._transport: asyncio.WriteTransport | None = None
        self._is_due = self._is_over = self._is_told = False
        self._unused: deque[int] = deque()
        self._rest = bytearray()
        self._wanted = 0
        self._over = asyncio.Event()
        self._beginning: asyncio.Task[Any] | None = None

    def begin(self) -> None:
        """Starts to receive messages, and sends earlier messages."""
        loop = asyncio.get_running_loop()
        making = loop.create_unix_connection(lambda: self, sock=self._socket)
        self._beginning = loop.create_task(making)

    def value(self, value: Any) -> Value:
        """Returns the form of a value for a later message.

        Raises:
            ValueError: the value cannot be sent.
        """
        return self._packer.value(value)

    def say(self, *message: Any) -> None:
        """Sends a message after this turn of the loop.

        Drops the message if the other side has ended.
        """
        self._packer.add(message)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._send)

    async def close(self) -> None:
        """Closes the link after all messages are sent. May be called again."""
        if self._beginning is not None and not self._is_over:
            await asyncio.wait([self._beginning])
            self._send()
            self.abandon()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _LAST_SECONDS)
            if self._transport is not None:  # the other side no longer reads
                self._transport.abort()
                await self._over.wait()

    def abandon(self) -> None:
        """Closes the link without waiting."""
        if self._transport is not None:
            self._transport.close()

    def _send(self) -> None:
        self._is_due = False
        if self._unused and not self._is_over:
            self._is_told = False  # before the read: a later slot posts `_send` again
            self._packer.add((_FREE, [self._unused.popleft() for _ in range(len(self._unused))]))
        if self._transport is not None or self._is_over:
            parts = self._packer.close()
            if parts and self._transport is not None:
                self._transport.write(b"".join(parts))

    def _set_free(self, where: int) -> None:
        """Reports an unused slot to the other side, once for many slots. From any thread."""
        self._unused.append(where)
        if not self._is_told:
            self._is_told = True
            self._loop_queue.post(self._send)

    # -- called by asyncio ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the transport, and sends earlier messages."""
        # A cast, because uvloop declares no `WriteTransport`.
        self._transport = cast("asyncio.WriteTransport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        """Reads every complete frame."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return
            data = bytes(self._rest)
            self._rest.clear()
        start, end = 0, len(data)
        while end - start >= HEAD.size:
            text, size = HEAD.unpack_from(data, start)
            self._wanted = HEAD.size + text + size
            if end - start < self._wanted:
                break
            self._read(FrameReader(data, start, self._memory_reader))
            start += self._wanted
        if start < end:
            self._rest += data[start:]
            if end - start < HEAD.size:
                self._wanted = HEAD.size

    def _read(self, unpacker: FrameReader) -> None:
        for message in unpacker.messages:
            if message[0] == _FREE:
                for where in message[1]:
                    self._memory_writer.free(where)
            else:
                self._tell(message, unpacker)

    def _tell(self, message: list[Any], unpacker: FrameReader) -> None:
        try:
            self._listener.hear(self, message, unpacker.value)
        except Exception as error:  # noqa: BLE001 - the next messages are still handled
            context = {"message": f"{message[0]!r} was not heard", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def connection_lost(self, _: Exception | None) -> None:
        """Closes the memories, and calls the receiver."""
        self._transport, self._is_over = None, True
        self._memory_writer.close()
        self._memory_reader.close()
        self._over.set()
        self._listener.on_lost(self)
