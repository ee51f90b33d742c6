"""Connections on their way in: accepted at an address, or handed over by another process."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

from modelflow.http.connections import Connections
from modelflow.http.door import Door
from modelflow.http.doorway import BACKLOG, Enter, accept

__all__ = ["arrivals"]


@contextlib.asynccontextmanager
async def arrivals(
    bound: socket.socket | Door, connections: Connections, tls: ssl.SSLContext | None, enter: Enter
) -> AsyncIterator[None]:
    """Takes connections inside the block, and closes where they come from behind it.

    Args:
        bound: A socket with an address, or where another process hands connections over.
        connections: All of the server's.
        tls: Certificate and key; None: no TLS.
        enter: Makes what a connection is given to.

    Raises:
        OSError: somebody else listens there.
    """
    if isinstance(bound, Door):
        async with bound.open(connections, tls, enter):
            yield
        return
    loop = asyncio.get_running_loop()
    if tls is None:
        server = await loop.create_server(enter, sock=bound, backlog=BACKLOG)
        yield
        bound.shutdown(socket.SHUT_RDWR)  # a process that was forked may hold it open
        server.close()
        return
    bound.listen(BACKLOG)
    accepting = loop.create_task(accept(bound, connections, tls, enter))
    yield
    accepting.cancel()
    await asyncio.wait([accepting])
    bound.shutdown(socket.SHUT_RDWR)
    bound.close()
