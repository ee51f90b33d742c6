"""What two processes need to be linked: descriptors, which a third makes for them."""

import contextlib
import os
import socket
from typing import NamedTuple

__all__ = ["Ends", "new_link", "new_memory"]

# The most that lies in a memory at a time. The system gives room only to what is written.
_SIZE = 64 << 20


def new_memory() -> int:
    """Returns the descriptor of memory that has no name: it is freed when nobody has it."""
    descriptor = os.memfd_create("modelflow-worker")
    os.ftruncate(descriptor, _SIZE)
    return descriptor


class Ends(NamedTuple):
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


def new_link() -> tuple[Ends, Ends]:
    """Returns both sides of a new link.

    Raises:
        OSError: there are too many descriptors; nothing is left of it.
    """
    with contextlib.ExitStack() as made:

        def kept(descriptor: int) -> int:
            made.callback(os.close, descriptor)
            return descriptor

        one, other = (kept(end.detach()) for end in socket.socketpair())
        there, back = kept(new_memory()), kept(new_memory())
        sides = Ends(one, back, there), Ends(other, kept(os.dup(there)), kept(os.dup(back)))
        made.pop_all()
    return sides
