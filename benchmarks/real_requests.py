"""Small JSON in the forms that clients send (P7), and the rates of other servers.

python benchmarks/real_requests.py [--connections 1,8,64] [--peers-python PATH] [--quick]

One model, the first of four floats, runs in a server of its own. The first table has the forms of a
request: the server's processor time in microseconds, and the ratio to one row in the same run and
with as many connections. Each request has another id or trace, as those of real clients have.

The second table has requests a second of other servers. The server mosec runs with msgspec, and
with the best batch and timer for each number of connections. Bare uvicorn runs with orjson. Both
ignore ids. A peer that is absent is "not measured". The servers and the client share the machine.
The client is wrk if it is installed, else `http_client.py`, which limits the faster servers.
Install the peers separately: pip install mosec msgspec uvicorn uvloop httptools orjson
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from child import started
from http_client import MARK
from machine import cpu_seconds, machine
from measure import print_table
from serving import CLIENT, HERE, asked, is_there, wait_for_answer

V1, V2 = "/v1/models/first:predict", "/v2/models/first/infer"
FLOATS = 4


@dataclass(frozen=True)
class Form:
    """A form of a request.

    Attributes:
        title: The title in the table.
        rows: The number of rows.
        protocol: ``v1``, ``json`` or ``binary`` (Open Inference).
        headers: Additional headers.
        settings: Settings of the server: an access log, a key.
    """

    title: str
    rows: int = 1
    protocol: str = "v1"
    headers: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


_MARK = MARK.decode()
ID = (f"X-Request-Id: {_MARK}",)
TRACE = (f"traceparent: 00-{_MARK}-00f067aa0ba902b7-01",)
DEADLINE = ("Inference-Timeout-Ms: 5000",)
KEY = ("Authorization: Bearer secret",)
LOG, KEYS = (("FIRST_LOG", os.devnull),), (("FIRST_KEYS", "keys"),)
PLAIN = Form("one row")
FORMS = (
    PLAIN,
    Form("two rows", 2),
    Form("eight rows", 8),
    Form("one row, id", headers=ID),
    Form("one row, trace", headers=TRACE),
    Form("one row, deadline", headers=DEADLINE),
    Form("one row, key", headers=KEY, settings=KEYS),
    Form("one row, access log", settings=LOG),
    Form("one row, id, access log", headers=ID, settings=LOG),
    Form("eight rows, id, deadline, access log", 8, headers=ID + DEADLINE, settings=LOG),
    Form("one row, Open Inference JSON", protocol="json"),
    Form("eight rows, Open Inference JSON", 8, "json"),
    Form("one row, Open Inference binary", protocol="binary"),
    Form("eight rows, Open Inference binary", 8, "binary"),
)
OF_PEERS = ("one row", "one row, id", "eight rows")
MOSEC = {1: ("1", "0"), 8: ("8", "1")}
"""Connections -> the best largest batch and wait in milliseconds; 32 and 1 for more."""
PEERS = {"mosec": "mosec, msgspec", "uvicorn": "uvicorn, uvloop, httptools, orjson"}


def message_of(form: Form) -> bytes:
    """Returns a request of a form, head and body."""
    rows = (np.arange(form.rows * FLOATS, dtype=np.float32) % 256).reshape(form.rows, FLOATS) / 255
    headers = [*form.headers]
    if form.protocol == "v1":
        path, body = V1, json.dumps({"instances": _rounded(rows)}).encode()
    else:
        tensor = {"name": "rows", "datatype": "FP32", "shape": [*rows.shape]}
        path = V2
        if form.protocol == "json":
            body = json.dumps({"inputs": [{**tensor, "data": _rounded(rows)}]}).encode()
        else:
            tensor["parameters"] = {"binary_data_size": rows.nbytes}
            asked_for = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
            head = json.dumps(asked_for).encode()
            headers.append(f"Inference-Header-Content-Length: {len(head)}")
            body = head + rows.tobytes()
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _rounded(rows: np.ndarray) -> list[list[float]]:
    return [[round(float(value), 4) for value in row] for row in rows]


def measure(
    server: str, form: Form, connections: int, seconds: float, python: str
) -> tuple[float, float]:
    """Returns requests a second of a server, and its processor time a request in microseconds."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [python, str(HERE / "serving_peers" / f"{server}first_server.py"), str(port)]
    message = message_of(form)
    if server == "mosec_":
        command += MOSEC.get(connections, ("32", "1"))
        message = message.replace(V1.encode(), b"/inference")
    with (
        _folder() as folder,
        started(
            command,
            cwd=folder,
            env={**os.environ, **dict(form.settings), "PYTHONWARNINGS": "ignore"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        file = Path(folder, "request")
        file.write_bytes(message)
        wait_for_answer(port, message, process)
        asked(port, file, connections, min(seconds, 0.5))  # the first requests cost more
        before = cpu_seconds(process.pid)
        seen = asked(port, file, connections, seconds)
        return seen["rate"], (cpu_seconds(process.pid) - before) * 1e6 / seen["answers"]


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """Yields a folder with a file of keys."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "keys").write_text("secret\n")
        yield folder


def main() -> None:
    """Measures every form and the peers, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--connections", default="1,8,64")
    parser.add_argument("--peers-python", default=sys.executable, help="where they are installed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--form", default="", help="only one row, and those whose titles begin so")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    forms = [PLAIN, *(form for form in FORMS[1:] if form.title.startswith(given.form))]
    counts = [int(count) for count in given.connections.split(",")]
    if given.quick:
        given.rounds, given.seconds, forms, counts = 1, 0.2, forms[:2], counts[:1]
    peers = {name: is_there(given.peers_python, PEERS[name]) for name in PEERS}
    found: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    with machine() as ran_on:
        for _ in range(given.rounds):
            for count in counts:
                for form in forms:
                    one = measure("", form, count, given.seconds, sys.executable)
                    found.setdefault(("modelflow", form.title, count), []).append(one)
                    for name in peers:
                        if peers[name] and form.title in OF_PEERS:
                            one = measure(
                                f"{name}_", form, count, given.seconds, given.peers_python
                            )
                            found.setdefault((name, form.title, count), []).append(one)
    _print_forms(found, [form.title for form in forms], counts)
    _print_peers(found, [form.title for form in forms if form.title in OF_PEERS], counts)
    print(f"asked by {CLIENT}; {ran_on}")


def _print_forms(
    found: dict[tuple[str, str, int], list[tuple[float, float]]],
    titles: list[str],
    counts: list[int],
) -> None:
    def cost(title: str, count: int) -> float:
        return statistics.median(one[1] for one in found["modelflow", title, count])

    rows = [
        [title]
        + [f"{cost(title, n):.1f} ({cost(title, n) / cost(PLAIN.title, n):.2f})" for n in counts]
        for title in titles
    ]
    title = "The server's processor time, us a request (against one row)"
    print_table(title, ["form", *(f"connections: {count}" for count in counts)], rows)


def _print_peers(
    found: dict[tuple[str, str, int], list[tuple[float, float]]],
    titles: list[str],
    counts: list[int],
) -> None:
    rows: list[list[object]] = []
    for title in titles:
        for count in counts:
            ours = found["modelflow", title, count]
            row: list[object] = [title, count, statistics.median(rate for rate, _ in ours)]
            for name in PEERS:
                theirs = found.get((name, title, count))
                if theirs is None:
                    row += ["not measured", ""]
                    continue
                pairs = zip(ours, theirs, strict=True)
                row.append(statistics.median(rate for rate, _ in theirs))
                row.append(statistics.median(a[0] / b[0] for a, b in pairs))
            rows.append(row)
    columns = ["form", "connections", "modelflow"]
    for name in PEERS:
        columns += [name, f"modelflow/{name}"]
    print_table("Requests a second", columns, rows)


if __name__ == "__main__":
    main()
