"""JPEGs by HTTP into the graph of `gpu_pipeline.py`, against the same flow without HTTP.

python benchmarks/http_images.py [--device cuda] [--workers 0,4,8] [--connections 64] [--quick]

The body of a request is a JPEG of 640x480, the reply its class. The servers run one after another:
``modelflow serve`` alone, then with worker processes in front of the process with the GPU. Without
HTTP the flow is measured in two ways: by one session, and by `Flow.infer` from as many threads as
there are connections.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from child import started
from gpu_pipeline import Top1, graph_rate, settings_of, write_project
from jpegs import make_jpeg
from machine import GpuSamples, cpu_seconds
from measure import Table, steady_rate
from resnet import torch_resnet
from served import Served

import modelflow

COST = "the server's CPU, ms a request"
COLUMNS = ["", "requests/s", "of one session", "p50, ms", "p99, ms", COST, *GpuSamples.columns]
SERVE = """
[serve.input.input]
datatype = "BYTES"
shape = []
"""
CLIENT = Path(__file__).resolve().parent / "http_client.py"


def request_of(jpeg: bytes) -> bytes:
    """Returns the request, head and body."""
    head = "POST /v2/models/graph/generate HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += f"Content-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
    return head.encode() + jpeg


def measure_server(
    server: Served, file: Path, given: argparse.Namespace, seconds: float, samples: GpuSamples
) -> list[object]:
    """Sends requests over all connections; returns the cells of the table from requests/s on."""
    clients = min(given.clients, given.connections)
    command = [sys.executable, str(CLIENT), str(server.port), str(file), "--seconds", str(seconds)]
    command += ["--connections", str(given.connections // clients)]
    cpu, start = cpu_seconds(server.pid), time.perf_counter()
    with contextlib.ExitStack() as stack:
        asking = [
            stack.enter_context(started(command, stdout=subprocess.PIPE)) for _ in range(clients)
        ]
        seen = [json.load(process.stdout) for process in asking]
    cpu = cpu_seconds(server.pid) - cpu
    use = samples.between(start, time.perf_counter())
    statuses = sum((Counter(one["statuses"]) for one in seen), Counter())
    lost = sum(one["lost"] for one in seen)
    if set(statuses) != {"200"} or lost:
        message = f"answers {dict(statuses)}, connections lost: {lost}"
        raise RuntimeError(message)
    p50, p99 = (max(one[name] for one in seen) / 1000 for name in ("p50_us", "p99_us"))
    rate = sum(one["rate"] for one in seen)
    return [rate, p50, p99, 1000 * cpu / statuses["200"], *use]


def infer_rate(flow: modelflow.Flow, jpegs: list[bytes], threads: int, seconds: float) -> float:
    """Returns requests a second of threads that call `Flow.infer` again and again."""
    moments: list[list[float]] = [[] for _ in range(threads)]
    until = time.perf_counter() + seconds

    def ask(place: int) -> None:
        while time.perf_counter() < until:
            flow.infer(jpegs[place % len(jpegs)])
            moments[place].append(time.perf_counter())

    asking = [threading.Thread(target=ask, args=(place,)) for place in range(threads)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    return steady_rate(sorted(moment for mine in moments for moment in mine))


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--precision", default="", help="fp16 on cuda, fp32 on cpu")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", default="0,4,8", help="worker processes; 0: serve alone")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--clients", type=int, default=4, help="client processes")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    parser.add_argument("--json", action="store_true", help="the table as lines of JSON")
    given = parser.parse_args()
    if given.quick:
        given.seconds, given.workers, given.connections, given.clients = 1.0, "0", 4, 1
    if given.device == "cpu":
        given.batch = 2
    given.precision = given.precision or ("fp16" if given.device == "cuda" else "fp32")
    sys.exit(measure(given))


def measure(given: argparse.Namespace) -> int:
    """Measures the flow, then each server; returns 1 if a server failed."""
    depth = 101 if given.device == "cuda" else 26
    title = (
        f"A JPEG of 640x480 -> ResNet-{depth} ({given.precision}, batches to {given.batch}, 2 ms) "
        f"-> class, all on {given.device}, {given.connections} connections, "
        f"{len(os.sched_getaffinity(0))} processors"
    )
    table = Table(title, COLUMNS, as_json=given.json)
    sizes = sorted({min(size, given.batch) for size in (1, 8, 16, 32, 64, 128)})
    # There are no more requests than connections: a batch must not wait long for a full one.
    settings = settings_of(
        given.device,
        given.batch,
        given.precision,
        on_gpu=given.device == "cuda",
        timeout_ms=2,
        sizes=",".join(map(str, sizes)),
    )
    jpegs = [make_jpeg(640, 480, seed) for seed in range(8)]
    with tempfile.TemporaryDirectory() as name, GpuSamples() as samples:
        folder = Path(name)
        write_project(folder, Top1(torch_resnet(depth)).eval().to(given.device), given.device)
        with (folder / "graph.toml").open("a") as graph:
            graph.write(SERVE)
        (folder / "request").write_bytes(request_of(jpegs[0]))
        flow = modelflow.Flow(folder / "graph.toml", overrides=settings)
        whole = measure_flow(table, flow, jpegs, given, samples)
        for workers in map(int, given.workers.split(",")):
            way = f"serve --workers {workers}" if workers else "serve"
            command = [str(folder / "graph.toml"), "--workers", str(workers)]
            for key, value in settings.items():
                command += ["--set", f"{key}={_text(value)}"]
            with table.attempt(way), Served(*command, log=sys.stderr) as server:
                measure_server(server, folder / "request", given, given.seconds / 4, samples)
                rate, *cells = measure_server(
                    server, folder / "request", given, given.seconds, samples
                )
                table.add(way, rate, rate / whole, *cells)
    table.close()
    return int(table.has_failed)


def measure_flow(
    table: Table,
    flow: modelflow.Flow,
    jpegs: list[bytes],
    given: argparse.Namespace,
    samples: GpuSamples,
) -> float:
    """Measures the flow without HTTP; returns images a second of one session."""
    with flow:
        infer_rate(flow, jpegs, given.connections, given.seconds / 4)
        whole = 0.0
        for name, program in {
            "one session, no HTTP": lambda: graph_rate(flow, jpegs, given.seconds),
            f"Flow.infer from {given.connections} threads": lambda: infer_rate(
                flow, jpegs, given.connections, given.seconds
            ),
        }.items():
            start = time.perf_counter()
            rate = program()
            whole = whole or rate
            use = samples.between(start, time.perf_counter())
            table.add(name, rate, rate / whole, "", "", "", *use)
    return whole


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()
