"""The actor of a server: it runs ``modelflow serve`` on its machine.

The server is a process of its own, with a listener of its own: no request passes Ray.
"""

import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from modelflow.archive.received import SentArchives
from modelflow.errors import ModelflowError

MACHINE = "machine"
"""In the place of a host: the address of the machine that a server runs on."""

CLUSTER = "cluster"
"""In the place of what ``--on`` says: the address of the cluster that a server runs on."""

_COMMAND = (
    "import sys; from modelflow.signals import end_with; end_with(int(sys.argv.pop(1))); "
    "from modelflow.cli.main import main; main(sys.argv[1:])"
)
_STDERR = 2
# Of what a server that does not begin has said.
_TAIL = 2000  # bytes
_ANSWER = 2.0  # seconds
_QUEUED = b"modelflow_node_queue_rows{"
_FAR = re.compile(rb'replica="[^"]')


class ServerError(ModelflowError):
    """A server that did not begin; the message has what it said."""


class ServerActor:
    """Keeps one server; Ray calls its methods from several threads at once."""

    def __init__(self) -> None:
        """Keeps nothing yet."""
        self._archives = SentArchives()
        self.has, self.receive = self._archives.has, self._archives.receive
        self._folder = tempfile.TemporaryDirectory(prefix="modelflow-")
        self._log = _log()
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""

    def machine(self) -> str:
        """Returns how Ray calls the machine that this is on."""
        import ray

        found: str = ray.get_runtime_context().get_node_id()
        return found

    def open(
        self, words: Sequence[str], archives: Mapping[str, str], folder: str, timeout: float
    ) -> str:
        """Starts the server and waits until everything is loaded, and answers.

        Args:
            words: The arguments of ``modelflow serve``; the host `MACHINE` is this machine,
                ``--on=`` `CLUSTER` its cluster.
            archives: The digests of archives that they name, which were sent here, by the name of
                their file.
            folder: That which the caller is in: relative paths are below it here as well, where
                there is such a one.
            timeout: The longest wait in seconds.

        Returns:
            Its address: ``http://10.0.0.2:8501``.

        Raises:
            ServerError: it has ended, or was not ready in time.
        """
        import ray

        sent = Path(self._folder.name)
        for name, digest in archives.items():
            (sent / name).symlink_to(self._archives.path_of(digest))
        host = ray.util.get_node_ip_address()
        here = f"--on={ray.get_runtime_context().gcs_address}"
        given = [
            here if word == f"--on={CLUSTER}" else _here(word, host, sent, archives)
            for word in words
        ]
        begun = _size(self._log)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(str(sent / "notify"))
            self._process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, str(os.getpid()), "serve", *given],
                cwd=folder if Path(folder).is_dir() else sent,
                stdin=subprocess.DEVNULL,
                stdout=_STDERR,
                stderr=_STDERR,
                env={
                    **os.environ,
                    "NOTIFY_SOCKET": str(sent / "notify"),
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                },
            )
            self._address = self._ready(told, begun, timeout)
        return self._address

    def _ready(self, told: socket.socket, begun: int, timeout: float) -> str:
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
        code = self.wait()
        tail = _tail(self._log, begun)
        what = f"was not ready within {timeout:g} s" if not seen else f"has ended with {code}"
        raise ServerError(f"the server {what}: {tail or 'it said nothing'}")

    def wait(self) -> int:
        """Waits until the server has ended; returns its exit code."""
        process = self._process
        code = 0 if process is None else process.wait()
        self._folder.cleanup()
        return code

    def waiting(self) -> int:
        """Returns how many rows wait in the queues of its nodes; not of those that are elsewhere.

        One more server would be no help with these.
        """
        with urllib.request.urlopen(f"{self._address}/metrics", timeout=_ANSWER) as answer:
            lines = answer.read().splitlines()
        found = (line for line in lines if line.startswith(_QUEUED))
        return sum(int(float(line.split()[-1])) for line in found if not _FAR.search(line))

    def figures(self) -> dict[str, Any]:
        """Returns what runs here, as an actor of a part does."""
        import ray

        process = self._process
        log = f"; its log is {self._log} there" if self._log is not None else ""
        does = "serves" if process is None or process.poll() is None else "served"
        return {
            "label": f"{does} at {self._address or '(not yet)'}{log}",
            "machine": ray.util.get_node_ip_address(),
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
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        return self.wait()

    def end(self) -> None:
        """Ends the server at once, and removes what came here."""
        if self._process is not None:
            self._process.kill()
        self.wait()


def _log() -> Path | None:
    """Returns the file that Ray has this process write its errors to; None: it goes elsewhere."""
    path = Path(f"/proc/self/fd/{_STDERR}").readlink()
    return path if path.is_file() else None


def _size(log: Path | None) -> int:
    return 0 if log is None else log.stat().st_size


def _tail(log: Path | None, begun: int) -> str:
    """Returns the last of what was written to a log from some byte on."""
    if log is None:
        return "what it said is where Ray writes what its processes say"
    with log.open("rb") as file:
        file.seek(max(begun, _size(log) - _TAIL))
        return file.read(_TAIL).decode(errors="replace").strip()


def _here(word: str, host: str, folder: Path, names: Collection[str]) -> str:
    """Returns an argument as it holds on this machine.

    Args:
        word: The argument.
        host: The address of the machine, which `MACHINE` stands for.
        folder: Where what was sent is.
        names: What was sent.
    """
    name, mark, value = word.rpartition("=")
    if value.startswith(f"{MACHINE}:"):
        return f"{name}{mark}{host}{value.removeprefix(MACHINE)}"
    if value in names and not word.startswith("-"):
        return f"{name}{mark}{folder / value}"
    return word
