"""Transfer of link descriptors: a third process creates a link and sends each side to a process."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable

from modelflow.ipc.shared_memory import ChannelDescriptors

_NUMBER = struct.Struct("<h")


class FdChannel:
    """A receiver of link descriptors from a Unix socket. For the loop's thread."""

    def __init__(self, sock: socket.socket) -> None:
        """Takes ownership of the socket."""
        self._socket = sock
        self._socket.setblocking(False)
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, taken: Callable[[ChannelDescriptors, int], object]) -> None:
        """Starts to receive. Calls ``taken`` with each side, and the number of the other process.

        The callback owns the descriptors.
        """
        self._taken = taken
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._take)

    def close(self) -> None:
        """Stops receiving. Called on the loop's thread, or after its end. May be called again."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
        self._loop = None
        self._socket.close()

    def _take(self) -> None:
        count = len(ChannelDescriptors._fields)
        try:
            said, descriptors, *_ = socket.recv_fds(self._socket, _NUMBER.size, count)
        except BlockingIOError:
            return
        except ConnectionError:
            said, descriptors = b"", []
        if not said:
            self.close()
        elif len(descriptors) == count:
            self._taken(ChannelDescriptors(*descriptors), *_NUMBER.unpack(said))


def give(fd_channel: socket.socket, ends: ChannelDescriptors, peer: int) -> None:
    """Sends a process its side of a link, and closes the side here.

    Does nothing more if the process has ended.

    Args:
        fd_channel: The socket to the process.
        ends: The descriptors of the side.
        peer: The number of the process at the other side, which fits into 16 bits with its sign.
    """
    with contextlib.suppress(OSError):
        socket.send_fds(fd_channel, [_NUMBER.pack(peer)], ends)
    ends.close()
