"""A served graph against other servers: requests a second, latencies, processor time a request.

python benchmarks/serving.py [--peers mosec,triton,litserve] [--peers-python PATH] [--quick]

The model is the same everywhere: the means of rows, in batches of 32 at most. It runs without a
pause, and with a pause of 5 ms a batch. The servers run one after the other, over several rounds.
Compare figures only within one run. The servers and the client share the machine. The client is
wrk if it is installed (Debian has it), else `http_client.py`.

Install the other servers separately: pip install mosec litserve nvidia-pytriton
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from child import started
from machine import cpu_seconds
from measure import print_table
from serving_peers.mean import BATCH

HERE = Path(__file__).resolve().parent
PEERS = {"mosec": "mosec", "litserve": "litserve", "triton": "pytriton"}  # name -> module
CLIENT = "wrk" if shutil.which("wrk") else "http_client.py"
"""The client. `http_client.py` limits some servers at 64 connections, since it costs more."""


@dataclass(frozen=True)
class Case:
    """A request, and the numbers of connections."""

    title: str
    floats: int
    is_binary: bool
    connections: tuple[int, ...]
    pause: float = 0.0


CASES = (
    Case("small JSON", 4, False, (1, 8, 64)),
    Case("150 kB binary", 37_500, True, (8,)),
    Case("600 kB binary", 150_528, True, (8,)),
    Case("600 kB JSON", 150_528, False, (8,)),
    Case("small JSON, 5 ms a batch of 32", 4, False, (1, 64), pause=0.005),
)


def request(server: str, case: Case) -> bytes:
    """Returns a request in the server's protocol, head and body."""
    row = (np.arange(case.floats, dtype=np.float32) % 256) / 255
    more = ""
    if server == "litserve":
        path, kind, body = "/predict", "application/json", _json(row)
    elif server == "mosec":
        path, kind = "/inference", "application/octet-stream"
        body = row.tobytes() if case.is_binary else _json(row)
    elif server == "modelflow" and not case.is_binary:
        path, kind, body = "/v1/models/mean:predict", "application/json", _json(row)
    else:
        path, kind = "/v2/models/mean/infer", "application/octet-stream"
        body, more = _open_inference(row, case.is_binary)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _json(row: np.ndarray) -> bytes:
    return json.dumps({"instances": [[round(float(value), 4) for value in row]]}).encode()


def _open_inference(row: np.ndarray, is_binary: bool) -> tuple[bytes, str]:
    rows = {"name": "rows", "datatype": "FP32", "shape": [1, len(row)]}
    if not is_binary:
        data = [round(float(value), 4) for value in row]
        return json.dumps({"inputs": [{**rows, "data": data}]}).encode(), ""
    rows["parameters"] = {"binary_data_size": row.nbytes}
    head = json.dumps({"inputs": [rows], "parameters": {"binary_data_output": True}}).encode()
    return head + row.tobytes(), f"Inference-Header-Content-Length: {len(head)}\r\n"


