"""How two processes are linked: descriptors that a third process makes and hands over."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from modelflow.ipc.shared_memory import ChannelDescriptors


class FdChannel:
    """Takes the descriptors of links from a Unix socket. For the loop's thread."""

    def __init__(self, sock: socket.socket) -> None:
        """Takes the socket, which becomes its own."""
        self._socket = sock
        self._socket.setblocking(False)
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, taken: Callable[[ChannelDescriptors, int], object]) -> None:
        """Begins; ``taken`` is called with each, and the number of the process behind it.

        The descriptors become its own.
        """
        self._taken = taken
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._take)

    def close(self) -> None:
        """Takes no more; on the loop's thread, or when that has ended. May be called again."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
        self._loop = None
        self._socket.close()

    def _take(self) -> None:
        count = len(ChannelDescriptors._fields)
        try:
            said, descriptors, *_ = socket.recv_fds(self._socket, 1, count)
        except BlockingIOError:
            return
        except ConnectionError:
            said, descriptors = b"", []
        if not said:
            self.close()
        elif len(descriptors) == count:
            self._taken(ChannelDescriptors(*descriptors), said[0])


def give(fd_channel: socket.socket, ends: ChannelDescriptors, peer: int) -> None:
    """Gives a process its side of a link, which is closed here. One that has ended takes none.

    Args:
        fd_channel: What reaches the process.
        ends: The side.
        peer: The number of the process at the other side, at most 255.
    """
    with contextlib.suppress(OSError):
        socket.send_fds(fd_channel, [bytes([peer])], ends)
    ends.close()
