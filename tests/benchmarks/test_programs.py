import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


# The rows that the documentation and the bounds rely on. They are light because every run of the
# tests runs them.
LIGHT = {
    "overhead": (
        "forward, batch 1",
        "forward, batch 16",
        "identity, batch 8",
        "identities, batch 16",
        "Flow.infer, us, median, identity",
        "sessions/s",
    ),
    "seeing_cost": (
        "forward, batch 1, stream",
        "forward, batch 8, requests",
        "a scrape of /metrics",
        "a snapshot for the page",
        "ran on",
    ),
    "chains": ("400x300, one session", "400x300, a session an item", "3 nodes that wait"),
    "import_time": ("import numpy", "import modelflow", "% of a processor"),
    "sessions": ("1000", "8", "50"),
    "bursts": ("one by one, 4 threads", "batched, 4 threads", "quick, 4 threads"),
    "kinds": ("condition, merged", "most buffers by which", "KiB an idle session"),
    "process_workers": ("pure Python, 4 KiB", "NumPy, 4 MiB"),
    "interpreters": ("numbers a second, workers=thread", "us a hop, asked for alone"),
    "native_unit": ("1 ", "2 ", "C++: 2 threads"),
    "real_requests": ("one row", "two rows"),
    "image_server --model tiny": ("modelflow", "by hand", "FastAPI"),
    "detect_classify": ("40 pictures, 173 objects, 0 differences", "graph, one", "2 processes"),
    "videos": ("whole frames, then resize", "image_width, every=5", "mjpeg, 480 x 272"),
    "request_cost": ("sockets", "HTTP and protocol", "runtime", "decode", "engine", "together"),
    "serving_grpc": ("small 1x1, native", "small 8x8, grpcio", "602 kB 8x1, native", "ran on"),
}
# Engines, servers and their clients: `make benchmarks-check`.
DEAR = {
    "image_pipeline": ("400x300",),
    "model_infer --engine onnx": ("Model.infer, 32 threads", "naive, 32 threads", "blocks"),
    "engines": ("tensorflow fp32", "onnx INT8", "openvino auto"),
    "gpu_pipeline --device cpu": (
        "fp32, batch 2, CPU preprocessing: by hand",
        "fp32, batch 2, CPU preprocessing: infer",
    ),
    "http_images --device cpu": ("one session, no HTTP", "Flow.infer", "serve "),
    "split": ("as they come", "split_size=8"),
    "reload": ("3 ", "failed requests: 0 of", "memory at the end"),
    "warmup": ("torch, none", "torch, recorded"),
    "affinity": ("beside it, pinned", "cpu_affinity"),
    "connection_spread": ("one socket", "a socket each", "handed over"),
    "serving_replicas": ("modelflow, 1", "modelflow, 2"),
    "payload_log_cost": ("small", "5 ms", "64 kB", "events lost: 0"),
    "cache_cost": ("1  ", "8  ", "hit/call"),
    "serving_workers": ("one process", "workers: 1", "workers: 2"),
    "http_load": ("as it is", "max_requests=8", "wrong answers: 0"),
    "serving --peers=": ("modelflow",),
    "serving_overload": ("capacity", "0.5x", "1x", "3x", "20 ms", "clients that go away", "2 "),
    "serving_life": ("1 ", "64 ", "load  ", "poll  ", "load: ", "poll: ", "ran on"),
}


@pytest.mark.parametrize(
    "program",
    [*LIGHT, *(pytest.param(name, marks=pytest.mark.dear_benchmark) for name in DEAR)],
)
def test_benchmark_runs_and_prints_its_rows(program):
    name, *options = program.split()
    if name == "serving_grpc" and shutil.which("h2load") is None:
        pytest.skip("h2load (Debian: nghttp2-client) is not installed")
    done = programs.run([sys.executable, str(FOLDER / f"{name}.py"), "--quick", *options])
    assert done.returncode == 0, done.stderr
    for row in (LIGHT | DEAR)[program]:
        assert any(line.startswith(row) for line in done.stdout.splitlines()), row


IMPORT = """
import pathlib, runpy, sys
sys.path.insert(0, sys.argv[1])
for program in pathlib.Path(sys.argv[1]).glob("*.py"):
    runpy.run_path(str(program), run_name="imported")
"""


def test_what_the_programs_import_is_there():
    programs.run([sys.executable, "-c", IMPORT, str(FOLDER)], check=True)


def test_what_a_benchmark_starts_ends_when_the_benchmark_is_killed():
    code = (
        "from child import started; import sys\n"
        "with started([sys.executable, '-c', 'import time; time.sleep(3600)']) as process:\n"
        "    print(process.pid, flush=True); process.wait()"
    )
    command = [sys.executable, "-c", code]
    with programs.started(command, cwd=FOLDER, stdout=subprocess.PIPE) as benchmark:
        end = os.pidfd_open(int(benchmark.stdout.readline()))
        benchmark.kill()
        benchmark.wait()
        assert select.select([end], [], [], programs.LIMIT)[0], "a process is left"
    os.close(end)
