"""HTTP through Ray: `modelflow ray serve` against the same server alone, and against Ray Serve.

python benchmarks/ray_serving.py [--peers-python PATH] [--connections 32] [--quick]

The request is a small JSON document. Each server has one replica. The servers run one after
another, over several rounds, and share the machine with the client. Compare figures only within
one run. Ray Serve is measured twice: with its proxy in Python and with its HAProxy (which needs the
program haproxy). Install it separately: pip install 'ray[serve]' numpy
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from child import started
from measure import print_table
from serving_replicas import load, wait

HERE = Path(__file__).resolve().parent
PEERS = HERE / "serving_peers"
ALONE, OURS = "modelflow serve", "modelflow ray serve"
PROXY, HAPROXY = "Ray Serve, proxy in Python", "Ray Serve, HAProxy"
# Seconds: Ray Serve starts its HAProxy again after the first answers.
_SETTLES = 15.0
_SEARCH = os.pathsep.join(map(str, (HERE.parent, PEERS, HERE / "serving_graphs")))
HAPROXY_SETTINGS = {"RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1"}


def commands(port: int, peers_python: str) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Returns command and environment of each server, by the name in the table."""
    graph = str(HERE / "serving_graphs" / "mean.toml")
    alone = [sys.executable, "-m", "modelflow", "serve", graph, "--http", f"127.0.0.1:{port}"]
    found = {
        ALONE: ([*alone, "--grpc", "off"], {}),
        OURS: ([sys.executable, str(PEERS / "ray_modelflow_server.py"), str(port)], {}),
    }
    looked = subprocess.run(
        [peers_python, "-c", "from ray import serve"], capture_output=True, check=False
    )
    if looked.returncode:
        print(f"ray[serve]: not installed for {peers_python}")
        return found
    theirs = [peers_python, str(PEERS / "ray_serve_server.py"), str(port)]
    found[PROXY] = (theirs, {})
    if shutil.which("haproxy") is None:
        print("haproxy: not installed")
    else:
        found[HAPROXY] = (theirs, HAPROXY_SETTINGS)
    return found


def request(path: str) -> bytes:
    """Returns the request, head and body."""
    body = json.dumps({"instances": [[1.0, 2.0, 3.0, 4.0]]}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers-python", default=sys.executable, help="where Ray Serve is")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    rounds, seconds = (1, 0.5) if given.quick else (given.rounds, given.seconds)
    found: dict[str, list[dict[str, float]]] = {}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "request"
        file.write_bytes(request("/v1/models/mean:predict"))
        for _ in range(rounds):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            for name, (command, settings) in commands(port, given.peers_python).items():
                environment = {**os.environ, **settings, "PYTHONPATH": _SEARCH}
                with started(command, cwd=folder, env=environment, **quiet) as server:
                    wait(port, file.read_bytes())
                    time.sleep(_SETTLES)
                    load(server.pid, port, file, given.connections, seconds / 2)  # warm
                    seen = load(server.pid, port, file, given.connections, seconds)
                    found.setdefault(name, []).append(seen)
    names = ("rate", "cpu_us", "p50_us", "p99_us")
    middle = {
        server: [statistics.median(one[name] for one in seen) for name in names]
        for server, seen in found.items()
    }
    print_table(
        f"HTTP through Ray, {given.connections} connections, small JSON",
        ["", "requests/s", "us CPU of all processes", "p50, us", "p99, us", "to the first"],
        [[name, *row, row[0] / middle[ALONE][0]] for name, row in middle.items()],
    )


if __name__ == "__main__":
    main()
