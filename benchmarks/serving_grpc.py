"""Our server of gRPC against grpcio's: calls a second, and processor time a call.

python benchmarks/serving_grpc.py [--quick]

h2load (Debian: nghttp2-client) sends ``ModelInfer`` to a graph that takes the mean of a row. Both
servers run side by side and are measured in alternating rounds. Compare figures only within one
run. The client shares the machine. h2load ignores the status of gRPC. Before, grpcio therefore
checks an answer of every server. Each connection makes at most 3500 calls, because our server
closes a connection at 3800.
"""

import argparse
import contextlib
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np
from child import started
from machine import machine
from measure import print_table

from modelflow.wire.proto import OPEN_INFERENCE

HERE = Path(__file__).resolve().parent
METHOD = "/inference.GRPCInferenceService/ModelInfer"
KINDS = ("native", "grpcio")
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Case:
    """A load: floats of a row, connections, calls at once on each connection, calls a round."""

    floats: int
    connections: int
    streams: int
    calls: int

    @property
    def title(self) -> str:
        """The title in the table."""
        size = "small" if self.floats < 100 else f"{self.floats * 4 // 1000} kB"
        return f"{size} {self.connections}x{self.streams}"


CASES = (
    Case(4, 1, 1, 1000),
    Case(4, 1, 8, 2000),
    Case(4, 1, 64, 3000),
    Case(4, 8, 8, 6000),
    Case(150_528, 8, 1, 400),
)


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    pid: int
    address: str

    def cpu(self) -> float:
        """Returns the processor seconds that the server has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK


def message(floats: int) -> bytes:
    """Returns a request for the mean of 0, 1, ... 255, 0, ... ."""
    row = np.arange(floats, dtype=np.float32) % 256
    found = OPEN_INFERENCE["inference.ModelInferRequest"](model_name="mean")
    found.inputs.add(name="rows", datatype="FP32", shape=[1, floats])
    found.raw_input_contents.append(row.tobytes())
    return found.SerializeToString()


@contextlib.contextmanager
def running(kind: str) -> Iterator[Served]:
    """A server of this kind, ready, for the time of a block."""
    ports = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports.append(str(free.getsockname()[1]))
    program = HERE / "serving_peers" / "modelflow_server.py"
    with started([sys.executable, str(program), *ports, kind]) as process:
        address = f"127.0.0.1:{ports[1]}"
        with grpc.insecure_channel(address) as channel:
            data = channel.unary_unary(METHOD)(message(4), wait_for_ready=True, timeout=60)
        answer = OPEN_INFERENCE["inference.ModelInferResponse"].FromString(data)
        kind_of = {"FP32": np.float32, "FP64": np.float64}[answer.outputs[0].datatype]
        found = np.frombuffer(answer.raw_output_contents[0], kind_of).tolist()
        if found != [1.5]:
            wrong = f"{kind}: got the mean {found}; expected [1.5]"
            raise RuntimeError(wrong)
        yield Served(process.pid, address)


def ask(server: Served, case: Case, calls: int, body: Path) -> tuple[float, float]:
    """Returns calls a second, and microseconds of the server's processor time a call."""
    command = ["h2load", "-n", str(calls), "-c", str(case.connections), "-m", str(case.streams)]
    command += ["-t", "1", "-w", "24", "-W", "24", "-d", str(body), "-H", "te: trailers"]
    command += ["-H", "content-type: application/grpc", f"http://{server.address}{METHOD}"]
    began, cpu = time.perf_counter(), server.cpu()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, cpu = time.perf_counter() - began, server.cpu() - cpu
    succeeded = int(re.search(r"(\d+) succeeded", done.stdout)[1])
    if succeeded != calls:
        message = f"{case.title}: {succeeded} of {calls} calls were answered:\n{done.stdout}"
        raise RuntimeError(message)
    return calls / seconds, cpu / calls * 1e6


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    is_quick = parser.parse_args().quick
    if shutil.which("h2load") is None:
        parser.error("h2load is not installed; it comes with nghttp2 (Debian: nghttp2-client)")
    rounds = 1 if is_quick else 5
    rows = []
    with contextlib.ExitStack() as stack:
        ran_on = stack.enter_context(machine())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {kind: stack.enter_context(running(kind)) for kind in KINDS}
        for case in CASES:
            data, body = message(case.floats), folder / "body"
            body.write_bytes(b"\0" + len(data).to_bytes(4, "big") + data)
            calls = case.connections * 8 if is_quick else case.calls
            found = {kind: [] for kind in KINDS}
            for _ in range(rounds):
                for kind, server in servers.items():
                    found[kind].append(ask(server, case, calls, body))
            for kind, each in found.items():
                rate, cpu = map(statistics.median, zip(*each, strict=True))
                rows.append((f"{case.title}, {kind}", f"{rate:.0f}", f"{cpu:.0f}"))
    print_table("ModelInfer", ("connections x calls at once", "calls/s", "us a call"), rows)
    print(ran_on)


if __name__ == "__main__":
    main()
