"""The actor of a server: it runs ``modelflow serve`` on its machine.

The server is a process of its own, with a listener of its own: no request passes Ray.
"""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelflow.errors import ModelflowError
from modelflow.ray.actor import Origin, take_up

__all__ = ["CLUSTER", "MACHINE", "ServerActor", "ServerError"]

MACHINE = "machine"
"""In the place of a host: the address of the machine that a server runs on."""

CLUSTER = "cluster"
"""In the place of what ``--on`` says: the address of the cluster that a server runs on."""

_COMMAND = (
    "import sys; from modelflow.ipc.process import end_with; end_with(int(sys.argv.pop(1))); "
    "from modelflow.cli.main import main; main(sys.argv[1:])"
)
# Of what a server that does not begin has said.
_TAIL = 2000  # bytes
_ANSWER = 2.0  # seconds
_QUEUED = b"modelflow_node_queue_rows{"


class ServerError(ModelflowError):
    """A server that did not begin; the message has what it said."""


class ServerActor:
    """Keeps one server; Ray calls its methods from several threads at once."""

    def __init__(self, origin: Origin) -> None:
        """Takes up where modules are found.

        Raises:
            RuntimeError: other versions run here than at the caller.
        """
        take_up(origin)
        self._folder = tempfile.TemporaryDirectory(prefix="modelflow-")
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""

    def machine(self) -> str:
        """Returns how Ray calls the machine that this is on."""
        import ray

        found: str = ray.get_runtime_context().get_node_id()
        return found

    def open(self, words: Sequence[str], archives: Mapping[str, bytes], timeout: float) -> str:
        """Starts the server and waits until everything is loaded, and answers.

        Args:
            words: The arguments of ``modelflow serve``; the host `MACHINE` is this machine,
                ``--on=`` `CLUSTER` its cluster.
            archives: Archives that they name, by the name of their file.
            timeout: The longest wait in seconds.

        Returns:
            Its address: ``http://10.0.0.2:8501``.

        Raises:
            ServerError: it has ended, or was not ready in time.
        """
        import ray

        folder = Path(self._folder.name)
        for name, content in archives.items():
            (folder / name).write_bytes(content)
        host = ray.util.get_node_ip_address()
        here = f"--on={ray.get_runtime_context().gcs_address}"
        given = [
            here if word == f"--on={CLUSTER}" else word.replace(f"{MACHINE}:", f"{host}:")
            for word in words
        ]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(str(folder / "notify"))
            with (folder / "said").open("wb") as said:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _COMMAND, str(os.getpid()), "serve", *given],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    env={
                        **os.environ,
                        "NOTIFY_SOCKET": str(folder / "notify"),
                        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    },
                )
            self._address = self._ready(told, timeout)
        return self._address

    def _ready(self, told: socket.socket, timeout: float) -> str:
        """Waits until the server says that it answers; returns where."""
        process = self._process
        assert process is not None  # it was started
        ended = os.pidfd_open(process.pid)
        try:
            seen, _, _ = select.select([told.fileno(), ended], [], [], timeout)
        finally:
            os.close(ended)
        if told.fileno() in seen:
            lines = told.recv(1 << 16).decode().splitlines()
            return next(line for line in lines if line.startswith("STATUS=")).split()[-1]
        process.kill()
        code = process.wait()
        tail = (Path(self._folder.name) / "said").read_bytes()[-_TAIL:].decode(errors="replace")
        what = f"was not ready within {timeout:g} s" if not seen else f"has ended with {code}"
        self._clear()
        message = f"the server {what}: {tail.strip() or 'it said nothing'}"
        raise ServerError(message)

    def wait(self) -> int:
        """Waits until the server has ended; returns its exit code."""
        process = self._process
        code = 0 if process is None else process.wait()
        self._clear()
        return code

    def waiting(self) -> int:
        """Returns how many rows wait in the queues of its nodes."""
        with urllib.request.urlopen(f"{self._address}/metrics", timeout=_ANSWER) as answer:
            lines = answer.read().splitlines()
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith(_QUEUED))

    def figures(self) -> dict[str, Any]:
        """Returns what runs here, as an actor of a part does."""
        process = self._process
        return {
            "label": f"serves at {self._address or '(not yet)'}",
            "process": os.getpid() if process is None else process.pid,
            "rows": {},
        }

    def stop(self, seconds: float) -> int:
        """Has the server answer what it has taken on, and end; returns its exit code.

        Args:
            seconds: After which it is killed.
        """
        process = self._process
        if process is None:
            return 0
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        self._clear()
        return code

    def end(self) -> None:
        """Ends the server at once, and removes what came here."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
        self._clear()

    def _clear(self) -> None:
        """Removes what came here: the actor is killed, which removes nothing."""
        shutil.rmtree(self._folder.name, ignore_errors=True)
