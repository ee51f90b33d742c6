"""Measures how evenly two processes share connections.

python benchmarks/connection_spread.py [--quick]

The processes share one listening socket, have one each, or receive accepted connections. Each way
of connecting is tried 20 times. The table has the part of the connections that the fuller of the
two processes has: 0.5 is even, 1 is all.
"""

import asyncio
import collections
import os
import socket
import subprocess
import sys
import time

from measure import print_table

try:
    import uvloop
except ImportError:
    uvloop = None

WAYS = ("one socket", "a socket each (SO_REUSEPORT)", "handed over, by turns")
WORK = 2e-4  # seconds that an answer takes
TRIES = 1 if "--quick" in sys.argv else 20


class Answering(asyncio.Protocol):
    """A server's connection, which works for each byte and replies with the process's number."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the connection."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:  # noqa: ARG002
        """Works for `WORK` seconds, and replies."""
        until = time.perf_counter() + WORK
        while time.perf_counter() < until:
            pass
        self._transport.write(b"%08d" % os.getpid())


async def serve(sock: socket.socket, is_handed: bool) -> None:
    """Accepts connections, or receives connections that another process has accepted."""
    loop = asyncio.get_running_loop()
    if not is_handed:
        server = await loop.create_server(Answering, sock=sock, backlog=2048)
        await server.serve_forever()
    sock.setblocking(False)

    def take() -> None:
        _, descriptors, *_ = socket.recv_fds(sock, 1, 1)
        client = socket.socket(fileno=descriptors[0])
        client.setblocking(False)
        tasks.append(loop.create_task(loop.connect_accepted_socket(Answering, client)))

    tasks: list[object] = []
    loop.add_reader(sock, take)
    await asyncio.Event().wait()


def bound(port: int = 0, *, is_shared: bool = False) -> socket.socket:
    """Returns a socket with an address."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind(("127.0.0.1", port))
    return found


async def share(port: int, connections: int, *, is_at_once: bool) -> float:
    """Connects, sends five requests on each connection, and returns the fuller process's part."""
    found: collections.Counter[bytes] = collections.Counter()

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(5):
            writer.write(b"x")
            who = await reader.readexactly(8)
        found[who] += 1
        writer.close()

    if is_at_once:
        pairs = await asyncio.gather(*(connect() for _ in range(connections)))
    else:
        pairs = [await connect() for _ in range(connections)]
    await asyncio.gather(*(ask(*pair) for pair in pairs))
    return max(found.values()) / connections


async def hand_over(listening: socket.socket, doors: list[socket.socket]) -> None:
    """Accepts connections, and passes them to the processes by turns."""
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    while True:
        for door in doors:
            client, _ = await loop.sock_accept(listening)
            with client:
                socket.send_fds(door, [b"c"], [client.fileno()])


async def measure(
    way: str, listening: socket.socket, doors: list[socket.socket]
) -> list[list[str]]:
    """Returns the rows of one way to share connections."""
    handing = asyncio.create_task(hand_over(listening, doors)) if doors else None
    port, rows = listening.getsockname()[1], []
    for connections in (2, 8, 64):
        row = [way, str(connections)]
        for is_at_once in (False, True):
            tries = [await share(port, connections, is_at_once=is_at_once) for _ in range(TRIES)]
            row.append(f"{sum(tries) / TRIES:.2f}, at worst {max(tries):.2f}")
        rows.append(row)
    if handing is not None:
        handing.cancel()
    return rows


def run(way: str) -> list[list[str]]:
    """Starts two processes, measures how they share connections, and returns the rows."""
    listening = bound(is_shared="each" in way)
    doors: list[socket.socket] = []
    given = [listening, listening]
    if "each" in way:
        given = [listening, bound(listening.getsockname()[1], is_shared=True)]
    elif "handed" in way:
        pairs = [socket.socketpair() for _ in range(2)]
        doors, given = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    program = [sys.executable, __file__, "--process", str(int(bool(doors)))]
    processes = [
        subprocess.Popen([*program, str(one.fileno())], pass_fds=[one.fileno()]) for one in given
    ]
    for one in {listening, *given} if not doors else {listening}:
        one.listen(2048)
    try:
        time.sleep(2)  # until both accept
        return asyncio.run(measure(way, listening, doors))
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    """Measures all ways, or runs as a process that ``run`` has started."""
    if "--process" in sys.argv:
        sock = socket.socket(fileno=int(sys.argv[3]))
        with asyncio.Runner(loop_factory=uvloop and uvloop.new_event_loop) as runner:
            runner.run(serve(sock, sys.argv[2] == "1"))
    rows = [row for way in WAYS for row in run(way)]
    print_table(
        "The fuller of two processes",
        ["who accepts", "connections", "one after the other", "at once"],
        rows,
    )


if __name__ == "__main__":
    main()
