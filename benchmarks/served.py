"""A graph or model served by ``modelflow serve`` in a process of its own, for a benchmark."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import IO

from child import started

__all__ = ["GRAPHS", "Served"]

GRAPHS = Path(__file__).resolve().parent / "serving_graphs"
_SAMPLE = re.compile(r"^([\w:]+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_SECONDS = 60.0


class Served:
    """A server, ready, for the time of a block."""

    def __init__(self, *command: str, log: IO[str] | None = None) -> None:
        """Takes the arguments of ``modelflow serve``, and chooses a port.

        Args:
            command: The arguments.
            log: Receives the server's standard error. If None, `said` returns it.
        """
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._command = [sys.executable, "-m", "modelflow", "serve", *command]
        self._log = log
        self._command += ["--http", f"127.0.0.1:{self.port}", "--grpc", "off"]

    def __enter__(self) -> "Served":
        """Starts the server, and waits until the server is ready."""
        with contextlib.ExitStack() as stack:
            self._said = self._log or stack.enter_context(tempfile.TemporaryFile("w+"))
            quiet = {"stdout": subprocess.DEVNULL, "stderr": self._said}
            environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OPENBLAS_NUM_THREADS": "1"}
            self._process = stack.enter_context(
                started(self._command, cwd=GRAPHS, env=environment, **quiet)
            )
            deadline = time.monotonic() + _SECONDS
            while self.get("/readyz")[0] != 200:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = "" if self._log else f":\n{self.said()}"
                    message = f"{' '.join(self._command)} does not get ready{text}"
                    raise RuntimeError(message)
                time.sleep(0.1)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        """Ends the server in any state."""
        self._stack.close()

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    def said(self) -> str:
        """Returns the text of the server's standard error."""
        self._said.seek(0)
        return self._said.read()

    def get(self, path: str, body: bytes | None = None) -> tuple[int, str]:
        """Sends a request; returns status and text, with the status 0 if no server listens."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, body, timeout=_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def counts(self) -> Counter[str]:
        """Returns the counts of the server's metrics: requests by code, refusals by reason.

        Also ``under way``, and ``rows``: the rows given to units.
        """
        kinds = {
            "modelflow_requests_total": "code",
            "modelflow_refused_total": "reason",
            "modelflow_requests_under_way": "",
            "modelflow_node_buffers_total": "",
        }
        names = {
            "modelflow_requests_under_way": "under way",
            "modelflow_node_buffers_total": "rows",
        }
        found: Counter[str] = Counter()
        for name, labels, value in _SAMPLE.findall(self.get("/metrics")[1]):
            if name in kinds:
                key = names.get(name) or dict(_LABEL.findall(labels))[kinds[name]]
                found[key] += int(float(value))
        return found

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Waits for the end of the server, and returns the exit code."""
        return self._process.wait(_SECONDS)

    def resident(self) -> float:
        """Returns the server's memory in MiB."""
        return int(self._status("VmRSS")) / 1024

    def threads(self) -> int:
        """Returns the number of the server's threads."""
        return int(self._status("Threads"))

    def descriptors(self) -> int:
        """Returns the number of the server's open files and sockets."""
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def cpu(self) -> float:
        """Returns the processor seconds that the server has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _status(self, name: str) -> str:
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[1]
