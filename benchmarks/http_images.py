"""JPEGs by HTTP into the graph of `gpu_pipeline.py`, against the same flow without HTTP.

python benchmarks/http_images.py [--device cuda] [--workers 0,4,8] [--connections 64] [--quick]

The body of a request is a JPEG of 640x480, the reply its class. The servers run one after another:
``modelflow serve`` alone, then with worker processes in front of the process with the GPU. Without
HTTP the flow is measured in two ways: by one session, and by `Flow.infer` from as many threads as
there are connections.
"""

import argparse
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from gpu_pipeline import Top1, graph_rate, settings_of, write_project
from jpegs import make_jpeg
from machine import GpuSamples
from measure import Table, clients_rate
from resnet import torch_resnet
from served import Served
from serving_replicas import load

import modelflow

COST = "the server's CPU, ms a request"
COLUMNS = ["", "requests/s", "of one session", "p50, ms", "p99, ms", COST, *GpuSamples.columns]
SERVE = """
[serve.input.input]
datatype = "BYTES"
shape = []
"""


def request_of(jpeg: bytes) -> bytes:
    """Returns the request, head and body."""
    head = "POST /v2/models/graph/generate HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += f"Content-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
    return head.encode() + jpeg


def measure_server(
    server: Served, file: Path, given: argparse.Namespace, seconds: float, samples: GpuSamples
) -> list[object]:
    """Sends requests over all connections; returns the cells of the table from requests/s on."""
    start = time.perf_counter()
    seen = load(server.pid, server.port, file, given.connections, seconds)
    use = samples.between(start, time.perf_counter())
    times = [seen[name] / 1000 for name in ("p50_us", "p99_us", "cpu_us")]
    return [seen["rate"], *times, *use]


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--precision", default="", help="fp16 on cuda, fp32 on cpu")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", default="0,4,8", help="worker processes; 0: serve alone")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    parser.add_argument("--json", action="store_true", help="the table as lines of JSON")
    given = parser.parse_args()
    if given.quick:
        given.seconds, given.workers, given.connections = 0.3, "0", 4
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
                file = folder / "request"
                measure_server(server, file, given, given.seconds / 4, samples)
                rate, *cells = measure_server(server, file, given, given.seconds, samples)
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
    count, rates = given.connections, []
    infer = partial(clients_rate, partial(flow.infer, jpegs[0]), count, count)
    with flow:
        infer(given.seconds / 4)
        for name, program in {
            "one session, no HTTP": partial(graph_rate, flow, jpegs),
            f"Flow.infer from {count} threads": infer,
        }.items():
            start = time.perf_counter()
            rates.append(program(given.seconds))
            use = samples.between(start, time.perf_counter())
            table.add(name, rates[-1], rates[-1] / rates[0], "", "", "", *use)
    return rates[0]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()
