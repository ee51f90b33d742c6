"""A client that repeats a request over many connections, and prints its measurements as JSON.

python benchmarks/http_client.py PORT REQUEST_FILE --connections 64 --seconds 2

The client runs for ``--seconds``, and at least until the first answer. With ``--until-told`` it
runs until its standard input ends. With ``--until-refused`` it runs until the server refuses
connections. Meanwhile it replaces a connection that the server ends with its answer
(``Connection: close``). In these two cases it writes a line when all connections are open.

The request is sent as it is in the file, head and body, except for the 32 characters of `MARK`.
Each request has an id of its own in their place. The client reads only the status and the
length of an answer. It therefore costs less than the servers that it measures.
"""

import argparse
import asyncio
import collections
import itertools
import json
import re
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

try:
    import uvloop
except ImportError:
    uvloop = None

MARK = b"0123456789abcdef0123456789abcdef"
_CLOSES = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Asking(asyncio.Protocol):
    """A connection that sends a request, waits for its answer, and sends the request again."""

    def __init__(self, request: bytes, seen: "Seen", again: Callable[[], None]) -> None:
        """Takes the request, the record of all connections, and a function that connects again."""
        self._request, self._seen, self._again = request, seen, again
        self._held = bytearray()
        self._missing: int | None = None  # bytes of the answer that have not arrived
        self._is_chunked = False  # the answer has no length, and ends with an empty chunk
        self._is_last = False  # the server ends the connection after the answer
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the first request."""
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._began = time.perf_counter()
        number = b"%032x" % next(self._seen.ids)
        self._transport.write(self._request.replace(MARK, number, 1))

    def data_received(self, data: bytes) -> None:
        """Records a complete answer, and sends the request again."""
        if self._missing is None:
            self._held += data
            end = self._held.find(b"\r\n\r\n")
            if end < 0:
                return
            length = _LENGTH.search(self._held, 0, end + 2)
            self._seen.statuses[int(self._held[9:12])] += 1
            self._is_last = _CLOSES.search(self._held, 0, end + 2) is not None
            self._is_chunked = length is None
            self._missing = 0 if length is None else end + 4 + int(length[1]) - len(self._held)
        elif self._is_chunked:
            self._held += data[-len(_LAST_CHUNK) :]
        else:
            self._missing -= len(data)
        if self._missing <= 0 and not (self._is_chunked and not self._held.endswith(_LAST_CHUNK)):
            self._held.clear()
            self._missing = None
            self._seen.times.append(time.perf_counter() - self._began)
            self._seen.answered.set()
            if self._seen.is_over or self._is_last:
                self._seen.told += self._is_last
                self._transport.close()
            else:
                self._ask()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Connects again if the server announced the end of the connection, else records a loss."""
        if self._is_last and not self._seen.is_over:
            self._again()
            return
        self._seen.lost += not self._seen.is_over
        self._seen.closed()


class Seen:
    """A record of the answers on all connections."""

    def __init__(self, connections: int) -> None:
        """Begins with empty counts."""
        self.statuses: collections.Counter[int] = collections.Counter()
        self.times: list[float] = []
        self.lost = self.told = self.refused = 0
        self.ids = itertools.count(time.time_ns())  # no id of an earlier run comes again
        self.tasks: set[asyncio.Task[None]] = set()  # that make connections
        self.open = connections
        self.is_over = False
        self.ended = asyncio.Event()
        self.answered = asyncio.Event()

    def closed(self) -> None:
        """Records that a connection has ended without a replacement."""
        self.open -= 1
        if not self.open:
            self.ended.set()
            self.answered.set()  # nothing will be


async def load(
    port: int, request: bytes, connections: int, until: Callable[[Seen], Awaitable[object]]
) -> dict[str, object]:
    """Sends requests until ``until`` returns; returns rate, statuses and latencies in microseconds.

    Args:
        port: The server's port on this machine.
        request: Head and body.
        connections: The number of connections at once.
        until: Called with the record of the answers; returns when the load is to end.
    """
    seen = Seen(connections)
    start = time.perf_counter()
    await asyncio.gather(*(_connect(port, request, seen) for _ in range(connections)))
    await until(seen)
    seen.is_over = True
    taken, answers = time.perf_counter() - start, len(seen.times)
    await asyncio.wait_for(seen.ended.wait(), 60)
    cuts = statistics.quantiles(seen.times, n=100) if len(seen.times) > 1 else [0.0] * 99
    return {
        "answers": answers,
        "rate": answers / taken,
        "p50_us": cuts[49] * 1e6,
        "p99_us": cuts[98] * 1e6,
        "statuses": dict(seen.statuses),
        "lost": seen.lost,
        "told": seen.told,
        "errors": seen.statuses.total() - seen.statuses[200],
        "refused": seen.refused,
    }


async def _connect(port: int, request: bytes, seen: Seen) -> None:
    """Opens a connection, and another one each time the server ends the connection."""
    loop = asyncio.get_running_loop()

    def again() -> None:
        task = loop.create_task(_connect(port, request, seen))
        seen.tasks.add(task)
        task.add_done_callback(seen.tasks.discard)

    try:
        await loop.create_connection(lambda: Asking(request, seen, again), "127.0.0.1", port)
    except ConnectionRefusedError:
        if not seen.told:
            raise  # there was no server at all
        seen.refused += 1
        seen.closed()


async def _for_seconds(seconds: float, seen: Seen) -> None:
    await asyncio.sleep(seconds)
    await asyncio.wait_for(seen.answered.wait(), 60)  # a busy server may need longer


async def _until_refused(seen: Seen) -> None:
    print(flush=True)
    await seen.ended.wait()


async def _until_told(_: Seen) -> None:
    print(flush=True)
    await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Reads the command line, asks and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("port", type=int)
    parser.add_argument("request", type=Path)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--until-refused", action="store_const", dest="until", const=_until_refused)
    how.add_argument("--until-told", action="store_const", dest="until", const=_until_told)
    given = parser.parse_args()
    until = given.until or partial(_for_seconds, given.seconds)
    asking = load(given.port, given.request.read_bytes(), given.connections, until)
    with asyncio.Runner(loop_factory=None if uvloop is None else uvloop.new_event_loop) as runner:
        json.dump(runner.run(asking), sys.stdout)


if __name__ == "__main__":
    main()
