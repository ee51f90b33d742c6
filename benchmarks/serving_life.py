"""Measures clients' losses while a server ends, and while its models are replaced.

python benchmarks/serving_life.py [--reloads 200] [--quick]

First a server gets SIGTERM while clients send requests without a pause. Each request must be
answered, or its connection refused. Then the server loads new versions of a model, by the
repository's call and by `--poll`. The table has the failed requests, and the memory, threads and
descriptors of the server.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from child import started
from machine import machine
from measure import print_table
from resnet import write_resnet
from served import GRAPHS, Served

CLIENT = str(Path(__file__).resolve().parent / "http_client.py")
SIDE = 32
CONNECTIONS = 8
Seen = dict[str, object]


@contextmanager
def asking(server: Served, body: bytes, path: str, *more: str) -> Iterator[subprocess.Popen]:
    """Has clients ask for the time of a block; they end by themselves."""
    with tempfile.TemporaryDirectory() as folder:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        file = Path(folder) / "request"
        file.write_bytes(head.encode() + body)
        command = [sys.executable, CLIENT, str(server.port), str(file), *more]
        with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            client.stdout.readline()  # it asks
            yield client


def ended(seconds: float, connections: int) -> list[object]:
    """Ends a server while clients send requests, and returns a row of their results."""
    with Served(str(GRAPHS / "paced.toml")) as server:
        more = ("--connections", str(connections), "--until-refused")
        with asking(server, b'{"instances": [1.0]}', "/v1/models/paced:predict", *more) as client:
            time.sleep(seconds)
            server.terminate()
            began = time.monotonic()
            code = server.wait()
            taken = time.monotonic() - began
            seen = json.loads(client.communicate()[0])
    statuses = " ".join(f"{code}:{count}" for code, count in sorted(seen["statuses"].items()))
    return [connections, statuses, seen["told"], seen["refused"], seen["lost"], code, taken]


class Versions:
    """A model's folder that keeps its two newest versions."""

    def __init__(self, folder: Path) -> None:
        """Writes the first version."""
        self._source = write_resnet("onnx", 26, folder, side=SIDE)
        self.root = folder / "many"
        self.newest = 0
        self.add()

    def add(self) -> None:
        """Adds a version in one step, and removes the version before the last."""
        new = self.root.parent / "new"
        new.mkdir()
        shutil.copy(self._source, new / "model.onnx")
        self.root.mkdir(exist_ok=True)
        self.newest += 1
        new.rename(self.root / str(self.newest))
        if self.newest > 2:
            shutil.rmtree(self.root / str(self.newest - 2))

    def states(self, server: Served) -> dict[int, str]:
        """Returns how the server's versions fare."""
        found = json.loads(server.get("/v1/models/many")[1])["model_version_status"]
        return {int(one["version"]): one["state"] for one in found}


def reloaded(is_polled: bool, count: int, folder: Path) -> tuple[list[list[object]], Seen]:
    """Loads ``count`` versions under load; returns rows about the server, and the clients' results.

    Args:
        is_polled: Whether the server finds versions by itself. Else each is loaded by a call.
        count: The number of versions.
        folder: The folder of the versions.
    """
    versions = Versions(folder)
    rows: list[list[object]] = []
    shown = {1, max(1, count // 10), count // 2, count}
    body = json.dumps({"instances": [np.ones((3, SIDE, SIDE)).tolist()]}).encode()
    how = ("--poll", "0.05") if is_polled else ("--allow-repository",)
    with (
        Served(str(versions.root), *how) as server,
        asking(
            server, body, "/v1/models/many:predict", "--connections", "2", "--until-told"
        ) as client,
    ):
        for number in range(1, count + 1):
            versions.add()
            if not is_polled:
                status, text = server.get("/v2/repository/models/many/load", b"{}")
                assert status == 200, text
            while versions.states(server).get(versions.newest) != "AVAILABLE":
                time.sleep(0.01)
            while versions.states(server).get(versions.newest - 1) != "END":
                time.sleep(0.01)
            if number in shown:
                figures = [server.resident(), server.threads(), server.descriptors()]
                rows.append(["poll" if is_polled else "load", number, *figures])
        seen = json.loads(client.communicate()[0])
    return rows, seen


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reloads", type=int, default=200)
    parser.add_argument("--ends", type=int, default=5, help="how often a server is ended")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    reloads, ends, seconds = (3, 1, 0.2) if given.quick else (given.reloads, given.ends, 1.0)
    with machine() as ran_on:
        rows = [ended(seconds, connections) for _ in range(ends) for connections in (1, 64)]
        columns = ["clients", "answers", "told of the end", "refused then", "lost", "exit code"]
        print_table("SIGTERM while clients ask", [*columns, "it took, s"], rows)
        rows, failed = [], []
        for is_polled in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                found, seen = reloaded(is_polled, reloads, Path(folder))
            rows += found
            wrong = {code: n for code, n in seen["statuses"].items() if code != "200"}
            text = f"{seen['answers']} answers, others: {wrong or 'none'}, lost: {seen['lost']}"
            failed.append(f"{found[0][0]}: {text}; p99 {seen['p99_us'] / 1e3:.0f} ms")
        columns = ["how", "reloads", "resident, MiB", "threads", "descriptors"]
        print_table("new versions under load, two clients", columns, rows)
        print("\n" + "\n".join(failed))
        print(f"\n{ran_on}")


if __name__ == "__main__":
    main()
