"""64 connections against ``graphs/mnist_http.toml``: answers checked, requests/s, latencies.

python benchmarks/http_load.py [--connections 64] [--quick]

The server is a process of its own. The client is another process on the same machine, and takes
processor time from the server. Every answer is compared with the answer to a single request before.
A second server with small limits shows the refusals: 503 beyond max_requests, 504 beyond
time_out_ms.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from child import started
from machine import cpu_seconds, switches
from measure import print_table

from modelflow.starters.ready import ready_graphs

SAMPLES = ready_graphs() / "models" / "digits" / "samples"


class Served:
    """A server of the graph: ``modelflow run`` in a process of its own, for the time of a block."""

    def __init__(self, *settings: str) -> None:
        """Takes settings of nodes, as NODE.KEY=VALUE, and chooses a port."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        endpoint = f"endpoint=http://127.0.0.1:{self.port}/"
        more = [part for setting in settings for part in ("--set", setting)]
        graph = str(ready_graphs() / "mnist_http.toml")
        self._command = ["modelflow", "run", graph, "--arg", endpoint, *more]

    def __enter__(self) -> "Served":
        """Starts the server, and waits for its first answer."""
        with contextlib.ExitStack() as stack:
            self._process = stack.enter_context(
                started(
                    [sys.executable, "-m", *self._command],
                    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            body = next(SAMPLES.glob("*.png")).read_bytes()
            while not asyncio.run(_is_ready(self.port, body)):
                if self._process.poll() is not None:
                    text = f"the server has ended; to see why: {' '.join(self._command)}"
                    raise RuntimeError(text)
                time.sleep(0.1)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the server in any state."""
        self._stack.close()

    def costs(self) -> tuple[float, int]:
        """Returns the seconds of processor time, and how often its threads waited, so far."""
        return cpu_seconds(self._process.pid), switches(self._process.pid)

    def threads(self) -> int:
        """Returns the number of the server's threads."""
        return len(list(Path(f"/proc/{self._process.pid}/task").iterdir()))

    def stop(self) -> int:
        """Interrupts the server, as Ctrl-C does, and returns its exit status."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait()


async def _is_ready(port: int, body: bytes) -> bool:
    """Returns whether the server answers 200: the first requests after a start may fail."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    try:
        return (await ask(reader, writer, body))[0] == 200
    finally:
        writer.close()


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes
) -> tuple[int, bytes]:
    """Sends a request over an open connection; returns status and body."""
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    status = int((await reader.readline()).split()[1])
    length = 0
    while (line := await reader.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return status, await reader.readexactly(length)


class Load:
    """Connections that send requests without a pause."""

    def __init__(self, port: int, bodies: list[bytes], expected: list[bytes] | None) -> None:
        """Takes the bodies to send, and the expected answers if answers are to be compared."""
        self._port, self._bodies, self._expected = port, bodies, expected
        self.statuses: collections.Counter[int] = collections.Counter()
        self.wrong = 0
        self.times: list[float] = []

    async def run(self, connections: int, seconds: float) -> None:
        """Sends requests over ``connections`` connections for ``seconds`` seconds."""
        end = time.perf_counter() + seconds
        await asyncio.gather(*(self._connection(n, end) for n in range(connections)))

    async def _connection(self, number: int, end: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        place = number
        while (start := time.perf_counter()) < end:
            place = (place + 7) % len(self._bodies)
            status, body = await ask(reader, writer, self._bodies[place])
            self.times.append(time.perf_counter() - start)
            self.statuses[status] += 1
            if status == 200 and self._expected is not None:
                self.wrong += _class(body) != _class(self._expected[place])
        writer.close()
        await writer.wait_closed()


def _class(body: bytes) -> object:
    return json.loads(body)[0]["class"]


async def _answers(port: int, bodies: list[bytes]) -> list[bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = [await ask(reader, writer, body) for body in bodies]
    writer.close()
    assert {status for status, _ in found} == {200}
    return [body for _, body in found]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    seconds = 0.3 if given.quick else given.seconds
    bodies = [file.read_bytes() for file in sorted(SAMPLES.glob("*.png"))[:200]]
    rows: list[list[object]] = []
    for title, settings in (
        ("as it is", ()),
        ("max_requests=8", ("receive.max_requests=8",)),
        ("time_out_ms=10", ("receive.time_out_ms=10",)),
    ):
        with Served(*settings) as served:
            expected = asyncio.run(_answers(served.port, bodies)) if not settings else None
            load = Load(served.port, bodies, expected)
            before, (cpu, waits) = served.threads(), served.costs()
            asyncio.run(load.run(given.connections, seconds))
            after, (cpu_after, waits_after) = served.threads(), served.costs()
            status = served.stop()
        p50, p99 = (float(np.percentile(load.times, p)) * 1e3 for p in (50, 99))
        counts = " ".join(f"{code}:{count}" for code, count in sorted(load.statuses.items()))
        answers = sum(load.statuses.values())
        cost = [(cpu_after - cpu) / answers * 1e6, (waits_after - waits) / answers]
        found = [p50, p99, *cost, counts, load.wrong, after - before, status]
        rows.append([title, answers / seconds, *found])
    print_table(
        f"{given.connections} connections, mnist_http",
        [
            *("", "requests/s", "p50, ms", "p99, ms", "us CPU", "switches", "statuses", "wrong"),
            *("threads more", "exit"),
        ],
        rows,
    )
    print(f"\nwrong answers: {rows[0][7]}")
    assert threading.active_count() == 1


if __name__ == "__main__":
    main()
