"""Measures a server that logs the payloads of all requests, against a server without the log.

python benchmarks/payload_log_cost.py [--quick]

Both servers run at the same time. They get load alternately (A B B A). The rows have the median of
the ratios of neighbours: the latency (p50) and the rate, each as "with the log / without". The load
is closed: each connection sends its next request after the answer.

- "small" is a JSON row of three numbers to a model that does next to nothing.
- "5 ms" is a request to a model that takes 5 ms for a batch, as a real model does.
- "64 kB" is a JSON row of about 64 kB.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import machine
from measure import print_table
from served import Served

_CLIENT = str(Path(__file__).resolve().parent / "http_client.py")


def request_of(model: str, row: object) -> bytes:
    """Returns the head and the body of a request."""
    body = json.dumps({"instances": [row]}).encode()
    head = f"POST /v1/models/{model}:predict HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def ask(server: Served, file: Path, connections: int, seconds: float) -> tuple[float, float]:
    """Returns the median latency in us and the rate of a load."""
    command = [sys.executable, _CLIENT, str(server.port), str(file)]
    options = ["--connections", str(connections), "--seconds", str(seconds)]
    found = json.loads(subprocess.run([*command, *options], check=True, capture_output=True).stdout)
    if found["errors"] or found["lost"]:
        raise RuntimeError(f"{found['errors']} errors, {found['lost']} lost connections")
    return found["p50_us"], found["rate"]


def compare(
    servers: tuple[Served, Served], file: Path, connections: int, rounds: int, seconds: float
) -> tuple[float, float]:
    """Returns the median ratios of latency and rate, with the log against without."""
    latencies, rates = [], []
    for number in range(rounds):
        order = servers if number % 2 else servers[::-1]
        found = {one: ask(one, file, connections, seconds) for one in order}
        (plain, rate), (logged, logged_rate) = found[servers[0]], found[servers[1]]
        latencies.append(logged / plain)
        rates.append(logged_rate / rate)
    return statistics.median(latencies), statistics.median(rates)


def main() -> None:
    """Reads the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rounds, seconds = (1, 0.3) if quick else (9, 2.0)
    loads = {
        "small": ("mean", [1.0, 2.0, 3.0]),
        "5 ms": ("paced", 0.0),
        "64 kB": ("mean", [0.123456789] * 5000),
    }
    rows = []
    with machine() as ran_on, tempfile.TemporaryDirectory() as folder:
        log, file = Path(folder, "events"), Path(folder, "request")
        graphs = ("mean.toml", "paced.toml")
        with Served(*graphs) as plain, Served(*graphs, "--payload-log", str(log)) as logged:
            for name, (model, row) in loads.items():
                file.write_bytes(request_of(model, row))
                for connections in (1, 8):
                    latency, rate = compare((plain, logged), file, connections, rounds, seconds)
                    rows.append((name, connections, f"{latency:.2f}", f"{rate:.2f}"))
            lost = logged.get("/metrics")[1].partition('events_total{result="lost"}')[2]
    print_table("with the log / without", ("request", "connections", "p50", "rate"), rows)
    print(f"events lost: {lost.split()[0]}")
    print(ran_on)


if __name__ == "__main__":
    main()
