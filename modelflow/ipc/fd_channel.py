"""How two processes are linked: descriptors that a third process makes and hands over."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import NamedTuple

# The most that lies in a memory at a time. The system gives room only to what is written.
_SIZE = 64 << 20


def new_memory() -> int:
    """Returns the descriptor of memory that has no name: it is freed when nobody has it."""
    descriptor = os.memfd_create("modelflow-worker")
    os.ftruncate(descriptor, _SIZE)
    return descriptor


class LinkDescriptors(NamedTuple):
    """What a process needs to take up its side of a link: descriptors.

    Attributes:
        socket: A stream socket whose other end the other one has.
        incoming: The memory that it reads.
        outgoing: The memory that it writes.
    """

    socket: int
    incoming: int
    outgoing: int

    def close(self) -> None:
        """Gives them up."""
        for descriptor in self:
            os.close(descriptor)


def new_link() -> tuple[LinkDescriptors, LinkDescriptors]:
    """Returns both sides of a new link.

    Raises:
        OSError: there are too many descriptors; nothing is left of it.
    """
    with contextlib.ExitStack() as made:

        def keep(descriptor: int) -> int:
            made.callback(os.close, descriptor)
            return descriptor

        one, other = (keep(end.detach()) for end in socket.socketpair())
        there, back = keep(new_memory()), keep(new_memory())
        sides = (
            LinkDescriptors(one, back, there),
            LinkDescriptors(other, keep(os.dup(there)), keep(os.dup(back))),
        )
        made.pop_all()
    return sides


class FdChannel:
    """Takes the descriptors of links from a Unix socket. For the loop's thread."""

    def __init__(self, sock: socket.socket) -> None:
        """Takes the socket, which becomes its own."""
        self._socket = sock
        self._socket.setblocking(False)
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, taken: Callable[[LinkDescriptors, int], object]) -> None:
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
        count = len(LinkDescriptors._fields)
        try:
            said, descriptors, *_ = socket.recv_fds(self._socket, 1, count)
        except BlockingIOError:
            return
        except ConnectionError:
            said, descriptors = b"", []
        if not said:
            self.close()
        elif len(descriptors) == count:
            self._taken(LinkDescriptors(*descriptors), said[0])


def give(fd_channel: socket.socket, ends: LinkDescriptors, peer: int) -> None:
    """Gives a process its side of a link, which is closed here. One that has ended takes none.

    Args:
        fd_channel: What reaches the process.
        ends: The side.
        peer: The number of the process at the other side, at most 255.
    """
    with contextlib.suppress(OSError):
        socket.send_fds(fd_channel, [bytes([peer])], ends)
    ends.close()
