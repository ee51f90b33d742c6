"""Measures the three services under load, with concurrent clients that check every answer.

python make_model.py && python benchmark.py [--clients 8] [--requests 200] [--rounds 3]
"""

import argparse
import contextlib
import http.client
import json
import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import cv2
from sklearn.datasets import load_sample_images

HERE = Path(__file__).resolve().parent
SERVICES = ("baseline", "with_model", "with_flow")

# Starts a program that the kernel ends together with this process, even after a kill.
LAUNCH = """import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):  # else it has ended before it was asked for
    os.execv(sys.executable, [sys.executable, sys.argv[2]])"""


class Service:
    """A service in a separate process, on a free port of 127.0.0.1."""

    def __init__(self, name: str, model: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(os.getpid()), str(HERE / f"{name}.py")],
            env={
                **os.environ,
                "PORT": str(self.port),
                "MODEL": str(model.resolve()),
                "TF_CPP_MIN_LOG_LEVEL": "3",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> "Service":
        # The log reports when the service runs. Reading the log also notices its end at once.
        assert self.process.stderr is not None
        log = []
        try:
            while b"Running on" not in (line := self.process.stderr.readline()):
                log.append(line.decode(errors="replace"))
                if not line:
                    raise RuntimeError("the service did not start:\n" + "".join(log))
        except BaseException:
            self.end()
            raise
        self._drain = threading.Thread(target=self.process.stderr.read)
        self._drain.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.end()
        self._drain.join()

    def processor_time(self) -> float:
        """Returns the processor time of the service in seconds (on Linux; otherwise NaN)."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text()
        except FileNotFoundError:
            return math.nan
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> dict:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", path)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def classify(self, connection: http.client.HTTPConnection, jpeg: bytes) -> dict:
        connection.request("POST", "/classify", jpeg)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {body[:200]!r}")
        return json.loads(body)

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)


def photographs() -> list[bytes]:
    """Returns two real photographs and parts of them, as JPEGs."""
    return [
        cv2.imencode(".jpg", part[:, :, ::-1])[1].tobytes()
        for photo in load_sample_images().images
        for part in (photo, photo[:300, :400], photo[100:, 200:])
    ]


def load(service: Service, jpegs: list[bytes], expected: list[dict], options) -> dict:
    """Sends requests from concurrent clients, and returns requests/s and times in milliseconds."""
    times: list[float] = []
    wrong: list[object] = []

    def client(number: int) -> None:
        connection = service.connection()
        for i in range(options.requests // options.clients):
            place = (number + i) % len(jpegs)
            start = time.perf_counter()
            try:
                answer = service.classify(connection, jpegs[place])
            except (OSError, RuntimeError) as error:
                wrong.append(error)
                return
            times.append((time.perf_counter() - start) * 1e3)
            if not same(answer, expected[place]):
                wrong.append((answer, expected[place]))
        connection.close()

    clients = [threading.Thread(target=client, args=(n,)) for n in range(options.clients)]
    used, start = service.processor_time(), time.perf_counter()
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    seconds, used = time.perf_counter() - start, service.processor_time() - used
    if wrong:
        raise RuntimeError(f"{len(wrong)} wrong answers, the first: {wrong[0]}")
    times.sort()
    return {
        "rate": len(times) / seconds,
        "cpu": used / len(times) * 1e3,
        "p50": statistics.median(times),
        "p99": times[min(len(times) - 1, int(len(times) * 0.99))],
        "batch": service.get("/stats")["mean_batch_size"],
    }


def same(one: dict, other: dict) -> bool:
    return one["index"] == other["index"] and abs(one["score"] - other["score"]) < 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=200, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", type=Path, default=HERE / "model")
    options = parser.parse_args()
    jpegs, expected = photographs(), []
    found: dict[str, list[dict]] = {name: [] for name in SERVICES}
    for number in range(options.rounds):
        for name in SERVICES:  # alternating: A B C A B C
            with Service(name, options.model) as service:
                connection = service.connection()
                answers = [service.classify(connection, jpeg) for jpeg in jpegs]  # also warms up
                connection.close()
                expected = expected or answers
                if not all(map(same, answers, expected)):
                    raise RuntimeError(f"{name} answers otherwise: {answers} and not {expected}")
                found[name].append(load(service, jpegs, expected, options))
            one = found[name][-1]
            told = f"{one['rate']:.1f}/s, {one['cpu']:.1f} ms of processor time a request"
            print(f"round {number + 1}: {name} {told}", file=sys.stderr)
    print(f"{options.clients} clients, {options.requests} requests, medians of {options.rounds}")
    print(
        f"{'service':12} {'req/s':>8} {'p50 ms':>8} {'p99 ms':>8} {'batch':>6} "
        f"{'CPU ms':>7} {'ratio':>6} {'of CPU':>6}"
    )
    base, base_cpu = (
        statistics.median(run[key] for run in found["baseline"]) for key in ("rate", "cpu")
    )
    for name, runs in found.items():
        rate, p50, p99, batch, cpu = (
            statistics.median(run[key] for run in runs)
            for key in ("rate", "p50", "p99", "batch", "cpu")
        )
        print(
            f"{name:12} {rate:8.1f} {p50:8.1f} {p99:8.1f} {batch:6.2f} {cpu:7.1f} "
            f"{rate / base:6.2f} {cpu / base_cpu:6.2f}"
        )


if __name__ == "__main__":
    main()
