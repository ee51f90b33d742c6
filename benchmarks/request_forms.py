"""Measures the cost of a request by its form: rows, protocol, id, deadline, log, keys.

python benchmarks/request_forms.py [--connections 1,8,64] [--rounds 3] [--seconds 2] [--quick]

One model, the first of four floats, runs in a server of its own. Each line is a form of a request.
Its cost is the server's processor time in microseconds. The ratio is to the cheapest form in the
same run and with as many connections.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from child import started
from machine import cpu_seconds
from measure import print_table
from serving import HERE, asked, wait_for_answer

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
        log: The file of the server's access log; None if it has no access log.
    """

    title: str
    rows: int = 1
    protocol: str = "v1"
    headers: tuple[str, ...] = ()
    log: str | None = None


ID, DEADLINE = ("X-Request-Id: a1b2c3",), ("Inference-Timeout-Ms: 5000",)
LOG = os.devnull
FORMS = (
    Form("one row"),
    Form("two rows", 2),
    Form("eight rows", 8),
    Form("one row, id", headers=ID),
    Form("one row, deadline", headers=DEADLINE),
    Form("one row, access log", log=LOG),
    Form("eight rows, id, deadline, access log", 8, headers=ID + DEADLINE, log=LOG),
    Form("one row, Open Inference JSON", protocol="json"),
    Form("eight rows, Open Inference JSON", 8, "json"),
    Form("one row, Open Inference binary", protocol="binary"),
    Form("eight rows, Open Inference binary", 8, "binary"),
)


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


def cost_of(form: Form, connections: int, seconds: float) -> float:
    """Returns the microseconds of the server's processor time that a request of a form costs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = str(HERE / "serving_peers" / "first_server.py")
    more = {} if form.log is None else {"FIRST_LOG": form.log}
    with (
        tempfile.TemporaryDirectory() as folder,
        started(
            [sys.executable, server, str(port)],
            env={**os.environ, **more, "PYTHONWARNINGS": "ignore"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        message = Path(folder, "request")
        message.write_bytes(message_of(form))
        wait_for_answer(port, message.read_bytes())
        asked(port, message, connections, min(seconds, 0.5))  # the first requests cost more
        before = cpu_seconds(process.pid)
        answers = asked(port, message, connections, seconds)["answers"]
        return (cpu_seconds(process.pid) - before) * 1e6 / answers


def main() -> None:
    """Measures every form and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--connections", default="1,8,64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--form", default="", help="only those whose titles begin so")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    options = parser.parse_args()
    forms = [form for form in FORMS if form.title.startswith(options.form)]
    rounds, seconds = (1, 0.2) if options.quick else (options.rounds, options.seconds)
    counts = [int(count) for count in options.connections.split(",")]
    if options.quick:
        forms, counts = forms[:2], counts[:1]
    found = {
        (form.title, count): statistics.median(cost_of(form, count, seconds) for _ in range(rounds))
        for form in forms
        for count in counts
    }
    least = {count: min(found[form.title, count] for form in forms) for count in counts}
    rows = [
        [form.title]
        + [
            f"{found[form.title, count]:.1f} ({found[form.title, count] / least[count]:.2f})"
            for count in counts
        ]
        for form in forms
    ]
    title = "the server's processor time, us a request (against the cheapest form)"
    print_table(title, ["form", *(f"{count} connections" for count in counts)], rows)


if __name__ == "__main__":
    main()
