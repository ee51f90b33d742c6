"""A client that asks one thing over and over, over many connections: prints what it saw, as JSON.

python benchmarks/http_client.py PORT REQUEST_FILE --connections 64 --seconds 2

The request is sent as it stands in the file, head and body. It reads no more of an answer than the
status and the length, so that it costs less than the servers that it measures.
"""

import argparse
import asyncio
import collections
import json
import re
import statistics
import sys
import time
from pathlib import Path

try:
    import uvloop
except ImportError:
    uvloop = None

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Asking(asyncio.Protocol):
    """One connection: sends a request, waits for its answer, sends it again."""

    def __init__(self, request: bytes, seen: "Seen") -> None:
        """Takes what to send, and where to note what comes."""
        self._request, self._seen = request, seen
        self._held = bytearray()
        self._missing: int | None = None  # bytes of the answer that have not come
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asks for the first time."""
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Notes an answer that is whole, and asks again."""
        if self._missing is None:
            self._held += data
            end = self._held.find(b"\r\n\r\n")
            if end < 0:
                return
            length = _LENGTH.search(self._held, 0, end + 2)
            self._seen.statuses[int(self._held[9:12])] += 1
            self._missing = end + 4 + int(length[1]) - len(self._held)
        else:
            self._missing -= len(data)
        if self._missing <= 0:
            self._held.clear()
            self._missing = None
            self._seen.times.append(time.perf_counter() - self._began)
            if self._seen.is_over:
                self._transport.close()
            else:
                self._ask()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Notes that the server has ended it, where we have not."""
        self._seen.lost += not self._seen.is_over
        self._seen.open -= 1
        if not self._seen.open:
            self._seen.ended.set()


class Seen:
    """What all connections have seen."""

    def __init__(self, connections: int) -> None:
        """Begins with nothing."""
        self.statuses: collections.Counter[int] = collections.Counter()
        self.times: list[float] = []
        self.lost = 0
        self.open = connections
        self.is_over = False
        self.ended = asyncio.Event()


async def load(port: int, request: bytes, connections: int, seconds: float) -> dict[str, object]:
    """Asks for so long; returns the rate, the statuses and percentiles in microseconds."""
    seen, loop = Seen(connections), asyncio.get_running_loop()
    start = time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: Asking(request, seen), "127.0.0.1", port)
    await asyncio.sleep(seconds)
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
    }


def main() -> None:
    """Reads the command line, asks and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("port", type=int)
    parser.add_argument("request", type=Path)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    asking = load(given.port, given.request.read_bytes(), given.connections, given.seconds)
    with asyncio.Runner(loop_factory=None if uvloop is None else uvloop.new_event_loop) as runner:
        json.dump(runner.run(asking), sys.stdout)


if __name__ == "__main__":
    main()
