"""A client that sends requests at fixed times, and prints its measurements as JSON.

python benchmarks/open_loop.py PORT PATH --rate 3000 --seconds 5 [--rows 8] [--timeout-ms 30]

The times do not depend on the answers. They are a Poisson process, drawn before it begins. A
request's latency counts from its due time. A delayed client therefore hides nothing. Due requests
are sent once a millisecond, each over an idle connection. `starved` counts how often no connection
was idle. `late_ms` is the delay of sending, at the 99th percentile. `goodput` is the rate of
answers
while requests were still due.
"""

import argparse
import asyncio
import collections
import json
import re
import sys
import time
from collections.abc import Sequence

import numpy as np

try:
    import uvloop
except ImportError:
    uvloop = None

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
# Part of the server's message for a refused request -> the reason that its metrics count.
_REASONS = {b"requests under way": "full", b"would answer in": "would_miss_deadline"}
_TICK = 0.001


class Connection(asyncio.Protocol):
    """A connection with at most one request."""

    def __init__(self, load: "Load") -> None:
        """Takes the load, which counts the answers."""
        self._load = load
        self._held = bytearray()
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Makes the connection available for requests."""
        self._transport = transport

    def ask(self, request: bytes, due: float) -> None:
        """Sends a request that was due at ``due``."""
        self._due = due
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Records a complete answer."""
        self._held += data
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._held, 0, end + 2)
        if len(self._held) < end + 4 + int(length[1]):
            return
        self._load.on_answer(self, self._held, end, self._due)
        self._held.clear()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Records that the server has ended the connection."""
        self._load.lost += 1

    def close(self) -> None:
        """Ends the connection."""
        self._transport.close()


class Load:
    """All requests of a run, and their outcomes."""

    def __init__(self, head: bytes, body: bytes, due: Sequence[float]) -> None:
        """Takes a request's head, its body with a ``%f`` for each time, and all due times."""
        self._head, self._body = head, body
        self._rows = body.count(b"%")
        self._due = due
        self._free: collections.deque[Connection] = collections.deque()
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.times: list[float] = []
        self.late: list[float] = []
        self.lost = self.starved = self.without_retry = 0
        self._open = 0
        self.sent = self.in_time = 0

    async def run(self, port: int, connections: int) -> float:
        """Sends all requests; returns the seconds from the first due time to the last answer."""
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            made = await loop.create_connection(lambda: Connection(self), "127.0.0.1", port)
            self._free.append(made[1])
        self._all = list(self._free)
        self.began = time.monotonic()
        while self.sent < len(self._due) or self._open:
            self._send()
            await asyncio.sleep(_TICK)
            if self.lost:
                message = f"the server has ended {self.lost} connections"
                raise RuntimeError(message)
        taken = time.monotonic() - self.began
        for one in self._all:
            one.close()
        return taken

    def _send(self) -> None:
        """Sends the requests that are due."""
        now = time.monotonic()
        since = now - self.began
        while self.sent < len(self._due) and (due := self._due[self.sent]) <= since:
            if not self._free:
                self.starved += 1
                return
            connection = self._free.popleft()
            self.late.append(since - due)
            connection.ask(self._head + self._body % ((now,) * self._rows), self.began + due)
            self.sent += 1
            self._open += 1

    def on_answer(self, one: Connection, text: bytearray, end: int, due: float) -> None:
        """Notes an answer."""
        self._free.append(one)
        self._open -= 1
        status = text[9:12].decode()
        if status == "200":
            now = time.monotonic()
            self.times.append(now - due)
            self.in_time += now - self.began <= self._due[-1]
        elif status == "503":
            reason = next((name for words, name in _REASONS.items() if words in text), status)
            self.without_retry += b"\r\nretry-after: " not in text[: end + 2].lower()
            status = reason
        self.outcomes[status] += 1


def request_of(
    path: str, timeout_ms: float, rows: int = 1, *, is_first: bool = False
) -> tuple[bytes, bytes]:
    """Returns the head and the body of a request; each ``%f`` in the body is its send time."""
    body = b'{"instances": [' + b", ".join([b"%20.6f"] * rows) + b"]}"
    more = f"Inference-Timeout-Ms: {timeout_ms:g}\r\n" if timeout_ms else ""
    more += "Inference-Priority: 1\r\n" if is_first else ""
    length = len(body % ((0.0,) * rows))
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {length}\r\n\r\n"
    return head.encode(), body


def main() -> None:
    """Reads the command line, asks and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("port", type=int)
    parser.add_argument("path")
    parser.add_argument("--rate", type=float, default=1000.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--connections", type=int, default=600)
    parser.add_argument("--rows", type=int, default=1, help="of each request")
    parser.add_argument("--timeout-ms", type=float, default=0.0, help="of each request; 0: none")
    parser.add_argument("--is-first", action="store_true", help="requests of the first class")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    gaps = np.random.default_rng(given.seed).exponential(
        1 / given.rate, int(given.rate * given.seconds)
    )
    request = request_of(given.path, given.timeout_ms, given.rows, is_first=given.is_first)
    load = Load(*request, np.cumsum(gaps).tolist())
    with asyncio.Runner(loop_factory=None if uvloop is None else uvloop.new_event_loop) as runner:
        began = time.process_time()
        seconds = runner.run(load.run(given.port, given.connections))
        busy = (time.process_time() - began) / seconds
    p50, p99 = np.percentile(load.times or [0.0], (50, 99)) * 1e3
    found = {
        "sent": load.sent,
        "outcomes": load.outcomes,
        "goodput": load.in_time / float(np.sum(gaps)),
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "without_retry": load.without_retry,
        "starved": load.starved,
        "late_ms": float(np.percentile(load.late, 99)) * 1e3,
        "busy": busy,
        "seconds": seconds,
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
