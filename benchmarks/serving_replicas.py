"""S3: a model in plain Python, in a single and in several processes, against gunicorn with Flask.

python benchmarks/serving_replicas.py [--processes 2] [--peers-python PATH] [--quick]

The model holds the interpreter's lock for some milliseconds a text. The servers run one after
another, over several rounds. Compare figures only within one run. The servers share the machine
with the client.

Install the other servers separately: pip install gunicorn flask
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from child import started
from machine import cpu_seconds
from measure import print_table

HERE = Path(__file__).resolve().parent
PEERS = HERE / "serving_peers"
CONNECTIONS = (1, 8, 32)


def commands(port: int, processes: int, peers_python: str) -> dict[str, list[str]]:
    """Returns the commands of the servers, by the name in the table."""
    address = f"127.0.0.1:{port}"
    modelflow = [sys.executable, "-m", "modelflow", "serve", "words.toml", "--http", address]
    modelflow += ["--grpc", "off"]
    gunicorn = [peers_python, "-m", "gunicorn", "words_flask:app", "-b", address]
    gunicorn += ["-k", "gthread", "--threads", "8", "--keep-alive", "60", "-w", str(processes)]
    return {
        "modelflow, 1": modelflow,
        f"modelflow, {processes}": [*modelflow, "--replicas", str(processes)],
        f"gunicorn + Flask, {processes}": gunicorn,
    }


def request() -> bytes:
    """Returns the request, head and body."""
    text = " ".join(f"word{number}" for number in range(400))
    body = json.dumps({"instances": [text]}).encode()
    head = "POST /v1/models/words:predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def wait(port: int, asked: bytes) -> None:
    """Waits for the first answer of the server."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), 30) as client:
                client.sendall(asked)
                if client.recv(1 << 16)[9:12] == b"200":
                    return
        except OSError:
            pass  # not yet
        time.sleep(0.2)
    message = f"nobody answers at port {port}"
    raise RuntimeError(message)


def load(process: int, port: int, file: Path, connections: int, seconds: float) -> dict[str, float]:
    """Asks for so long; returns rate, percentiles, and processor time a request."""
    before = cpu_seconds(process)
    client = [sys.executable, str(HERE / "http_client.py"), str(port), str(file)]
    client += ["--connections", str(connections), "--seconds", str(seconds)]
    seen = json.loads(subprocess.run(client, check=True, capture_output=True).stdout)
    if set(seen["statuses"]) != {"200"} or seen["lost"]:
        message = f"answers {seen['statuses']}, connections lost: {seen['lost']}"
        raise RuntimeError(message)
    # Of all answers: the last ones come after the time in which the rate was counted.
    answers = seen["statuses"]["200"]
    return {**seen, "cpu_us": (cpu_seconds(process) - before) / answers * 1e6}


def measure(command: list[str], port: int, file: Path, seconds: float) -> list[dict[str, float]]:
    """Starts a server, and asks over each number of connections."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(HERE.parent), str(PEERS)))}
    with started(command, cwd=PEERS, env=environment, **quiet) as server:
        wait(port, file.read_bytes())
        load(server.pid, port, file, 8, seconds / 2)  # warm
        return [load(server.pid, port, file, count, seconds) for count in CONNECTIONS]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--peers-python", default=sys.executable, help="where they are installed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    rounds, seconds = (1, 0.3) if given.quick else (given.rounds, given.seconds)
    looked = subprocess.run(
        [given.peers_python, "-c", "import gunicorn, flask"], capture_output=True, check=False
    )
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "request"
        file.write_bytes(request())
        for _ in range(rounds):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            for name, command in commands(port, given.processes, given.peers_python).items():
                if "gunicorn" in name and looked.returncode:
                    print(f"gunicorn and flask: not installed for {given.peers_python}")
                    continue
                seen = measure(command, port, file, seconds)
                for connections, one in zip(CONNECTIONS, seen, strict=True):
                    found.setdefault((name, connections), []).append(one)
    print_table(
        "A model in plain Python",
        ["", "connections", "requests/s", "us CPU", "p50, us", "p99, us", "to the first"],
        _rows(found),
    )


def _rows(found: dict[tuple[str, int], list[dict[str, float]]]) -> list[list[object]]:
    names = ("rate", "cpu_us", "p50_us", "p99_us")
    middle = {
        key: [statistics.median(one[name] for one in seen) for name in names]
        for key, seen in found.items()
    }
    first = {count: middle["modelflow, 1", count][0] for count in CONNECTIONS}
    return [
        [name, count, *middle[name, count], middle[name, count][0] / first[count]]
        for name, count in sorted(middle, key=lambda key: key[1])
    ]


if __name__ == "__main__":
    main()
