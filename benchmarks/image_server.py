"""A JPEG over HTTP to the best class (P11), by `modelflow serve`, a server by hand, and FastAPI.

python benchmarks/image_server.py [--model tiny,mobilenet] [--peers-python PATH] [--quick]

The body of a request is a photograph of 640x480. Each server decodes it, resizes it to 224x224,
subtracts the mean, runs an ONNX model, and answers with the best class. `modelflow serve` and
FastAPI have their defaults. The server by hand (`serving_peers/image_by_hand_server.py`) is the
bound on 2 processors: two decode threads, up to 32 images that are ready form a batch, and nothing
is checked. FastAPI runs each request in a thread. The servers run one after the other, over several
rounds. Servers and client share the machine. The client is wrk if it is installed, else
`http_client.py`.

The peers need packages: fastapi uvicorn uvloop orjson simplejpeg onnxruntime opencv-python-headless
A peer that is absent is "not measured". In another interpreter, install the versions of OpenCV,
simplejpeg and ONNX Runtime that modelflow has here. Otherwise the ratios compare these versions.
"""

import argparse
import functools
import socket
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import cv2
from child import started
from image_models import write_mobilenet, write_tiny
from machine import cpu_seconds, machine
from measure import print_table
from serving import CLIENT, HERE, asked, is_there, wait_for_answer
from sklearn.datasets import load_sample_image

MODELS = {"tiny": write_tiny, "mobilenet": write_mobilenet}
CONNECTIONS = (1, 8, 64)
OURS = "modelflow"
HAND = "by hand"
CALLS = "cv2, onnxruntime, simplejpeg"  # imports of serving_peers/image_calls.py
PEERS = {
    HAND: ("image_by_hand_server.py", f"uvloop, orjson, {CALLS}"),
    "FastAPI": ("image_fastapi_server.py", f"fastapi, uvicorn, {CALLS}"),
}
GRAPH = """
[driver]
dir = ["units"]

[graph]
graphconf = '''digraph classify {
    image  [type=input]
    decode [flowunit=image_decoder]
    resize [flowunit=resize, image_width=224, image_height=224]
    mean   [flowunit=mean, mean="123.68,116.78,103.94"]
    model  [flowunit=model]
    top    [flowunit=top_k, k=1]
    best   [type=output]
    image -> decode -> resize -> mean -> model -> top -> best
}'''
"""


@dataclass(frozen=True)
class Figures:
    """Of one server at one number of connections: requests/s, latencies and CPU in microseconds."""

    rate: float
    p50: float
    p99: float
    cpu: float


def write_project(folder: Path, model: str) -> None:
    """Writes the model, its unit file, the graph, and the request to each kind of server."""
    units = folder / "units" / "model"
    units.mkdir(parents=True)
    MODELS[model](units / "model.onnx")
    command = [sys.executable, "-m", "modelflow", "model", str(units / "model.onnx")]
    command += ["--toml", str(units / "model.toml"), "--no-timing"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (folder / "classify.toml").write_text(GRAPH)
    photo = cv2.resize(load_sample_image("china.jpg")[:, :, ::-1], (640, 480))
    jpeg = bytes(cv2.imencode(".jpg", photo, [cv2.IMWRITE_JPEG_QUALITY, 95])[1])
    (folder / "photograph.jpg").write_bytes(jpeg)
    for server, path in ((OURS, "/v2/models/classify/generate"), ("peer", "/classify")):
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/jpeg\r\n"
        head += f"Content-Length: {len(jpeg)}\r\n\r\n"
        (folder / f"{server}.request").write_bytes(head.encode() + jpeg)


def command_of(server: str, folder: Path, port: int, python: str) -> list[str]:
    """Returns the command that starts a server."""
    if server == OURS:
        command = [sys.executable, "-m", "modelflow", "serve", str(folder / "classify.toml")]
        return [*command, "--http", f"127.0.0.1:{port}", "--grpc", "off"]
    program = str(HERE / "serving_peers" / PEERS[server][0])
    return [python, program, str(port), str(folder / "units" / "model" / "model.onnx")]


def measure(server: str, folder: Path, python: str, seconds: float) -> dict[int, Figures]:
    """Starts a server, and returns the figures for each number of connections."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    request = folder / f"{OURS if server == OURS else 'peer'}.request"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    found = {}
    with started(command_of(server, folder, port, python), cwd=folder, **quiet) as process:
        wait_for_answer(port, request.read_bytes(), process)
        asked(port, request, 1, seconds / 2)  # the first requests cost more
        for connections in CONNECTIONS:
            before = cpu_seconds(process.pid)
            seen = asked(port, request, connections, seconds)
            cpu = (cpu_seconds(process.pid) - before) * 1e6 / seen["answers"]
            found[connections] = Figures(seen["rate"], seen["p50_us"], seen["p99_us"], cpu)
    return found


def compare(model: str, servers: list[str], given: argparse.Namespace) -> list[list[object]]:
    """Runs the servers in alternating rounds; returns a row for each server and load."""
    seen: dict[str, list[dict[int, Figures]]] = {server: [] for server in servers}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder, model)
        for _ in range(given.rounds):
            for server in servers:
                seen[server].append(measure(server, folder, given.peers_python, given.seconds))
    rows: list[list[object]] = []
    for connections in CONNECTIONS:
        for server in [OURS, *PEERS]:
            if server not in servers:
                rows.append([server, connections, *["not measured"] * 4, "", "", ""])
                continue
            of = functools.partial(_median, [one[connections] for one in seen[server]])
            row = [server, connections, of("rate"), of("cpu"), of("p50"), of("p99")]
            ratios = [""] * 3
            if server != OURS:
                # Each round's own ratio: rounds differ by more than servers do.
                pairs = [
                    (ours[connections], theirs[connections])
                    for ours, theirs in zip(seen[OURS], seen[server], strict=True)
                ]
                ratios = [
                    statistics.median(getattr(a, name) / getattr(b, name) for a, b in pairs)
                    for name in ("rate", "cpu", "p99")
                ]
            rows.append([*row, *ratios])
    return rows


def _median(found: list[Figures], name: str) -> float:
    return statistics.median(getattr(one, name) for one in found)


def main() -> None:
    """Prints a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=",".join(MODELS))
    parser.add_argument("--peers-python", default=sys.executable, help="where they are installed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.seconds = 1, 0.2
    servers = [OURS, *(peer for peer in PEERS if is_there(given.peers_python, PEERS[peer][1]))]
    with machine() as ran_on:
        for model in given.model.split(","):
            title = f"A JPEG through `serve`, model {model}; ratios are modelflow's to the peer's"
            columns = ["", "connections", "requests/s", "us CPU", "p50, us", "p99, us"]
            columns += ["rate ratio", "CPU ratio", "p99 ratio"]
            print_table(title, columns, compare(model, servers, given))
    print(f"asked by {CLIENT}; {ran_on}")


if __name__ == "__main__":
    main()