class Running:
    """A server, ready, for the time of a block."""

    def __init__(self, server: str, python: str, case: Case, connections: int = 1) -> None:
        """Takes the name, the Python and the case, and the number of connections to come.

        The server mosec gets its best batch for so many, because a batch that never fills waits.
        """
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._request = request(server, case)
        more = {"MEAN_SECONDS": str(case.pause), "PYTHONWARNINGS": "ignore"}
        more["MOSEC_BATCH"] = str(min(connections, BATCH))
        self._server = started(
            [python, str(HERE / "serving_peers" / f"{server}_server.py"), str(self.port)],
            env={**os.environ, **more},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> "Running":
        """Starts the server, and waits for its first answer."""
        self._process = self._server.__enter__()
        try:
            wait_for_answer(self.port, self._request, self._process)
        except BaseException:
            self._server.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        """Ends the server."""
        self._server.__exit__(*raised)

    def load(self, request_file: Path, connections: int, seconds: float) -> dict[str, float]:
        """Asks for so long; returns rate, percentiles and processor time a request."""
        before = self._cpu()
        seen = asked(self.port, request_file, connections, seconds)
        cpu = (self._cpu() - before) * 1e6 / seen["answers"]
        return {"rate": seen["rate"], "p50": seen["p50_us"], "p99": seen["p99_us"], "cpu": cpu}

    def _cpu(self) -> float:
        return cpu_seconds(self._process.pid)


def wait_for_answer(port: int, message: bytes, process: subprocess.Popen | None = None) -> None:
    """Waits until a server answers a request, given head and body, with the status 200.

    Raises:
        RuntimeError: the process has ended, or a minute has passed.
    """
    end, answer = time.monotonic() + 60, b""
    while answer[9:12] != b"200":
        if process and process.poll() is not None:
            command = " ".join(process.args[-4:])
            raise RuntimeError(f"{command}: has ended with {process.returncode}")
        if time.monotonic() > end:
            last = answer.decode("latin-1").splitlines()[-1:]
            raise RuntimeError(f"the server does not answer: {' '.join(last)}")
        try:
            with socket.create_connection(("127.0.0.1", port), 30) as client:
                client.sendall(message)
                answer = client.recv(1 << 16)
        except OSError as error:
            answer = str(error).encode()
        if answer[9:12] != b"200":
            time.sleep(0.2)


def asked(port: int, request_file: Path, connections: int, seconds: float) -> dict[str, float]:
    """Runs `CLIENT` for ``seconds``, and returns the client's measurements.

    Raises:
        RuntimeError: a request was refused, or a connection lost.
    """
    if CLIENT == "wrk":
        command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s"]
        command += ["--timeout", "30s", "-s"]
        command += [str(HERE / "wrk_request.lua"), f"http://127.0.0.1:{port}"]
        command += ["--", str(request_file)]
    else:
        command = [sys.executable, str(HERE / CLIENT), str(port), str(request_file)]
        command += ["--connections", str(connections), "--seconds", str(seconds)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seen: dict[str, float] = json.loads(told.splitlines()[-1])
    if not seen["answers"] or seen["errors"] or seen["lost"]:
        message = f"{seen['answers']} answers, {seen['errors']} of them errors; "
        raise RuntimeError(message + f"connections lost: {seen['lost']}")
    return seen


def compare(
    servers: Sequence[tuple[str, str]], case: Case, rounds: int, seconds: float
) -> list[list[object]]:
    """Runs the servers in alternating rounds; returns a row for each server and load."""
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "request"
        for _ in range(rounds):
            for server, python in servers:
                if server == "litserve" and case.is_binary:
                    continue
                file.write_bytes(request(server, case))
                for connections in case.connections:
                    with Running(server, python, case, connections) as running:
                        running.load(file, connections, seconds / 2)  # warm
                        figures = running.load(file, connections, seconds)
                        found.setdefault((server, connections), []).append(figures)
    rows: list[list[object]] = []
    for (server, connections), rounds_seen in sorted(found.items(), key=lambda one: one[0][1]):
        middle = {
            name: statistics.median(one[name] for one in rounds_seen) for name in rounds_seen[0]
        }
        rows.append(
            [server, connections, *(middle[name] for name in ("rate", "cpu", "p50", "p99"))]
        )
    return rows


def _with_ratios(rows: list[list[object]]) -> list[list[object]]:
    ours = {row[1]: row[2] for row in rows if row[0] == "modelflow"}
    return [[*row, ours[row[1]] / row[2]] for row in rows]


def is_there(python: str, module: str) -> bool:
    """Tells whether an interpreter can import a module, or several between commas."""
    command = [python, "-c", f"import {module}"]
    try:
        looked = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        raise SystemExit(f"--peers-python: {error}") from error
    return looked.returncode == 0


def _works(server: str, python: str) -> bool:
    """Tells whether a server answers a request; says why not."""
    try:
        with Running(server, python, CASES[0]):
            return True
    except RuntimeError as error:
        print(f"{server} is left out: {error}")
        return False


def main() -> None:
    """Prints a table a case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default=",".join(PEERS), help="which others; '' for none")
    parser.add_argument("--peers-python", default=sys.executable, help="where they are installed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--case", default="", help="only the cases whose titles begin so")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    servers = [("modelflow", sys.executable)]
    for peer in filter(None, given.peers.split(",")):
        if is_there(given.peers_python, PEERS[peer]):
            servers.append((peer, given.peers_python))
        else:
            print(f"{peer}: not installed for {given.peers_python}")
    servers = [one for one in servers if _works(*one)]
    print(f"asked by {CLIENT}")
    rounds, seconds = (1, 0.2) if given.quick else (given.rounds, given.seconds)
    for case in CASES:
        if case.title.startswith(given.case):
            rows = _with_ratios(compare(servers, case, rounds, seconds))
            columns = [
                "",
                "connections",
                "requests/s",
                "us CPU",
                "p50, us",
                "p99, us",
                "modelflow/it",
            ]
            print_table(case.title, columns, rows)


if __name__ == "__main__":
    main()
